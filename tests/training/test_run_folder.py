"""Run folders: nothing of value is lost by a run, whatever stands in its place and wherever it is killed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError
from retrokit.core.outputs import locked
from retrokit.data.jsonl import read_jsonl, write_jsonl
from retrokit.data.runs import Run, write_run
from retrokit.training import run_folder
from retrokit.training.run_folder import RunFolder, staged_in
from tests.models import sentences
from tests.runs import assert_same_weights, killed_after, weights

OPTIONS = {
    "finetune": ("--steps", 4, "--save-every", 2, "--batch-size", 8, "--precision", "fp32", "--device", "cpu"),
    "rerank train": ("--steps", 4, "--eval-every", 2, "--batch-size", 8, "--precision", "fp32", "--device", "cpu"),
}

Typed = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = sentences(64)
    rows = [{"anchor": a, "positive": b, "negatives": [a[::-1]]} for a, b in zip(texts[:32], texts[32:], strict=True)]
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    write_jsonl(path, rows)
    return path


@pytest.fixture(params=OPTIONS)
def command(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def typed(command: str, tiny_bert: Path, data: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> Typed:
    """Train in the test's folder: exit code and what was said. Other data, encoder and output may be named."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def run(*more: object, encoder: object = tiny_bert, read: object = data, output: object = "run") -> tuple[int, str]:
        named = [*command.split(), *(["cnn:channels=2"] if command == "rerank train" else []), encoder]
        words = [*named, "--data", read, "-o", output, *OPTIONS[command], *more]
        capsys.readouterr()
        code = cli.run([*map(str, words)])
        return code, capsys.readouterr().err

    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Put a run there that has been trained once for all: ``made(command, typed, seed, output)``."""
    kept = tmp_path_factory.mktemp("kept")

    def put(command: str, typed: Typed, seed: int, output: object = "run") -> None:
        folder = kept / f"{command}-{seed}"
        if not folder.exists():
            code, err = typed("--seed", seed, output=folder)
            assert code == 0, err
        shutil.copytree(folder, str(output))

    return put


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def killed(typed: Typed, *more: object, after: int = 3) -> None:
    with killed_after(after):
        typed(*more)


# --- what --overwrite may replace


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"read": "gone.jsonl"}, "gone.jsonl: does not exist"),
        ({"encoder": "./gone"}, "gone"),
        ({"more": ("--lr", "-1")}, "lr"),
        ({"more": ("--batch-size", 999)}, "999"),
        ({"more": ("--best-metric", "beauty")}, "--best-metric"),
        ({"more": ("--steps", 0)}, "--steps"),
        ({"read": "run/data.jsonl"}, "run contains files that it did not create (data.jsonl)"),
        ({"read": "run/checkpoints/data.jsonl"}, "files that it did not create (checkpoints/data.jsonl)"),
        ({"read": "link.jsonl"}, "files that it did not create (checkpoints/data.jsonl)"),
        ({"encoder": "run/model"}, "run contains files that it did not create (model)"),
        ({"encoder": "run/checkpoints/model"}, "files that it did not create (checkpoints/model)"),
        ({"output": "run/."}, "run contains"),
        ({"output": "."}, "exists and is not a run"),
        ({"output": ".."}, "exists and is not a run"),
        ({"output": "mine"}, "mine exists and is not a run"),
        ({"output": "file"}, "file: could not be written: it is not a folder"),
        ({"output": "file/run"}, "could not be written"),
        ({"output": "x" * 300}, "File name too long"),
    ],
    ids=str,
)
def test_whatever_is_wrong_the_run_before_is_kept(
    command: str, typed: Typed, tiny_bert: Path, data: Path, more: dict[str, Any], said: str
) -> None:
    RunFolder("run").begin(Run("finished", "cosine", "minilm", {}, files=["weights"]))
    (Path("run") / "weights").write_text("weeks of training")
    (Path("mine")).mkdir()
    (Path("mine") / "thesis.txt").write_text("years of work")
    Path("file").write_text("content")
    for option in ("read", "encoder", "output"):
        place = Path(str(more.get(option, "elsewhere")))
        if place == Path("run") or "run" in place.parts[:1]:
            if option == "encoder":
                shutil.copytree(tiny_bert, place)
            else:
                shutil.copy(data, place if option == "read" else "run/data.jsonl")
    if more.get("read") == "link.jsonl":
        shutil.copy(data, "run/checkpoints/data.jsonl")
        Path("link.jsonl").symlink_to("run/checkpoints/data.jsonl")
    before = content(Path(".."))
    options = {name: value for name, value in more.items() if name != "more"}
    code, err = typed(*more.get("more", ()), "--overwrite", **options)
    assert code == 2, err
    assert said in err
    assert content(Path("..")) == before


def test_a_run_is_replaced_at_the_end(command: str, typed: Typed, made: Callable[..., None]) -> None:
    made(command, typed, 1)
    (Path("run") / "plots").mkdir(exist_ok=True)  # drawn afterwards
    (Path("run") / "plots" / "loss.png").touch()
    made(command, typed, 2, "other")
    assert not all(map(torch.equal, weights(Path("run")).values(), weights(Path("other")).values()))
    code, err = typed("--seed", 2, "--overwrite")
    assert code == 0, err
    assert_same_weights(Path("run"), Path("other"))
    assert sorted(os.listdir()) == ["other", "run"]
    assert not list(Path("run").glob(".*")), "what was staged has been moved"


def test_who_may_read_the_folder_may_read_the_model(command: str, typed: Typed, made: Callable[..., None]) -> None:
    made(command, typed, 1)
    files = [path for path in Path("run").rglob("*") if path.is_file() and "checkpoints" not in path.parts]
    assert any(path.suffix == ".safetensors" for path in files)
    of_folder = Path("run").stat().st_mode & 0o666
    assert {path: path.stat().st_mode & 0o777 for path in files} == dict.fromkeys(files, of_folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "modules.json", "1_Pooling", "model.safetensors"])
@pytest.mark.parametrize("command", ["finetune"])
def test_a_run_that_has_lost_a_part_says_which(
    command: str, typed: Typed, made: Callable[..., None], name: str
) -> None:
    made(command, typed, 1)
    lost = Path("run", name)
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    with pytest.raises(DataError, match=f"run/{name}: is missing") as caught:
        retrokit.encoder("run")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("command", ["finetune"])
def test_a_run_needs_no_card(command: str, typed: Typed, made: Callable[..., None]) -> None:
    made(command, typed, 1)
    Path("run", "README.md").unlink()
    assert retrokit.encoder("run").dimension == 16


# --- killed while it replaces another


@pytest.mark.parametrize("after", [0, 3])
def test_an_overwriting_run_that_is_killed_goes_on(
    command: str, typed: Typed, made: Callable[..., None], after: int
) -> None:
    made(command, typed, 1)
    before = content(Path("run"))
    made(command, typed, 2, "whole")
    killed(typed, "--seed", 2, "--overwrite", after=after)
    assert content(Path("run")) == before
    code, err = typed("--seed", 3, "--resume")
    assert code == 2
    assert "seed was 2, now 3" in err
    code, err = typed("--seed", 2, "--resume")
    assert code == 0, err
    assert_same_weights(Path("run"), Path("whole"))
    assert sorted(os.listdir()) == ["run", "whole"]
    code, err = typed("--seed", 2, "--resume")
    assert (code, "run is finished; nothing to resume" in err) == (2, True)


def test_an_unfinished_successor_is_dropped_only_when_that_is_asked(
    command: str, typed: Typed, made: Callable[..., None]
) -> None:
    made(command, typed, 1)
    killed(typed, "--seed", 2, "--overwrite")
    shutil.rmtree("run")
    code, err = typed("--seed", 3)
    assert code == 2
    assert "an unfinished run that replaces run is in" in err
    assert len(err.strip().splitlines()) == 1
    code, err = typed("--seed", 3, "--overwrite")
    assert code == 0, err
    assert os.listdir() == ["run"]


@pytest.mark.parametrize("where", ["before", "between", "after"])
def test_a_kill_while_it_takes_the_place(
    command: str, typed: Typed, made: Callable[..., None], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    made(command, typed, 1)
    before = content(Path("run"))
    made(command, typed, 2, "whole")

    def dying(new: Path, target: Path) -> None:
        if where != "before":
            os.rename(target, run_folder.beside(target, "retrokit-old"))
        if where == "after":
            os.rename(new, target)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "take_place", dying)
        with pytest.raises(RuntimeError, match="killed"):
            typed("--seed", 2, "--overwrite")
    if where == "between":
        code, err = typed("--seed", 1)  # what was there is there again, or at least not lost
        assert (code, "run exists" in err) == (2, True)
        assert content(run_folder.beside(Path("run"), "retrokit-old")) == before
    code, err = typed("--seed", 2, "--resume")
    assert code == 0, err
    assert_same_weights(Path("run"), Path("whole"))
    assert sorted(os.listdir()) == ["run", "whole"]


# --- what a user keeps among the checkpoints


def add_files_of_a_user(run: Path, checkpoint: str) -> dict[str, bytes]:
    """What a user may keep among the checkpoints of a run and in them; returns it."""
    folder = run / "checkpoints"
    shutil.copytree(folder / checkpoint, folder / f"{checkpoint}-backup")
    (folder / "checkpoint-best.zip").write_text("packed")
    (folder / "checkpoint-mine").mkdir()
    (folder / "checkpoint-mine" / "notes.txt").write_text("years of work")
    (folder / "checkpoint-007").mkdir()
    (folder / "checkpoint-007" / "notes.txt").write_text("another name")
    (folder / "checkpoint-3").mkdir()  # as a kill leaves one
    (folder / "checkpoint-3" / "trainable.pt").write_bytes(b"half")
    (folder / "checkpoint-3" / "notes.txt").write_text("in a folder of a run")
    (folder / checkpoint / "notes.txt").write_text("in a checkpoint")
    (folder / "checkpoint-9").symlink_to("checkpoint-mine")
    files = content(folder)
    names = {name for name in files if "backup" in name or "zip" in name or "mine" in name or "notes" in name}
    return {name: files[name] for name in names}


def test_a_resumed_run_touches_nothing_of_the_users(command: str, typed: Typed, made: Callable[..., None]) -> None:
    made(command, typed, 1, "whole")
    killed(typed, "--seed", 1)
    before = add_files_of_a_user(Path("run"), "checkpoint-2")
    code, err = typed("--seed", 1, "--resume")
    assert code == 0, err
    assert_same_weights(Path("run"), Path("whole"))
    after = content(Path("run/checkpoints"))
    assert {name: after.get(name) for name in before} == before
    assert Path("run/checkpoints/checkpoint-9").is_symlink()
    assert os.listdir("run/checkpoints/checkpoint-3") == ["notes.txt"]
    assert "run/checkpoints/checkpoint-2" not in err
    complete = content(Path("run"))
    code, err = typed("--seed", 2, "--overwrite")
    assert (code, "run contains files that it did not create (checkpoints/checkpoint-" in err) == (2, True), err
    assert content(Path("run")) == complete


def test_old_checkpoints_are_dropped_without_what_a_user_has_put_there(tmp_path: Path) -> None:
    """The newest are kept by their steps: by name, 10 comes before 9."""
    folder = RunFolder(tmp_path / "run", keep_checkpoints=2)
    folder.begin(Run("training", "cosine", "minilm", {}))
    for step in (8, 9, 10, 11):
        checkpoint = folder.checkpoint(step)
        (checkpoint / "1_Pooling").mkdir(parents=True)
        (checkpoint / "model.safetensors").write_text("weights")
        files = ["1_Pooling", "model.safetensors"]
        write_run(Run("finished", "cosine", "minilm", step=step, files=files), checkpoint)
        if step == 8:
            (checkpoint / "notes.txt").write_text("years of work")
        folder.complete(checkpoint, {}, best_step=None)
        assert folder.last_checkpoint() == checkpoint
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == [
        "checkpoint-10",
        "checkpoint-11",
        "checkpoint-8",
    ]
    assert os.listdir(folder.checkpoint(8)) == ["notes.txt"]


@pytest.mark.parametrize("name", ["plots/thesis.txt", "tokens/thesis.txt", "checkpoints/thesis.txt"])
def test_a_file_in_a_folder_of_a_run_is_not_replaced(
    command: str, typed: Typed, made: Callable[..., None], name: str
) -> None:
    made(command, typed, 1)
    Path("run", name).parent.mkdir(exist_ok=True)
    Path("run", name).write_text("years of work")
    before = content(Path("run"))
    code, err = typed("--seed", 2, "--overwrite")
    assert (code, f"run contains files that it did not create ({name})" in err) == (2, True), err
    assert content(Path("run")) == before


def test_the_last_checkpoint_is_that_of_the_highest_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", keep_checkpoints=2)
    folder.begin(Run("training", "cosine", "minilm", {}))
    for step in (8, 9, 10):
        folder.checkpoint(step).mkdir()
        folder.complete(folder.checkpoint(step), {}, best_step=None)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["checkpoint-10", "checkpoint-9"]
    assert folder.last_checkpoint() == folder.checkpoint(10)
    folder.checkpoint(11).mkdir()  # a kill before its state was written
    assert folder.last_checkpoint() == folder.checkpoint(10)
    assert not folder.checkpoint(11).exists()
    for step in (11, 12):
        folder.checkpoint(step).mkdir()
        folder.complete(folder.checkpoint(step), {}, best_step=9)
    assert {path.name for path in folder.checkpoints.iterdir()} == {f"checkpoint-{step}" for step in (9, 11, 12)}
    write_jsonl(folder.metrics, [{"step": step, "seconds": 1.0} for step in (10, 11, 12)])
    assert [row["step"] for row in folder.truncate_metrics(11)] == [10, 11]
    assert [row["step"] for _, row in read_jsonl(folder.metrics)] == [10, 11]


LINE = '{"step": 1, "seconds": 0.5, "evaluation": {"ndcg": 0.5}}\n'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"step": 0}\n{"step"\n' + LINE, "metrics.jsonl:2: malformed JSON"),
        ('{"step": 0}\n' + LINE + '{"step"\n', "metrics.jsonl:3: malformed JSON"),
        (LINE + '{"step": 2, "evaluation": {"mrr": 0.5}}\n', "metrics.jsonl:2: its evaluation and the first have diff"),
        (LINE.replace("ndcg", "mrr"), "metrics.jsonl: the evaluation of step 1 lacks 'ndcg'"),
    ],
)
def test_a_damaged_line_of_metrics_is_named_and_stays(tmp_path: Path, content: str, problem: str) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.write_text(content)
    with pytest.raises(DataError, match=problem):
        folder.truncate_metrics(1, "ndcg")
    assert folder.metrics.read_text() == content


def test_a_last_line_that_a_kill_has_cut_is_dropped(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.metrics.write_text(LINE + '{"step": 2, "evalu')
    assert folder.truncate_metrics(2, "ndcg") == [json.loads(LINE)]
    assert folder.metrics.read_text() == LINE


def test_a_kill_between_the_files_of_the_model_leaves_a_run_that_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run = RunFolder(tmp_path / "run"), Run("training", "cosine", "minilm", {})
    folder.begin(run)
    move = os.replace

    def dying(source: Path, target: Path) -> None:
        if Path(source).name == "second.bin":
            raise RuntimeError("killed")
        move(source, target)

    with staged_in(folder.path) as staged:
        for name in ("first.bin", "second.bin"):
            (staged / name).write_text(name)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", dying)
            with pytest.raises(RuntimeError, match="killed"):
                folder.finish(staged, run)
    assert (tmp_path / "run" / "first.bin").is_file()
    assert not (tmp_path / "run" / "second.bin").exists()
    assert folder.read().status == "training"
    RunFolder(tmp_path / "run", overwrite=True).check()


# --- folders that nothing could be done with


@pytest.mark.parametrize("option", ["", "--resume", "--overwrite"])
@pytest.mark.parametrize("left", [(), ("checkpoints/",), ("checkpoints/", ".retrokit.json.0123abcd.retrokit-tmp")])
def test_what_a_kill_at_the_start_leaves_is_no_hindrance(tmp_path: Path, option: str, left: tuple[str, ...]) -> None:
    target = tmp_path / "run"
    target.mkdir()
    for name in left:
        (target / name).mkdir() if name.endswith("/") else (target / name).touch()
    folder = RunFolder(target, overwrite=option == "--overwrite", resume=option == "--resume")
    folder.check()
    with folder.locked():
        assert not folder.resumes
        folder.begin(Run("training", "cosine", "minilm", {}))
    assert (target / "retrokit.json").is_file()
    assert os.listdir(tmp_path) == ["run"]


def test_a_readme_of_the_user_stays(tmp_path: Path) -> None:
    folder, run = RunFolder(tmp_path / "run"), Run("training", "cosine", "minilm", {})
    folder.begin(run)
    (tmp_path / "run" / "README.md").write_text("years of work")
    with staged_in(folder.path) as staged:
        for name in ("README.md", "first.bin"):
            (staged / name).write_text(name)
        folder.finish(staged, run)
    assert (tmp_path / "run" / "README.md").read_text() == "years of work"
    assert (tmp_path / "run" / "first.bin").is_file()
    assert folder.read().files == ["first.bin"]


def test_a_link_to_a_run_stays_one(command: str, typed: Typed, made: Callable[..., None]) -> None:
    Path("disk").mkdir()
    Path("run").symlink_to("disk/run")
    made(command, typed, 1, "disk/run")
    before = content(Path("disk/run"))
    assert typed("--seed", 2, "--overwrite")[0] == 0
    assert Path("run").is_symlink()
    assert content(Path("disk/run")) != before
    assert os.listdir("disk") == ["run"]


def test_a_folder_that_appears_while_the_run_is_planned_is_kept(
    command: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def appear(target: Any) -> Any:
        Path("run").mkdir()
        (Path("run") / "thesis.txt").write_text("years of work")
        return locked(target)

    monkeypatch.setattr(run_folder, "locked", appear)
    code, err = typed()
    assert (code, "run exists; give --overwrite" in err) == (2, True)
    assert content(Path("run")) == {"thesis.txt": b"years of work"}


def test_a_start_that_fails_leaves_nothing(command: str, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RunFolder, run: Run) -> None:
        raise DataError(self.path, "could not be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "describe", full)
        code, err = typed(output="some/where/run")
        assert (code, "No space left" in err) == (2, True)
    assert os.listdir() == []
    assert typed()[0] == 0


# --- two at once


@pytest.mark.parametrize("option", ["", "--resume", "--overwrite"])
def test_the_second_of_two_is_refused(command: str, typed: Typed, option: str) -> None:
    if option:
        killed(typed)
        before = content(Path("run"))
    with locked("run"):
        code, err = typed(*([option] if option else []))
        assert code == 2
        assert "run is being written by another command; wait for it" in err
        assert len(err.strip().splitlines()) == 1
    if option:
        assert content(Path("run")) == before
    assert typed(*([option] if option else []))[0] == 0
    assert os.listdir() == ["run"]
