"""Training sources: files, BEIR, the ``datasets`` package; and examples held out by their anchors."""

import gzip
import io
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.files import digest
from retrokit.core.notices import listening
from retrokit.data.jsonl import strictly
from retrokit.data.pairs import Source, hold_out, read_source
from retrokit.data.training_rows import Pair, ScoredPair, pair_codes, text_id, texts_of_record
from tests.close import LEAST_P
from tests.codes import codes
from tests.evaluation.fakes import Notices


@pytest.fixture
def notices() -> Iterator[Notices]:
    listener = Notices()
    with listening(listener):
        yield listener


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_pairs(tmp_path: Path) -> None:
    path = write(
        tmp_path / "train.jsonl",
        {"anchor": "a", "positive": "b", "negatives": ["x", "y"]},
        {"anchor": "a", "positive": "c"},
        {"anchor": "d", "positive": ["b", "e"], "negatives": "x"},
        {"anchor": "a", "positive": "c", "negatives": []},
        {"anchor": "a", "positive": "b", "negatives": ["z"]},
    )
    source = read_source(str(path), "pairs")
    assert list(source.records) == [
        Pair("a", "b", ("x", "y")),
        Pair("a", "c"),
        Pair("d", "b", ("x",)),
        Pair("d", "e", ("x",)),
        Pair("a", "b", ("z",)),
    ]
    assert source.positives.tolist() == codes({"a": "bc", "d": "be"}).tolist()
    assert source.counts == {"records": 5, "anchors": 2, "documents": 6, "duplicates": 1}
    assert (source.spec, source.name, source.digest) == (str(path), "train", digest(path))
    assert (source.weight, source.query_prompt, source.document_prompt) == (1.0, None, None)


