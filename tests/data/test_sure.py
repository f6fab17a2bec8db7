"""SURE folders: the published layout, what build-sure may leave out, and what is missing or wrong."""

import json
from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.data.sure import missing_testbeds, read_sure, variant_id
from tests.sure_folders import VARIANTS, small_folder, write_sure


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_folder(tmp_path / "small")


def test_a_folder_of_the_releases_layout(folder):
    data = read_sure(folder)
    assert data.name == "small"
    assert data.queries == {f"q{i}": f"query {i}" for i in range(4)}
    assert data.originals == {f"q{i}": f"p{i}" for i in range(4)}
    assert data.passages["p2"] == "passage 2"
    assert list(data.variants) == list(VARIANTS)
    assert data.variants["summary"]["p3"] == "summary 3"
    assert data.testbeds == {key: ["q0", "q1", "q2", "q3"] for key in ("precision", "abstraction", "equivalence")}
    assert data.dropped == {key: {"without_judgement": 0, "without_variants": 0} for key in data.testbeds}
    assert data.repeated == 0
    assert variant_id("p3", "summary") == "p3#summary"


def test_one_testbed_reads_its_own_files_alone(folder):
    for name in ("summaries.jsonl", "expansions.jsonl", "passages-with-keywords-replaced.jsonl"):
        (folder / name).unlink()
    data = read_sure(folder, "precision")
    assert list(data.testbeds) == ["precision"]
    assert list(data.variants) == ["key-sentences", "key-sentences-with-noise"]
    assert list(read_sure(folder).testbeds) == ["precision"]
    assert missing_testbeds(read_sure(folder)) == ["abstraction", "equivalence"]
    with pytest.raises(DataError, match=r"has no testbed abstraction: summaries.jsonl, expansions.jsonl missing; it c"):
        read_sure(folder, "abstraction")


def test_a_query_leaves_the_testbed_that_it_has_no_variant_for(folder):
    write_sure(
        folder,
        {"q0": "a", "q1": "b", "q2": "c"},
        {"q0": "p0", "q1": "p1"},
        {"p0": "A", "p1": "B"},
        {"key-sentences": {"p0": "a", "p1": " "}, "key-sentences-with-noise": {"p0": "n", "p1": "n"}, "summary": {}}
        | {"expansion": {"p0": "x"}, "paraphrase": {"p0": "y", "p1": "z"}},
        equivalence=["q1", "q2"],
    )  # fmt: skip
    for name in ("query-4.tsv", "qrels-4.tsv", "query-4-semantic-equivalence.tsv"):
        (folder / name).unlink()
    (folder / "summaries.jsonl").write_text('{"id": "p0", "contents": "s"}\n')
    data = read_sure(folder)
    assert data.testbeds == {"precision": ["q0"], "abstraction": ["q0"], "equivalence": ["q1"]}
    assert data.dropped == {
        "precision": {"without_judgement": 1, "without_variants": 1},
        "abstraction": {"without_judgement": 1, "without_variants": 1},
        "equivalence": {"without_judgement": 1, "without_variants": 0},
    }
    (folder / "passages-with-keywords-replaced.jsonl").write_text('{"id": "p0", "contents": "y"}\n')
    with pytest.raises(
        DataError, match="no query is left of the testbed equivalence: 1 without judgement, 1 without v"
    ):
        read_sure(folder)


def test_variants_that_equal_their_passage_are_counted_and_can_be_left_out(folder):
    file = folder / "passages-with-keywords-replaced.jsonl"
    file.write_text(file.read_text().replace("paraphrase 1", "passage  1").replace("paraphrase 2", "Passage 2"))
    data = read_sure(folder)
    assert data.identical == {"precision": 0, "abstraction": 0, "equivalence": 1}, "white space is no word, case is"
    assert data.testbeds["equivalence"] == ["q0", "q1", "q2", "q3"]
    assert "identical_variant" not in data.dropped["equivalence"]
    left_out = read_sure(folder, identical="left-out")
    assert left_out.testbeds["equivalence"] == ["q0", "q2", "q3"]
    assert left_out.testbeds["precision"] == data.testbeds["precision"]
    assert left_out.dropped["equivalence"]["identical_variant"] == left_out.identical["equivalence"] == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "passages.jsonl",
            '{"id": "p0", "text": "x"}\n',
            r"passages.jsonl:1: no field 'contents'; the fields are 'id'",
        ),
        ("summaries.jsonl", '{"contents": "x"}\n', r"summaries.jsonl:1: no field 'id' or '_id'"),
        ("query-4.tsv", "q0 query 0\n", r"query-4.tsv:1: expected 'query-id<TAB>text'"),
        ("query-4.tsv", "q0\ta\nq0\tb\n", r"query-4.tsv:2: the query 'q0' has another text on an earlier line"),
        ("query-4.tsv", "q0\tother\n", r"the query 'q0' has another text in the testbed of equivalence"),
        ("qrels-4.tsv", "q0\t0\tp9\t1\n", r"qrels-4.tsv: judges none of the queries: 'q0', 'q1', 'q2', 'q3'"),
        ("qrels-4.tsv", "q0\t0\tp0\t1\nq0\t0\tp1\t1\n", r":2: query 'q0' has two relevant passages, 'p0' and 'p1'"),
        ("qrels-4.tsv", "x\t0\tp0\t1\n", r"qrels-4.tsv: judges none of the queries: 'q0', 'q1', 'q2', 'q3'"),
        ("query-5.tsv", "q0\ta\n", r"contains 'query-4.tsv', 'query-5.tsv' as query-N.tsv; expected one such file"),
    ],
)
def test_wrong_files_are_named(folder, name, content, message):
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_sure(folder)


def test_what_is_no_sure_folder(tmp_path, folder):
    with pytest.raises(DataError, match=r"nowhere: does not exist; expected a SURE folder \(query-N.tsv"):
        read_sure(tmp_path / "nowhere")
    with pytest.raises(DataError, match="is a file; expected a SURE folder"):
        read_sure(folder / "passages.jsonl")
    (tmp_path / "corpus.jsonl").touch()
    missing = "is no SURE folder: passages.jsonl, key-sentences.jsonl, key-sentences-with-noise.jsonl, query-N.tsv, qr"
    with pytest.raises(DataError, match=missing):
        read_sure(tmp_path)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "sizes", "repeated"), [("fiqa", [191, 191, 137], 0), ("msmarco", [2287, 2287, 1323], 1)]
)
def test_the_published_folders(shared_data, name, sizes, repeated):
    data = read_sure(shared_data / "sure" / name)
    assert [len(queries) for queries in data.testbeds.values()] == sizes  # SURE, Table 1
    assert not any(count for reasons in data.dropped.values() for count in reasons.values())
    assert data.repeated == repeated
    query = next(iter(data.queries))
    (lines,) = (shared_data / "sure" / name).glob("qrels-*.tsv")
    assert lines.read_text().startswith(f"{query}\t0\t{data.originals[query]}\t1")
    last = json.loads((shared_data / "sure" / name / "summaries.jsonl").read_text().splitlines()[-1])
    assert data.variants["summary"][last["id"]] == last["contents"]
