"""Every command that writes: it makes the folders above, takes no input for its output, and loses nothing of others."""

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from retrokit import cli
from retrokit.cli.root import application
from retrokit.core.settings import FOLDER, FOLDER_OR_ADDRESS
from retrokit.data.jsonl import write_jsonl
from tests.evaluation.fakes import write_folder
from tests.models import sentences
from tests.processes import retrokit_in
from tests.samples import all_samples
from tests.schemas import validator

SAMPLES = all_samples()
# What a command reads is in the folder in, {o} is its output; the answers of a language model need another test.
FILES = {
    "augment crops": "augment crops in/texts.jsonl -o {o}",
    "augment dropout": "augment dropout in/texts.jsonl -o {o}",
    "augment mask": "augment mask in/texts.jsonl --encoder in/bert -o {o}",
    "augment near-misses": "augment near-misses in/texts.jsonl -o {o}",
    "augment mix": "augment mix in/pairs.jsonl -o {o}",
    "eval --save-run": "eval static:8 --on beir:in/beir --save-run {o}",
    "rerank --save-run": "rerank static:8 --on beir:in/beir --with maxsim:encoder=in/bert --save-run {o}",
    **SAMPLES.writes_file,
}
FOLDERS = {
    "export": "export static:8 --on beir:in/beir -o {o}",
    "eval --results": "eval static:8 --on beir:in/beir --results {o}",
    "eval --plot": "eval static:8 --on beir:in/beir --plot {o}",
    "probe --plot": "probe magnitude static:8 --on beir:in/beir --plot {o}",
    **SAMPLES.writes_folder,
}
ONE_OF_EACH_WAY = ("augment crops", "eval --save-run", "export", "eval --results", "probe --plot")
"""Of writing: line by line, at the end, a new folder, into a folder, pictures."""
REPLACED = {"export": ("export static:8 --on beir:in/beir -o {o} --overwrite", "export.json")}

Typed = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    folder = tmp_path_factory.mktemp("inputs") / "in"
    shutil.copytree(tiny_bert, folder / "bert")
    long = "The temperature rose in May and it fell in the cold and dark months of the winter that came after it"
    write_jsonl(folder / "texts.jsonl", [{"text": ". ".join(f"{long} {i}{j}" for j in range(4))} for i in range(4)])
    texts = sentences(20)
    write_jsonl(folder / "pairs.jsonl", [{"anchor": a, "positive": b} for a, b in pairwise(texts)])
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": texts[i] for i in range(3)}
    write_folder(folder / "beir", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(3)})
    return folder