def test_parameters(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", {"anchor": "a", "positive": "b"})
    source = read_source(f'jsonl:{path},weight=0.5,query_prompt="query: ",document_prompt=passage:', "pairs")
    assert (source.weight, source.query_prompt, source.document_prompt) == (0.5, "query: ", "passage:")
    again = read_source(source.spec, "pairs")
    assert (replace(again, records=[]), list(again.records)) == (replace(source, records=[]), list(source.records))
    with pytest.raises(UsageError, match=r"weight=0 is out of range \(0\.001 to 1000\)"):
        read_source(f"{path},weight=0", "pairs")
    with pytest.raises(UsageError, match="beir needs path"):
        read_source("beir", "pairs")


@pytest.mark.parametrize(
    "row",
    [
        {"query": "a", "pos": ["b"], "neg": ["x", "y"]},
        {"question": "a", "answer": "b", "hard_negatives": ["x", "y"], "id": 3},
        {"sentence": "a", "response": "b", "negative": ["x", "y"]},
        {"text1": "a", "text2": "b", "negative_2": "y", "negative_1": "x", "negative_10": None},
        {"query": "a", "passage": "b", "hard_negative_1": "x", "hard_negative_2": "y"},
        {"anchor": "a", "document": "b", "neg1": "x", "neg2": "y"},
    ],
)
def test_usual_names(tmp_path: Path, row: dict[str, object]) -> None:
    assert list(read_source(str(write(tmp_path / "a.jsonl", row)), "pairs").records) == [Pair("a", "b", ("x", "y"))]


def test_numbered_negatives_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Ten and more, as a teacher's scores are."""
    texts = {f"negative_{number}": f"text {number}" for number in range(12, 0, -1)}
    row = {"query": "a", "positive": "b", "positive_score": 20, "negative_scores": [*range(1, 13)], **texts}
    (record,) = read_source(str(write(tmp_path / "a.jsonl", row)), "taught").records
    assert isinstance(record, Pair)
    assert record.negatives == tuple(f"text {number}" for number in range(1, 13))
    assert record.scores == (20, *range(1, 13))


@pytest.mark.parametrize("negative", [None, []])
def test_no_negatives(tmp_path: Path, negative: object) -> None:
    path = write(tmp_path / "a.jsonl", {"anchor": "a", "positive": "b", "negative": negative})
    assert list(read_source(str(path), "pairs").records) == [Pair("a", "b")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            {"text": "a", "positive": "b"},
            "no field 'anchor' (or query, question, sentence, text1, sentence1, sentence_A, sentence_a) for the anchor;"
            " the fields are 'text', 'positive'",
        ),
        (
            {"anchor": "a"},
            "no field 'positive' (or answer, response, pos, passage, document, text2, sentence2, sentence_B, "
            "sentence_b) for the positive; the fields are 'anchor'",
        ),
        ({"query": "a", "question": "q", "positive": "b"}, "the anchor could be any of 'query', 'question'; keep one"),
        (
            {"anchor": "a", "positive": "b", "negative": "x", "negative_1": "y"},
            "the negatives could be any of 'negative', 'negative_1'; keep one",
        ),
        ({"anchor": 3, "positive": "b"}, "field 'anchor' should be a string, found a number"),
        ({"anchor": " \n", "positive": "b"}, "field 'anchor' is empty"),
        ({"anchor": "a", "positive": 3}, "field 'positive' should be a string or a list of strings, found a number"),
        ({"anchor": "a", "positive": ["b", 3]}, "field 'positive' should hold strings, found a number in its list"),
        ({"anchor": "a", "positive": "b", "negatives": ["x", ""]}, "field 'negatives' is empty"),
        (
            {"anchor": "a", "positive": "b", "neg": {}},
            "field 'neg' should be a string or a list of strings, found an object",
        ),
    ],
)
def test_a_wrong_pair_is_named(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    path = write(tmp_path / "a.jsonl", {"anchor": "a", "positive": "b"}, row)
    with pytest.raises(DataError) as caught:
        read_source(str(path), "pairs")
    assert str(caught.value) == f"{path}:2: {problem}"


@pytest.mark.parametrize(
    "row",
    [
        {"positive": "b", "negatives": ["x", "y"], "positive_score": 3, "negative_scores": [1.5, -2]},
        {"positive": ["b"], "neg": ["x", "y"], "pos_scores": [3], "neg_scores": [1.5, -2]},
        {"positive": "b", "negative_1": "x", "negative_2": "y", "score": [3, 1.5, -2]},
    ],
)
def test_a_teachers_scores(tmp_path: Path, row: dict[str, object]) -> None:
    path = write(tmp_path / "a.jsonl", {"anchor": "a", **row})
    found = Pair("a", "b", ("x", "y"), (3.0, 1.5, -2.0))
    assert list(read_source(str(path), "taught").records) == [found]
    assert list(read_source(str(path), "pairs").records) == [replace(found, scores=())]


def test_each_of_several_positives_has_a_score(tmp_path: Path) -> None:
    row = {"query": "a", "pos": ["b", "c"], "neg": ["x"], "pos_scores": [3, 2], "neg_scores": [1]}
    pairs = list(read_source(str(write(tmp_path / "a.jsonl", row)), "taught").records)
    assert pairs == [Pair("a", "b", ("x",), (3.0, 1.0)), Pair("a", "c", ("x",), (2.0, 1.0))]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "",
            "no field 'positive_score' (or positive_scores, pos_scores) for the teacher's score of the positive;"
            " the fields are 'anchor', 'positive', 'negatives'",
        ),
        (
            ', "positive_score": 1',
            "no field 'negative_scores' (or neg_scores) for the teacher's scores of the negatives;"
            " the fields are 'anchor', 'positive', 'negatives', 'positive_score'",
        ),
        (
            ', "positive_score": 1, "negative_scores": [1]',
            "field 'negative_scores' has scores of 1 negatives; expected 2",
        ),
        (
            ', "positive_score": [1, 2], "negative_scores": [1, 2]',
            "field 'positive_score' has scores of 2 positives; expected 1",
        ),
        (', "scores": [1, 2]', "field 'scores' has scores of 1 negatives; expected 2"),
        (
            ', "positive_score": null, "negative_scores": [1, 2]',
            "field 'positive_score' should be a number, found null",
        ),
        (', "positive_score": 1, "negative_scores": [1, 1e999]', "1e999 is larger than a number can be"),
        (', "positive_score": 1, "negative_scores": [1, NaN]', "NaN is no JSON number"),
    ],
)
def test_a_wrong_teachers_score_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'\n{{"anchor": "a", "positive": "b", "negatives": ["x", "y"]{text}}}\n')
    with pytest.raises(DataError) as caught:
        read_source(str(path), "taught")
    assert str(caught.value).startswith(f"{path}:2: ")
    assert problem in str(caught.value)


