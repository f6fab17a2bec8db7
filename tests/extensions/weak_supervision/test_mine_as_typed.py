"""``retrokit augment mine`` as typed: where its rows go, wrong use, and names of a third party."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retrokit.data.jsonl import write_jsonl
from retrokit.extensions.weak_supervision.settings import MiningSettings
from tests import forked_python
from tests.plugins import install
from tests.ranking.test_plugins import DOCUMENTS, ENTRIES, IMPLEMENTATION, RUN
from tests.test_cli_augment import PAIRS
from tests.test_cli_numbers import ABSURD

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def mine(typed: Command, tmp_path: Path) -> Command:
    """Mine for pairs in the file ``pairs.jsonl``."""
    write_jsonl(tmp_path / "pairs.jsonl", PAIRS)
    return lambda *words: typed("augment", "mine", "pairs.jsonl", "--encoder", "static:8", *words)


def test_a_file_standard_output_and_gzip_contain_the_same(mine: Command, tmp_path: Path) -> None:
    options = ("--margin", "none", "--sampling", "random")
    code, out, err = mine(*options, "-o", "a.jsonl")
    assert (code, out) == (0, "")
    assert re.fullmatch(r"[\d,]+ negatives for [\d,]+ rows from [\d,]+ candidates; .*\n", err)
    written = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert len(written.splitlines()) == len(PAIRS)
    assert mine(*options) == (0, written, err)
    assert mine(*options, "-o", "b.jsonl.gz")[0] == 0
    assert gzip.decompress((tmp_path / "b.jsonl.gz").read_bytes()).decode() == written
    assert {path.name for path in tmp_path.iterdir()} == {"pairs.jsonl", "a.jsonl", "b.jsonl.gz"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--margin 0,04", "--margin 0,04: expected a number or none"),
        ("--margin -1", "--margin -1.0 is out of range (at least 0)"),
        ("--last-rank 5", "7 negatives cannot come from 5 ranks; widen the range of ranks"),
    ],
)
def test_wrong_use_is_one_line(mine: Command, tmp_path: Path, words: str, message: str) -> None:
    assert mine(*words.split()) == (2, "", f"retrokit: {message}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_no_absurd_number_is_a_margin(mine: Command) -> None:
    for value in ABSURD:
        code, _, err = mine(f"--margin={value}")
        assert (code, "--margin" in err) == (2, True), err


def test_a_whole_number_of_a_setting_with_a_point_has_no_least() -> None:
    assert MiningSettings(min_score=-1, max_score=0).min_score == -1.0


def test_a_missing_package_is_known_before_anything_is_read(typed: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    words = ("none.jsonl", "--encoder", "no/model", "--index", "HNSW32", "-o", "mined.jsonl")
    code, out, err = typed("augment", "mine", *words)
    assert (code, out) == (3, ""), err
    (line,) = err.splitlines()
    assert line.endswith("needs an optional package: python -m pip install 'retrokit-ir[faiss]'")


def test_a_searcher_and_a_judge_of_a_third_party(tmp_path: Path) -> None:
    install(
        tmp_path / "site",
        "elsewhere",
        {"elsewhere": ENTRIES, "elsewhere_impl": IMPLEMENTATION},
        "[retrokit.searchers]\nlongest = elsewhere:LONGEST\n[retrokit.rerankers]\nbackwards = elsewhere:BACKWARDS\n",
    )
    write_jsonl(tmp_path / "corpus.jsonl", [{"_id": name, "text": text} for name, text in DOCUMENTS.items()])
    write_jsonl(tmp_path / "pairs.jsonl", [{"anchor": "cat", "positive": "cat"}])
    words = "augment mine pairs.jsonl --corpus corpus.jsonl --encoder longest --judge backwards --scores --margin none"
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [forked_python.python(), "-c", RUN],
        input=json.dumps([words.split()]),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    code, out, err = json.loads(done.stdout)
    assert code == 0, err
    (row,) = map(json.loads, out.splitlines())
    # the searcher's d, c and a, and the positive among them, from the end of that list to its top
    assert sorted(row["negatives"]) == sorted(DOCUMENTS[name] for name in "acd")
    assert row["negatives"][-1] == DOCUMENTS["d"]


@pytest.mark.parametrize(("words", "is_first"), [((), True), (("--replace",), False)])
def test_existing_negatives_come_first_or_are_replaced(
    typed: Command, tmp_path: Path, words: tuple[str, ...], is_first: bool
) -> None:
    write_jsonl(tmp_path / "given.jsonl", [{**pair, "negatives": ["an unrelated text"]} for pair in PAIRS])
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": pair["anchor"], "text": pair["positive"]} for pair in PAIRS])
    options = ("--encoder", "static:8", "--corpus", "corpus.jsonl", "--margin", "none", *words)
    code, out, err = typed("augment", "mine", "given.jsonl", *options)
    assert code == 0, err
    negatives = [json.loads(line)["negatives"] for line in out.splitlines()]
    assert {texts[0] == "an unrelated text" for texts in negatives} == {is_first}
    assert {"an unrelated text" in texts for texts in negatives} == {is_first}
