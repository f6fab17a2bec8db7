"""Every command that writes: it makes the folders above, takes no input for its output, and loses nothing of others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from tests.evaluation.fakes import write_folder
from tests.models import sentences

# What a command reads is in the folder in, {o} is its output; the answers of a language model need another test.
FILES = {
    "augment crops": "augment crops in/texts.jsonl -o {o}",
    "augment dropout": "augment dropout in/texts.jsonl -o {o}",
    "augment mask": "augment mask in/texts.jsonl --encoder in/bert -o {o}",
    "augment negatives": "augment negatives in/texts.jsonl -o {o}",
    "augment mine": "augment mine in/pairs.jsonl --encoder static:8 --margin none --last-rank 7 -o {o}",
    "augment mix": "augment mix in/pairs.jsonl -o {o}",
    "eval --save-run": "eval static:8 --on beir:in/beir --save-run {o}",
    "rerank --save-run": "rerank static:8 --on beir:in/beir --with maxsim:encoder=in/bert --save-run {o}",
}
FOLDERS = {
    "export": "export static:8 --on beir:in/beir -o {o}",
    "eval --results": "eval static:8 --on beir:in/beir --results {o}",
    "eval --plot": "eval static:8 --on beir:in/beir --plot {o}",
    "probe --plot": "probe magnitude static:8 --on beir:in/beir --plot {o}",
}
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
    write_folder(folder / "beir", documents, {"q0": texts[0], "q1": texts[1]}, {"q0": {"d0": 1}, "q1": {"d1": 1}})
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


@pytest.mark.parametrize("command", [*FILES, *FOLDERS])
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


@pytest.mark.parametrize("command", [name for name in FILES if name.startswith("augment")])
@pytest.mark.parametrize("how", ["itself", "link", "hard link"])
def test_an_input_is_never_the_output(typed: Typed, command: str, how: str) -> None:
    source = next(word for word in FILES[command].split() if word.startswith("in/"))
    output = source if how == "itself" else "other.jsonl"
    if how == "link":
        Path(output).symlink_to(source)
    elif how == "hard link":
        os.link(source, output)
    before = content()
    code, err = typed(FILES[command].format(o=output))
    assert (code, err) == (2, f"retrokit: {output}: is an input too; write to another file\n")
    assert content() == before


def test_a_split_output_that_is_the_input(typed: Typed) -> None:
    os.rename("in/texts.jsonl", "in/x.train.jsonl")
    before = content()
    code, err = typed("augment negatives in/x.train.jsonl --split 0.5 -o in/x.jsonl")
    assert (code, "in/x.train.jsonl: is an input too" in err) == (2, True)
    assert content() == before


@pytest.mark.parametrize("command", FOLDERS)
def test_what_lies_in_a_folder_stays(typed: Typed, command: str) -> None:
    Path("out").mkdir()
    Path("out/thesis.txt").write_text("years of work")
    typed(FOLDERS[command].format(o="out"))
    assert Path("out/thesis.txt").read_text() == "years of work"


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
    assert (code, "out holds what was not made with it (thesis.txt)" in err) == (2, True)
    assert content() == before
    Path("out/thesis.txt").unlink()
    shutil.copytree("in/beir", "out/sub")
    before = content()
    assert typed(line.replace("in/beir", "out/sub").format(o="out"))[0] == 2
    assert content() == before
    assert Path("out", mark).is_file()