def test_scored_pairs_are_all_kept(tmp_path: Path) -> None:
    row = {"sentence1": "a", "sentence2": "b", "score": 4}
    path = write(tmp_path / "sts.jsonl", row, row, {"sentence1": "a", "sentence2": "c", "label": 0.25, "genre": "news"})
    source = read_source(str(path), "scored")
    assert list(source.records) == [ScoredPair("a", "b", 4.0), ScoredPair("a", "b", 4.0), ScoredPair("a", "c", 0.25)]
    assert source.counts == {"records": 3, "anchors": 1, "documents": 2, "duplicates": 0}
    assert source.positives.tolist() == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"score": "4"', "field 'score' should be a number, found a string"),
        ('"score": true', "field 'score' should be a number, found true or false"),
        ('"score": 1e999', "malformed JSON: 1e999 is larger than a number can be"),
        ('"score": 1' + "0" * 400, "field 'score' should be at most 2147483647"),
        ('"score": -1e308', "field 'score' should be at least -1000000000"),
        ('"score": 1, "label": 1', "the score could be any of 'score', 'label'; keep one"),
        (
            '"points": 1',
            "no field 'score' (or scores, similarity, similarity_score, relevance, relevance_score, label, labels)"
            " for the score; the fields are 'sentence1', 'sentence2', 'points'",
        ),
    ],
)
def test_a_wrong_score_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "sts.jsonl"
    path.write_text(f'\n{{"sentence1": "a", "sentence2": "b", {text}}}\n')
    with pytest.raises(DataError) as caught:
        read_source(str(path), "scored")
    assert str(caught.value) == f"{path}:2: {problem}"


def test_standard_input_and_gz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.jsonl", {"anchor": "a", "positive": "b"})
    plain = read_source(str(path), "pairs")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    piped = read_source("-", "pairs")
    assert (list(piped.records), piped.digest, piped.name, piped.spec) == (
        list(plain.records),
        plain.digest,
        "stdin",
        "-",
    )
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    source = read_source(str(packed), "pairs")
    assert (list(source.records), source.digest, source.name) == (list(plain.records), digest(packed), "a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pets"
    (folder / "qrels").mkdir(parents=True)
    write(
        folder / "corpus.jsonl",
        {"_id": "d1", "title": "Cats", "text": "They purr."},
        {"_id": "d2", "text": "Dogs bark."},
        {"_id": "d3", "text": " "},
    )
    write(
        folder / "queries.jsonl",
        {"_id": "q1", "text": "who?"},
        {"_id": "q2", "text": "what?"},
        {"_id": "q3", "text": "who?"},
        {"_id": "q4", "text": " "},
    )
    (folder / "qrels" / "train.tsv").write_text("q1\td1\t2\nq1\td2\t0\nq2\td3\t1\nq3\td1\t1\nq3\td2\t1\n")
    (folder / "qrels" / "zero.tsv").write_text("q1\td1\t0\n")
    (folder / "qrels" / "blank.tsv").write_text("q4\td1\t1\n")
    return folder


def test_a_beir_folder_gives_its_relevant_pairs(folder: Path, notices: Notices) -> None:
    source = read_source(f"beir:{folder}", "pairs")
    assert list(source.records) == [Pair("who?", "Cats They purr."), Pair("who?", "Dogs bark.")]
    assert source.positives.tolist() == codes({"who?": ["Cats They purr.", "Dogs bark."]}).tolist()
    assert source.counts == {"records": 2, "anchors": 1, "documents": 2, "duplicates": 1, "pairs_without_text": 1}
    assert notices.messages == [
        f"{folder}: 1 relevant documents of split 'train' have no text; their pairs are left out"
    ]
    assert source.name == "pets"


def test_a_relevance_level_and_absent_documents_of_a_beir_folder(folder: Path, notices: Notices) -> None:
    (folder / "qrels" / "train.tsv").write_text("q1\td1\t2\nq1\td2\t1\nq1\tgone\t2\n")
    assert list(read_source(f"beir:{folder},level=2", "pairs").records) == [Pair("who?", "Cats They purr.")]
    assert "recall can reach 0.5000" in notices.messages[0]
    with strictly(True), pytest.raises(DataError, match=r"train\.tsv:3: document 'gone' is not in corpus\.jsonl$"):
        read_source(f"beir:{folder}", "pairs")


def test_ids_and_codes_are_the_same_for_arrays_and_tensors():
    ids = [text_id(text) for text in ("", "a", "b", "\ud800")]
    assert len(set(ids)) == 4
    assert all(0 <= number < 2**63 for number in ids)
    array = np.array(ids, dtype=np.int64)
    table = pair_codes(array[:, None], array[None, :])
    assert len(np.unique(table)) == 16  # the order of the two counts
    tensor = torch.from_numpy(array)
    assert torch.equal(pair_codes(tensor[:, None], tensor[None, :]), torch.from_numpy(table))


@pytest.fixture
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, with its caches in the test's own folder."""
    import datasets

    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache" / "datasets"))
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "cache" / "modules"))
    monkeypatch.setattr(datasets.config, "DOWNLOADED_DATASETS_PATH", str(tmp_path / "cache" / "downloads"))
    return datasets


