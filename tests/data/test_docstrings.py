"""The built-in data set: docstrings of the standard library."""

import json
import sysconfig
from pathlib import Path

import pytest

from retrokit import evaluation
from retrokit.core.errors import DataError, UsageError
from retrokit.data import docstrings
from retrokit.data.beir import corpus_file, queries_file, read_beir, splits_of
from retrokit.data.overlap import Bigrams, Shingles
from retrokit.data.pairs import beir_folder, read_source, texts_file, unlabelled_file
from retrokit.data.training_rows import normal_form

SMALL = "docstrings,documents=120"
MODULE = '''"""Open and close the doors of a house without noise. More is said about the handles that each of them has.

    >>> code()
    that is left out

The hinges are to be oiled once in a year, or they will be heard in the street.
"""


class Door:
    """Too short."""

    def open(self):
        """Turn the handle, and push until the gap is wide enough. It is used by all that have a key for the house.
        """

    def _hidden(self):
        """Turn the handle of the cellar, and pull it at once. It is used by nobody but the owner of the house.
        """


def close(wait):
    """Turn the handle, and push until the gap is wide enough. This one has the sentence of an earlier one as its own.
    """
'''


def texts_of(split: str) -> list[str]:
    data = read_beir(docstrings.docstrings_folder(120), split)
    return [text for pair in data.pairs_of_texts() for text in pair]


def test_it_is_the_same_each_time(tmp_path, monkeypatch):
    first = docstrings.docstrings_folder(120)
    monkeypatch.setenv("RETROKIT_DATA", str(tmp_path))
    second = docstrings.docstrings_folder(120)
    assert first != second
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert len(names) == 6
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert [path.name for path in second.parent.iterdir()] == ["docstrings"]


def test_no_text_is_in_two_splits():
    assert splits_of(docstrings.docstrings_folder(120)) == ["dev", "test", "train"]
    parts = [texts_of(split) for split in ("train", "dev", "test")]
    assert sum(map(len, parts)) == 240
    assert min(map(len, parts)) > 0
    texts = [text for part in parts for text in part]
    assert len(set(map(normal_form, texts))) == 240
    assert [*Bigrams(texts, Shingles()).alike()] == []


def test_a_file_has_one_split_whatever_the_number_of_documents():
    def split_by_query(documents: int) -> dict[str, str]:
        folder = docstrings.docstrings_folder(documents)
        return {query: split for split in splits_of(folder) for query in read_beir(folder, split).query_ids}

    small, large, largest = split_by_query(60), split_by_query(120), split_by_query(1500)
    assert len(small) == 60
    assert small.items() <= large.items() <= largest.items()
    shares = {split: list(largest.values()).count(split) / 1500 for split in ("train", "dev", "test")}
    assert shares == pytest.approx({"train": 0.6, "dev": 0.1, "test": 0.3}, abs=0.1)


def test_it_is_training_data_and_a_task():
    folder = docstrings.docstrings_folder(120)
    train, test = read_beir(folder, "train"), read_beir(folder, "test")
    source = read_source(SMALL, "pairs")
    assert {(pair.anchor, pair.positive) for pair in source.records} == set(train.pairs_of_texts())
    unlabelled = read_source(SMALL, "texts")
    assert sorted(record.text for record in unlabelled.records) == sorted(text for _, text in train.pairs_of_texts())
    task = evaluation.registry.create(SMALL)
    assert task.spec == "docstrings:documents=120"
    assert set(task.queries) == set(test.queries)
    assert len(task.documents) == 120
    with pytest.raises(UsageError, match="pairs or texts, not scored sentences"):
        read_source(SMALL, "scored")


def test_files_of_texts():
    with pytest.raises(UsageError, match="leave split out"):
        unlabelled_file("docstrings:split=test")
    folder = docstrings.docstrings_folder(120)
    assert beir_folder(SMALL) == folder
    assert texts_file(SMALL, corpus_file) == str(folder / "corpus.jsonl")
    assert texts_file(SMALL, queries_file) == str(folder / "queries.jsonl")
    ids = [json.loads(line)["id"] for line in Path(unlabelled_file(SMALL)).read_text(encoding="utf-8").splitlines()]
    assert sorted(ids) == sorted(document for _, document in read_beir(folder, "train").pairs())


@pytest.mark.parametrize("is_folder", [True, False])
def test_the_name_means_the_built_in_set_beside_a_path_of_that_name(tmp_path, monkeypatch, is_folder):
    monkeypatch.chdir(tmp_path)
    small = docstrings.docstrings_folder
    monkeypatch.setattr(docstrings, "docstrings_folder", lambda documents: small(60))
    if is_folder:
        (tmp_path / "docstrings" / "qrels").mkdir(parents=True)
    else:
        (tmp_path / "docstrings").touch()
    folder = docstrings.docstrings_folder(60)
    assert beir_folder("docstrings") == folder
    assert unlabelled_file("docstrings") == str(folder / "texts.jsonl")
    assert texts_file("docstrings", corpus_file) == str(folder / "corpus.jsonl")
    if is_folder:
        (tmp_path / "docstrings" / "corpus.jsonl").touch()
        assert texts_file("beir:docstrings", corpus_file) == str(Path("docstrings") / "corpus.jsonl")
        assert unlabelled_file("./docstrings") == str(Path("docstrings") / "corpus.jsonl")
    if not is_folder:
        assert unlabelled_file("./docstrings") == "./docstrings"
        assert texts_file("./docstrings", corpus_file) == "./docstrings"


def test_queries_of_other_splits_are_no_fault():
    task = evaluation.registry.create("docstrings:documents=60")
    assert "without judgements" not in task.describe()


def test_what_of_a_module_is_taken(tmp_path, monkeypatch):
    library = tmp_path / "library"
    (library / "test").mkdir(parents=True)
    for name in ("house.py", "test/house.py", "_private.txt"):
        (library / name).write_text(MODULE, encoding="utf-8")
    (library / "broken.py").write_text("def", encoding="utf-8")
    (library / "dangling.py").symlink_to(tmp_path / "nowhere.py")
    (library / "large.py").write_text(MODULE.replace("Turn", "Pull") + "\n" * 250_000, encoding="utf-8")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(library))
    monkeypatch.setenv("RETROKIT_DATA", str(tmp_path / "data"))
    with pytest.raises(DataError, match=r"2 usable docstrings, and docstrings needs 60; this Python lacks sources of"):
        docstrings.docstrings_folder(60)
    monkeypatch.setattr(docstrings, "FEWEST", 1)
    monkeypatch.setattr(docstrings, "_ORDER", ("train",))
    source = read_source("docstrings,documents=60", "pairs")
    assert {(pair.anchor, pair.positive) for pair in source.records} == {
        (
            "Open and close the doors of a house without noise.",
            "More is said about the handles that each of them has. "
            "The hinges are to be oiled once in a year, or they will be heard in the street.",
        ),
        (
            "Turn the handle, and push until the gap is wide enough.",
            "It is used by all that have a key for the house.",
        ),
    }