@pytest.fixture
def typed(inputs: Path, tmp_path: Path, monkeypatch: Any, capsys: Any) -> Typed:
    """Run a command in a folder whose name is not UTF-8."""
    work = tmp_path / os.fsdecode(b"caf\xe9")
    work.mkdir()
    shutil.copytree(inputs, work / "in")
    monkeypatch.chdir(work)

    def run(line: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.run(line.split())
        return code, capsys.readouterr().err

    return run


def content() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", [*FILES, *FOLDERS])
def test_folders_above_are_made(typed: Typed, command: str) -> None:
    before = content()
    name = os.fsdecode(b"some/wh\xe9re/out")
    code, err = typed((FILES | FOLDERS)[command].format(o=name))
    assert code == 0, err
    assert Path(name).is_file() if command in FILES else any(Path(name).iterdir())
    after = content()
    assert {path: after[path] for path in before} == before
    assert all(path in before or path.startswith(name) for path in after)


def test_a_picture_is_drawn_although_the_backend_of_a_notebook_is_missing(typed: Typed) -> None:
    code, err = typed("eval static:8 --on beir:in/beir --results results")
    assert code == 0, err
    environment = {**os.environ, "MPLBACKEND": "backend_of_a_notebook"}
    command = [sys.executable, "-m", "retrokit", "eval", "--results", "results", "--plot", "pictures"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(Path("pictures").glob("*.png"))


@pytest.mark.parametrize("command", ONE_OF_EACH_WAY)
@pytest.mark.parametrize("output", ["file/out", "circle", "long", "/proc/out"])
def test_what_cannot_be_written_is_said_in_one_line(typed: Typed, command: str, output: str) -> None:
    Path("file").write_text("content")
    Path("circle").symlink_to("circle")
    before = content()
    code, err = typed((FILES | FOLDERS)[command].format(o="x" * 300 if output == "long" else output))
    assert code == 2
    assert "could not be written: " in err
    assert err.count("retrokit: ") == err.count("\nretrokit: ") + err.startswith("retrokit: ") == 1
    assert "Traceback" not in err
    assert content() == before
    assert Path("circle").is_symlink()


WHOLE = {
    "finetune": "finetune in/bert --data in/pairs.jsonl --batch-size 4 --steps 2 --device cpu -o {o}",
    **SAMPLES.writes_whole_folder,
}
"""Commands that write a folder whole or not at all."""


def limit_files(rank: int) -> None:
    """To so many bytes, standard output and error too."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["LARGEST_FILE"]),) * 2)


@pytest.mark.parametrize("command", [*ONE_OF_EACH_WAY, "augment mix", *WHOLE])
def test_an_output_that_is_too_large_for_its_disk_is_one_line_that_names_it(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    validator("file-run")  # builds the schemas, which are larger
    monkeypatch.setenv("LARGEST_FILE", "12000" if command == "finetune" else "600")  # which prints more
    shutil.copytree(inputs, tmp_path / "in")
    line = (FILES | FOLDERS | WHOLE)[command].format(o="new/out")
    (ended,) = retrokit_in(1, tmp_path, line.split(), limit_files)
    messages = [text for text in ended.err.splitlines() if text.startswith("retrokit: ")]
    assert ended.code == 2, ended.err
    assert len(messages) == 1, ended.err
    name = r"a temporary file in \S+" if command == "augment mix" else r"new/out(/[\w./-]+)?"
    assert re.match(rf"retrokit: {name}: could not be written: .*File too large", messages[0]), messages
    assert "Traceback" not in ended.err
    assert "retrokit-" not in messages[0]
    left = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if "retrokit-" in path.name]
    assert left == []
    if command not in ("finetune", "probe --plot"):  # a run to resume, and a table that was complete
        assert [path.name for path in tmp_path.glob("new/*") if path.name != "out.work"] == []


@pytest.mark.parametrize("command", REPLACED)
def test_only_what_a_command_made_is_replaced(typed: Typed, command: str) -> None:
    line, mark = REPLACED[command]
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    assert typed(line.format(o="mine"))[0] == 2
    assert typed(FOLDERS[command].format(o="out"))[0] == 0
    assert typed(line.format(o="out"))[0] == 0
    Path("out/thesis.txt").write_text("years of work")
    before = content()
    code, err = typed(line.format(o="out"))
    assert (code, "out contains files that it did not create (thesis.txt)" in err) == (2, True)
    assert content() == before
    Path("out/thesis.txt").unlink()
    shutil.copytree("in/beir", "out/sub")
    before = content()
    assert typed(line.replace("in/beir", "out/sub").format(o="out"))[0] == 2
    assert content() == before
    assert Path("out", mark).is_file()


# --- every command, output and input

LINES = {
    "augment crops": "in/texts.jsonl",
    "augment dropout": "in/texts.jsonl",
    "augment mask": "in/texts.jsonl --encoder in/bert",
    "augment split": "in/pairs.jsonl",
    "augment near-misses": "in/texts.jsonl --llm openai:x,url=http://127.0.0.1:9/v1",
    "augment mix": "in/pairs.jsonl,weight=2 in/texts.jsonl",
    "eval": "in/bert run:in/run.trec --on beir:in/beir --trained-on in/pairs.jsonl",
    "rerank run": "--run in/run.trec --on beir:in/beir --with in/bert --paraphrases in/pairs.jsonl",
    "rerank train": "cnn in/bert --data in/pairs.jsonl --dev in/texts.jsonl",
    "rerank shrink": "in/bert --encoder in/bert",
    "rerank verify": "in/bert in/pairs.jsonl",
    "finetune": "in/bert --data in/pairs.jsonl,weight=2 --eval beir:in/beir,split=test --loss infonce:guide=in/bert",
    "export": "in/bert --on in/beir",
    "search": "hybrid:a=bm25,b=in/bert --corpus in/texts.jsonl --queries in/pairs.jsonl",
    "build-sure build": "in/beir --llm openai:x,url=http://127.0.0.1:9/v1 --prompts in/beir",
    **dict.fromkeys(
        (f"probe {kind}" for kind in ("magnitude", "fisher", "near-miss")),
        "in/bert --on beir:in/beir",
    ),
    "probe fragments": "in/bert --on beir:in/beir --size 16",
    **SAMPLES.inputs,
}


def outputs_of(command: Any) -> dict[str, str]:
    """The options of a command that write, with their kind."""
    written = {name: option.param.writes for name, option in command.callback.call.options.items()}
    return {max(one.opts, key=len): written[one.name] for one in command.params if written.get(one.name)}


def leaves(command: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    for word, part in below.items():
        yield from leaves(part, f"{words} {word}".strip())
    if not below:
        yield words, command


COMMANDS = dict(leaves(application()))
OUTPUTS = {name: found for name, command in COMMANDS.items() if (found := outputs_of(command))}


@pytest.mark.parametrize("words", ["export static --on a", "finetune static --data pairs.jsonl", "augment crops a"])
def test_an_empty_output_is_refused(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.run([*words.split(), "-o", ""]) == 2
    assert capsys.readouterr().err == "retrokit: --output is empty; expected a path to write\n"
    assert not list(tmp_path.iterdir())


def test_every_output_is_known() -> None:
    """The lines above have every command that writes, and what is named like an output is checked as one."""
    assert LINES.keys() == OUTPUTS.keys()
    named = re.compile(r"--(output|save-(?!every).*|plot|junit|markdown.*|store|work|cache|mteb|train|test)")
    options = {(name, one) for name, command in COMMANDS.items() for param in command.params for one in param.opts}
    for name, option in options:
        assert not named.fullmatch(option) or option in OUTPUTS[name]


@pytest.mark.parametrize("command", LINES)
def test_no_output_replaces_an_input(typed: Typed, command: str) -> None:
    """Under its own name or as a link, alone or in a folder, and given in a file of options."""
    for name in ("run.trec", "baseline.json", "study.toml"):
        Path("in", name).write_text("content")
    Path("in/options.toml").write_text("")
    words = LINES[command]
    read = [one for word in words.split() for one in re.split("[:=,]", word) if Path(one).exists()]
    assert read
    files = [*read, "in/options.toml"]
    files += [str(path) for one in read if Path(one).is_dir() for path in Path(one).rglob("*.*") if path.is_file()][:3]
    before = content()
    for option, kind in OUTPUTS[command].items():
        others = "".join(f" {one} other{place}" for place, one in enumerate(OUTPUTS[command]) if one != option)
        for number, path in enumerate(dict.fromkeys(files)):
            Path(f"link{number}").symlink_to(path)
            for name in (path, f"link{number}"):
                code, err = typed(f"{command} {words} --config in/options.toml{others} {option} {name}")
                assert code == 2, (option, name, err)
                assert err.startswith(f"retrokit: {name}: "), err
                assert err.count("\n") == 1
                if kind not in (FOLDER, FOLDER_OR_ADDRESS) and Path(path).is_file():
                    assert "is an input too (in/" in err
            Path(f"link{number}").unlink()
        for other in OUTPUTS[command]:
            if other != option:
                code, err = typed(f"{command} {words} {other} same {option} ./same")
                assert (code, "is the name of two outputs (" in err) == (2, True), err
    assert content() == before


def test_a_baseline_may_be_updated_and_no_other_file_replaces_it(typed: Typed) -> None:
    line = "eval static:8 --on beir:in/beir --metrics ndcg@10"
    assert typed(f"{line} --save-baseline base.json")[0] == 0
    before = content()
    for other in ("--junit", "--markdown-summary", "--save-run"):
        code, err = typed(
            f"{line} --fail-under ndcg@10=0 --baseline base.json --save-baseline ./base.json {other} base.json"
        )
        assert (code, "is an input too" in err) == (2, True), err
    assert content() == before
    Path("base.json").chmod(0o600)
    assert typed(f"{line} --baseline base.json --save-baseline ./base.json")[0] == 0
    assert Path("base.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["runs/", "some/runs/", "there"])
@pytest.mark.parametrize(
    "line", ["eval static:8 --on beir:in/beir", FILES["rerank --save-run"].partition(" --save")[0]]
)
def test_a_run_goes_into_a_folder_that_is_named_as_one(typed: Typed, line: str, name: str) -> None:
    Path("there").mkdir()
    code, err = typed(f"{line} --save-run {name}")
    assert code == 0, err
    (run,) = Path(name).iterdir()
    assert run.suffix == ".trec"
    assert run.read_text().startswith("q0 Q0 d0 1 ")