COLUMNS = {"question": ["a", "a"], "answer": ["b", "c"], "negative_1": ["x", None], "image": [b"", b""]}


def test_one_saved_split(tmp_path: Path, datasets: Any) -> None:
    folder = tmp_path / "saved"
    datasets.Dataset.from_dict(COLUMNS).save_to_disk(str(folder))
    source = read_source(f"hf:{folder}", "pairs")
    assert list(source.records) == [Pair("a", "b", ("x",)), Pair("a", "c")]
    assert source.positives.tolist() == codes({"a": "bc"}).tolist()
    assert source.name == "saved"
    again = tmp_path / "again"
    datasets.Dataset.from_dict({**COLUMNS, "image": [b"1", b"2"]}).save_to_disk(str(again))
    assert read_source(f"hf:{again}", "pairs").digest == source.digest
    datasets.Dataset.from_dict({**COLUMNS, "answer": ["b", "d"]}).save_to_disk(str(tmp_path / "other"))
    assert read_source(f"hf:{tmp_path / 'other'}", "pairs").digest != source.digest


def test_saved_splits(tmp_path: Path, datasets: Any) -> None:
    rows = {"sentence1": ["a"], "sentence2": ["b"], "label": [3]}
    splits = {"train": datasets.Dataset.from_dict(rows), "dev": datasets.Dataset.from_dict({**rows, "label": [4]})}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "saved"))
    assert list(read_source(f"hf:{tmp_path / 'saved'},split=dev", "scored").records) == [ScoredPair("a", "b", 4.0)]
    with pytest.raises(UsageError, match=r"saved: has no split 'test'; its splits are 'train', 'dev'$"):
        read_source(f"hf:{tmp_path / 'saved'},split=test", "scored")
    with pytest.raises(UsageError, match=r"has no configurations; leave config=en out$"):
        read_source(f"hf:{tmp_path / 'saved'},config=en", "scored")


@pytest.mark.usefixtures("datasets")
def test_a_folder_of_data_files(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "train.jsonl").write_text('{"query": "a", "pos": ["b", "c"]}\n{"query": "d", "pos": ["e"]}\n')
    source = read_source(f"hf:{folder}", "pairs")
    assert list(source.records) == [Pair("a", "b"), Pair("a", "c"), Pair("d", "e")]
    assert list(read_source(f"hf:{folder},split=train[1:]", "pairs").records) == [Pair("d", "e")]
    with pytest.raises(UsageError, match=r"files: Unknown split \"dev\"\. Should be one of \['train'\]\.$"):
        read_source(f"hf:{folder},split=dev", "pairs")
    with pytest.raises(UsageError, match=r"files: BuilderConfig 'en' not found\. Available: \['default'\]$"):
        read_source(f"hf:{folder},config=en", "pairs")


