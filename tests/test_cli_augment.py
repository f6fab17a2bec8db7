"""``retrokit augment`` as typed: pipes, files that come whole or not at all, exit codes and messages."""

import gzip
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retrokit.augmentation.edits import sentence

Command = Callable[..., tuple[int, str, str]]

NAMES = ("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Henry", "Irene", "Jacob")
THINGS = ("apple", "basket", "candle", "drum", "engine")
REST = "and the small dog of her old father sleeps near the river until the long and quiet day is over"
TEXTS = [
    " ".join(f"{name} puts the red {thing} of the king under the green table {REST}." for thing in THINGS)
    for name in NAMES
]
PAIRS = [
    {"anchor": f"the {thing} of {name}", "positive": f"{name} has the {thing}"} for thing in THINGS for name in NAMES
]


def lines_of(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


CORPUS = lines_of(*({"id": f"t{i}", "text": text} for i, text in enumerate(TEXTS)))


@pytest.fixture
def augment(typed: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run ``retrokit augment …`` in a folder of files."""
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS)
    (tmp_path / "pairs.jsonl").write_bytes(lines_of(*PAIRS))

    def run(*words: object, stdin: bytes | None = None) -> tuple[int, str, str]:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code, out, err = typed("augment", *words)
        return code, out, "".join(line for line in err.splitlines(keepends=True) if "is a bare checkpoint" not in line)

    return run


@pytest.fixture
def commands(tiny_bert: Path) -> dict[str, list[str]]:
    """Every command on the test's own files, without its output."""
    return {
        "crops": ["crops", "corpus.jsonl"],
        "dropout": ["dropout", "corpus.jsonl"],
        "mask": ["mask", "corpus.jsonl", "--encoder", str(tiny_bert), "--fraction", "0.3"],
        "near-misses": ["near-misses", "corpus.jsonl"],
        "mix": ["mix", "pairs.jsonl,count=30"],
    }


ALL = ("crops", "dropout", "mask", "near-misses", "mix")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- what comes out


@pytest.mark.parametrize("name", ALL)
def test_a_file_standard_output_and_gzip_hold_the_same(augment, commands, tmp_path, name):
    code, out, err = augment(*commands[name], "-o", "a.jsonl")
    assert (code, out) == (0, "")
    written = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert len(written.splitlines()) >= 10
    assert augment(*commands[name]) == (0, written, err)
    assert augment(*commands[name], "-o", "b.jsonl.gz")[0] == 0
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()).decode() == written
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl", "a.jsonl", "b.jsonl.gz"}


# --- every option reaches the library


# --- pipes


# --- bad input


TOO_LONG = "no text gives a pair: 2 texts (1: empty text; 1: too few chunks of 2 sentences of 100 to 250 characters); "
TOO_LONG += "other sentence counts, lengths or another splitter may keep more"


WRONG = {
    "crops nowhere.jsonl": "nowhere.jsonl: does not exist",
    "crops corpus.jsonl,weight=2": "corpus.jsonl,weight=2: only the texts are read; leave weight out",
    "crops docstrings,split=test": "docstrings,split=test: only the texts are read; leave split out",
    "crops corpus.jsonl --field body": "corpus.jsonl:1: no field 'body'; the fields are 'id', 'text'",
    "crops corpus.jsonl -o corpus.jsonl": "corpus.jsonl: is an input too (corpus.jsonl); write to another file",
    "crops corpus.jsonl -o .": ".: could not be written: it is a folder",
    "crops corpus.jsonl --splitter periods": (
        "unknown splitter 'periods' (did you mean period?); known: period, multilingual"
    ),
    "crops corpus.jsonl --min-chars 9 --max-chars 8": "no sentence has 9 or more and 8 or fewer characters",
    "crops corpus.jsonl --per-text 0": "--per-text 0 is out of range (at least 1)",
    "mask corpus.jsonl --encoder BERT --epochs 0": "--epochs 0 is out of range (at least 1)",
    "mask corpus.jsonl --encoder BERT --fraction 1": (
        "a fraction of 1 of the tokens: expected more than 0 and less than 1"
    ),
    "near-misses corpus.jsonl --families negation,bindings": (
        "unknown family of edits 'bindings' (did you mean binding?)"
    ),
    "near-misses corpus.jsonl --positive other": "--positive other is none of anchor, paraphrase",
    "near-misses corpus.jsonl --positive paraphrase": "corpus.jsonl:1: no field 'anchor'; the fields are 'id', 'text'",
    "near-misses corpus.jsonl --split 0.8": "--split needs --output",
    "near-misses corpus.jsonl --split 1 -o x.jsonl": "--split 1.0 must be below 1",
    "near-misses corpus.jsonl --per-family 0": "--per-family 0 is out of range (at least 1)",
    "mix pairs.jsonl,count=51": "pairs.jsonl: has 50 rows, fewer than count=51; weight=1.02 would repeat some",
    "mix pairs.jsonl corpus.jsonl": "a mixture is of one kind: pairs.jsonl contains pairs, corpus.jsonl contains texts",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_use_is_one_line(augment, tiny_bert, tmp_path, words):
    before = (tmp_path / "pairs.jsonl").read_bytes()
    code, out, err = augment(*words.replace("BERT", str(tiny_bert)).split(), stdin=b"")
    assert (code, out, err) == (2, "", f"retrokit: {WRONG[words]}\n")
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl"}
    assert (tmp_path / "pairs.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["crops", "dropout", "mask", "near-misses"])
def test_the_texts_of_a_beir_folder_are_those_of_its_corpus(augment, commands, tmp_path, name):
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(CORPUS)
    command, _, *more = commands[name]
    code, of_file, _ = augment(command, "corpus.jsonl", *more)
    assert (code, of_file.count("\n") > 0) == (0, True)
    for spec in ("data", "beir:data"):
        assert augment(command, spec, *more)[:2] == (0, of_file)
    (folder / "corpus.jsonl").unlink()
    code, out, err = augment(command, "data", *more)
    assert (code, out) == (2, "")
    assert err.startswith("retrokit: data: contains no corpus.jsonl")


# --- a missing package


@pytest.fixture
def no_tagger_yet() -> Iterator[None]:
    """What earlier tests have loaded is forgotten, and what this one could not load as well."""
    loaders = [one for one in vars(sentence).values() if hasattr(one, "cache_clear")]
    for loader in loaders:
        loader.cache_clear()
    yield
    for loader in loaders:
        loader.cache_clear()


@pytest.mark.usefixtures("no_tagger_yet")
@pytest.mark.parametrize("package", ["HanTa", "lemminflect"])
def test_a_missing_package_is_named_with_its_extra(augment, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "corpus.jsonl").write_bytes(lines_of({"text": "The cat sees the dog under the table."}))
    code, out, err = augment("near-misses", "corpus.jsonl", "-o", "near.jsonl")
    message = "retrokit: negation needs an optional package: python -m pip install 'retrokit-ir[negatives]'\n"
    assert (code, out, err) == (3, "", message)
    assert names(tmp_path) == {"corpus.jsonl", "pairs.jsonl"}


def test_a_family_that_the_texts_do_not_have_is_named(augment, tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(lines_of({"text": "He walks down the stairs to the beach."}))
    code, _, err = augment("near-misses", "corpus.jsonl", "--families", "spatial,time", "-o", "near.jsonl")
    assert code == 0, err
    assert "time: none in these texts\n" in err
    assert "spatial: none" not in err


# --- interruption


# a shell starts what runs in the background deaf to Ctrl-C
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("retrokit", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_leaves_no_half_file(tmp_path, python):
    command = [python, "-c", INTERRUPTIBLE, "augment", "crops", "-", "-o", "pairs.jsonl"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stdin is not None
    process.stdin.write(CORPUS)
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while not names(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(names(tmp_path)) == 1  # the hidden file beside the output
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    assert process.wait(timeout=60) == 130
    process.stdin.close()
    assert names(tmp_path) == set()