def test_wrong_columns_and_rows(tmp_path: Path, datasets: Any) -> None:
    folder = str(tmp_path / "saved")
    datasets.Dataset.from_dict({"anchor": ["a", ""], "positive": ["b", "b"]}).save_to_disk(folder)
    with pytest.raises(DataError) as caught:
        read_source(f"hf:{folder}", "pairs")
    assert str(caught.value) == f"{folder}, split train:2: field 'anchor' is empty"
    with pytest.raises(DataError) as caught:
        read_source(f"hf:{folder}", "scored")
    problem = "no field 'score' (or scores, similarity, similarity_score, relevance, relevance_score, label, labels) "
    problem += "for the score; the fields are 'anchor', 'positive'"
    assert str(caught.value) == f"{folder}, split train: {problem}"


@pytest.mark.usefixtures("datasets")
def test_what_is_no_data_set(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none: does not exist; expected a folder with a data set, or a hub id"):
        read_source(f"hf:{tmp_path / 'none'}", "pairs")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(UsageError, match="is a file; write jsonl:"):
        read_source(f"hf:{tmp_path / 'a.jsonl'}", "pairs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: is not a data set that can be read: The directory at"):
        read_source(f"hf:{tmp_path / 'empty'}", "pairs")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_dict.json").write_text("{")
    with pytest.raises(DataError, match="saved: the saved data set could not be read: ") as caught:
        read_source(f"hf:{tmp_path / 'saved'}", "pairs")
    assert len(str(caught.value).splitlines()) == 1
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "train.jsonl").write_text('{"anchor": "a\n')
    with pytest.raises(DataError, match="broken: is not a data set that can be read: JSON parse error") as caught:
        read_source(f"hf:{tmp_path / 'broken'}", "pairs")
    assert len(str(caught.value).splitlines()) == 1


def test_a_hub_out_of_reach(datasets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> None:
        raise ConnectionError("Couldn't reach 'org/name' on the Hub (ConnectTimeout)\nsecond line")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(ServiceError) as caught:
        read_source("hf:org/name", "pairs")
    assert str(caught.value) == (
        "hf:org/name: no folder 'org/name' here, and loading it from the hub failed: "
        "Couldn't reach 'org/name' on the Hub (ConnectTimeout)"
    )


def test_name_config_and_split_reach_the_library(datasets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def load(name: str, config: str | None, split: str) -> Any:
        asked.extend((name, config, split))
        return datasets.Dataset.from_dict({"anchor": ["a"], "positive": ["b"]})

    monkeypatch.setattr(datasets, "load_dataset", load)
    source = read_source("hf:org/name,config=en,split=train[:10%],weight=2", "pairs")
    assert asked == ["org/name", "en", "train[:10%]"]
    assert (source.name, source.weight, source.spec) == (
        "name",
        2.0,
        "hf:org/name,config=en,split=train[:10%],weight=2.0",
    )


def source_of(path: Path, rows: list[dict[str, object]], kind: str = "pairs") -> Source:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_source(str(path), kind)  # type: ignore[arg-type]


def anchors_of(sources: list[Source]) -> set[str]:
    return {texts_of_record(record)[0] for source in sources for record in source.records}


KINDS = {
    "pairs": lambda i: {"anchor": f"question {i}", "positive": f"answer {i}", "negatives": [f"wrong {i}"]},
    "taught": lambda i: {
        "anchor": f"question {i}",
        "positive": f"answer {i}",
        "negatives": [],
        "positive_score": 0.5,
        "negative_scores": [],
    },
    "scored": lambda i: {"sentence1": f"question {i}", "sentence2": f"answer {i}", "score": i},
    "texts": lambda i: {"text": f"question {i}"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_anchor_is_in_one_part_by_its_text_and_the_seed(tmp_path: Path, kind: str) -> None:
    rows = [KINDS[kind](i % 100) for i in range(120)]
    source = source_of(tmp_path / "rows.jsonl", rows, kind)
    (train,), (held,) = hold_out([source], 0.2)
    assert anchors_of([train]).isdisjoint(anchors_of([held]))
    assert sorted([*train.records, *held.records], key=str) == sorted(source.records, key=str)
    assert binomtest(held.counts["anchors"], 100, 0.2).pvalue > LEAST_P
    assert train.counts["anchors"] + held.counts["anchors"] == 100
    assert held.counts["records"] == len(held.records)
    again = source_of(tmp_path / "fewer.jsonl", rows[:50][::-1], kind)
    (_,), (fewer,) = hold_out([again], 0.2)
    assert anchors_of([fewer]) == anchors_of([held]) & anchors_of([again]), "other anchors and their order do not count"
    assert anchors_of(hold_out([source], 0.2, seed=1)[1]) != anchors_of([held])
    more = hold_out([source], 0.5)[1]
    assert anchors_of([held]) < anchors_of(more)


def test_sources_are_divided_alike(tmp_path: Path) -> None:
    first = source_of(tmp_path / "a.jsonl", [{"anchor": f"Question {i}", "positive": f"a {i}"} for i in range(60)])
    second = source_of(tmp_path / "b.jsonl", [{"anchor": f"question  {i} ", "positive": f"b {i}"} for i in range(60)])
    train, held = hold_out([first, second], 0.3)
    parts = [[{text.casefold().split()[1] for text in anchors_of([one])} for one in part] for part in (train, held)]
    assert parts[0][0] == parts[0][1]
    assert parts[1][0] == parts[1][1]
    pairs = {record.anchor: [record.positive] for record in held[0].records}
    np.testing.assert_array_equal(held[0].positives, codes(pairs))


def test_a_number_of_anchors_and_the_most(tmp_path: Path) -> None:
    source = source_of(tmp_path / "a.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(2000)])
    assert binomtest(hold_out([source], 200)[1][0].counts["anchors"], 2000, 0.1).pvalue > LEAST_P
    assert binomtest(hold_out([source], 0.5, most=100)[1][0].counts["anchors"], 2000, 0.05).pvalue > LEAST_P


def test_from_one_on_the_size_of_a_holdout_is_a_number(tmp_path: Path) -> None:
    """One anchor, about: of some seeds it is none, which leaves nothing to hold out."""
    source = source_of(tmp_path / "a.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(50)])
    held = 0
    for seed in range(10):
        with suppress(DataError):
            held += hold_out([source], 1, seed)[1][0].counts["anchors"]
    assert binomtest(held, 10 * 50, 1 / 50).pvalue > LEAST_P


@pytest.mark.parametrize(("size", "part"), [(0.001, "hold out"), (0.999, "train on"), (5, "train on"), (9, "train on")])
def test_nothing_left_in_a_part(tmp_path: Path, size: float, part: str) -> None:
    source = source_of(tmp_path / "few.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(3)])
    with pytest.raises(DataError, match=f"few.jsonl.*{size:g} leaves nothing to {part}; anchors: 3"):
        hold_out([source], size)


def test_a_source_without_anchors_in_a_part_is_not_in_it(tmp_path: Path) -> None:
    many = source_of(tmp_path / "many.jsonl", [{"anchor": f"q {i}", "positive": "p"} for i in range(50)])
    (_,), (held,) = hold_out([many], 0.2)
    out, kept = (next(iter(anchors_of([part]))) for part in (held, hold_out([many], 0.2)[0][0]))
    one, other = (source_of(tmp_path / f"{a}.jsonl", [{"anchor": a, "positive": "p"}]) for a in (out, kept))
    train, held_out = hold_out([many, one, other], 0.2)
    assert [source.spec for source in train] == [many.spec, other.spec]
    assert [source.spec for source in held_out] == [many.spec, one.spec]
