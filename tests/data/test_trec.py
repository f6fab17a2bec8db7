"""TREC runs, and qrels in both formats."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.core.errors import DataError
from retrokit.core.notices import listening
from retrokit.data.jsonl import strictly
from retrokit.data.trec import read_run, write_run
from tests.evaluation.fakes import Notices
from tests.trec import read_qrels

QRELS = {"q1": {"d1": 1, "d 2": 0}, "q2": {"d1": -1}}


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td 2\t0\n\nq2\td1\t-1\n",
        "q1\td1\t1\r\nq1\td 2\t0\r\nq2\td1\t-1\r\n",
        "q1\t0\td1\t1\nq1\t0\td 2\t0\nq2\tQ0\td1\t-1\n",
        "query\titer\tdocument\trel\nq1\t0\td1\t1\nq1\t0\td1\t1\nq1\t0\td 2\t0\nq2\t0\td1\t-1\n",
    ],
    ids=["beir", "no header", "trec", "trec with header and a repetition"],
)
def test_both_formats(tmp_path: Path, text: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(text)
    assert read_qrels(path) == QRELS


def test_columns_between_spaces(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("q1 0 d1   2\nq1  0\td2 0\n")
    assert read_qrels(path) == {"q1": {"d1": 2, "d2": 0}}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("q1 d1\n", 1, "expected 3 columns (BEIR) or 4 (TREC), found 2 without a header"),
        ("q1,d1,1\n", 1, "expected 3 columns (BEIR) or 4 (TREC), found 1; they are separated by tabs"),
        ("q1\td1\t1\nq1\td2\n", 2, "expected 3 columns as on the lines before, found 2"),
        ("query-id\tcorpus-id\tscore\nq1\t0\td1\t1\n", 2, "expected 3 columns as on the lines before, found 4"),
        ("query-id\tcorpus-id\tscore\nq1\td1\t1.5x\n", 2, "the grade '1.5x' is not a whole number"),
        ("q1\td1\tyes\n", 1, "the grade 'yes' is not a whole number"),
        (
            "q1\td1\t1\nq1\td2\t999999999\n",
            2,
            "the grade '999999999' is beyond 1,000,000, up to which there is memory to measure",
        ),
        (
            "q1 0 d1 -99999999999999999999\n",
            1,
            "the grade '-99999999999999999999' is beyond 1,000,000, up to which there is memory to measure",
        ),
        ("q1\td1\t1\n\tquery\t1\n", 2, "an id is empty"),
        (
            "q1\td1\t1\nq1\td2\t1\nq1\td1\t0\n",
            3,
            "query 'q1' and document 'd1' have grade 1 on an earlier line, here 0",
        ),
    ],
)
def test_a_wrong_judgement_is_named(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_qrels(path)
    assert str(caught.value) == f"{path}:{line}: {problem}"


def test_what_trec_eval_reads_is_counted_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text("# a comment\nq1 0 d1 1.0\n\nq1 0 d2 0.5\n# q1 0 d9 1\nq2 0 d1 2.00\n#q3 0 d1 -1\n\n")
    notices = Notices()
    with listening(notices):
        assert read_qrels(path) == {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": 2}, "#q3": {"d1": -1}}
    assert notices.messages == [
        f"{path}:1: the line is a comment; 2 comments are skipped",
        f"{path}:2: the grade '1.0' is not a whole number; 3 grades are cut to whole numbers, as in trec_eval",
    ]
    with strictly(True), pytest.raises(DataError, match=r"qrels\.txt:1: the line is a comment$"):
        read_qrels(path)


@pytest.mark.parametrize(
    "text",
    [
        "relevance\tdoc_id\tnote\tquery_id\titeration\n1\td1\tx\tq1\t0\n0\td 2\tx\tq1\t0\n-1\td1\tx\tq2\t0\n",
        '{"query_id": "q1", "doc_id": "d1", "relevance": 1}\n{"query_id": "q1", "doc_id": "d 2", "relevance": 0}\n'
        '{"query_id": "q2", "doc_id": "d1", "relevance": -1}\n',
        '{"q1": {"d1": 1, "d 2": 0}, "q2": {"d1": -1}}',
        '{\n  "q1": {"d1": 1,\n    "d 2": 0},\n  "q2": {"d1": -1}\n}\n',
    ],
    ids=["named columns", "JSON lines", "JSON on a line", "JSON"],
)
def test_judgements_in_other_formats(tmp_path: Path, text: str) -> None:
    path = tmp_path / "qrels"
    path.write_text(text)
    assert read_qrels(path) == QRELS


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"query": "q", "text": "x"}', "qrels:1: expected a query's id, a document's id and a score; the fields are "),
        ('{"qid": [1], "docid": "d", "score": 1}', "qrels:1: an id should be a string or a whole number"),
        ('{"qid": "q", "docid": "d", "score": true}', "qrels:1: the grade 'True' is not a whole number"),
        ('{"q": {"d": "x"}}', "qrels:1: the grade 'x' is not a whole number"),
        ('{"q": {"d": 1}', "qrels:1: malformed JSON"),
    ],
)
def test_wrong_json_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "qrels").write_text(text)
    with pytest.raises(DataError, match=re.escape(problem)):
        read_qrels(tmp_path / "qrels")


RUN = {"q1": {"d1": 2.5, "d2": 1.0}, "q2": {"d1": -1.0}}
RANKS = {"q1": {"d1": -1.0, "d2": -2.0}, "q2": {"d1": -1.0}}


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("q1 Q0 d1 1 2.5 my own tag\nq1 Q0 d2 2 1 my tag\nq2 Q0 d1 1 -1 x\n", RUN),
        ("q1\td1\t1\nq1\td2\t2\nq2\td1\t1\n", RANKS),
        ("qid\tpid\trank\nq1\td1\t1\nq1\td2\t2\nq2\td1\t1\n", RANKS),
        ("q1\td1\t1\t2.5\nq1\td2\t2\t1\nq2\td1\t1\t-1\n", RUN),
        ("q1\td1\t2.5\nq1\td2\t1\nq2\td1\t-1\n", RUN),
        ("q1\td1\t30\nq1\td2\t20\nq2\td1\t10\n", {"q1": {"d1": 30.0, "d2": 20.0}, "q2": {"d1": 10.0}}),
        ("q1\td1\t1\nq1\td2\t1\nq2\td1\t1\n", {"q1": {"d1": 1.0, "d2": 1.0}, "q2": {"d1": 1.0}}),
        ('{"q1": {"d1": 2.5, "d2": 1}, "q2": {"d1": -1}}', RUN),
        ('{\n"q1": {"d1": 2.5,\n"d2": 1}, "q2": {"d1": -1}}', RUN),
        (
            '{"qid": "q1", "docid": "d1", "score": 2.5}\n{"qid": "q1", "docid": "d2", "score": 1}\n'
            '{"qid": "q2", "docid": "d1", "score": -1}\n',
            RUN,
        ),
    ],
    ids=[
        "blanks in tags",
        "ranks",
        "ranks, header",
        "ranks and scores",
        "scores",
        "no rank 1",
        "equal",
        "JSON on a line",
        "JSON",
        "JSONL",
    ],
)
def test_runs_in_other_formats(tmp_path: Path, text: str, run: dict[str, dict[str, float]]) -> None:
    path = tmp_path / "run"
    path.write_text(text)
    assert read_run(path) == run


def test_no_judgements(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text("query-id\tcorpus-id\tscore\n")
    with pytest.raises(DataError, match=r"qrels\.tsv: contains only a header; expected judgements"):
        read_qrels(path)
    path.write_text("")
    with pytest.raises(DataError, match=r"qrels\.tsv: is empty; expected judgements"):
        read_qrels(path)


def test_a_run_is_ranked_as_trec_eval_ranks(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    write_run(path, {"q2": {"a": 0.5, "c": 0.5, "b": 2.0, "10": 0.5, "9": 0.5}, "q1": {"x": -1.0}, "q0": {}}, "bm25")
    assert path.read_text().splitlines() == [
        "q2 Q0 b 1 2.0 bm25",
        "q2 Q0 c 2 0.5 bm25",
        "q2 Q0 a 3 0.5 bm25",
        "q2 Q0 9 4 0.5 bm25",
        "q2 Q0 10 5 0.5 bm25",
        "q1 Q0 x 1 -1.0 bm25",
    ]


IDS = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=6)
SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("name", ["run.trec", "run.trec.gz"])
@given(run=st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=4), min_size=1, max_size=3))
def test_scores_read_back_equal(tmp_path_factory, name, run):
    path = tmp_path_factory.mktemp("run") / name
    single = {query_id: {doc: np.float32(score) for doc, score in scores.items()} for query_id, scores in run.items()}
    write_run(path, single, "tag")  # type: ignore[arg-type]
    assert read_run(path) == run


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q1 Q0 d1 1 0.5", "expected 6 columns (qid Q0 docid rank score tag), found 5"),
        ("q1 Q0 d1 1 high tag", "the score 'high' is not a finite number"),
        ("q1 Q0 d1 1 nan tag", "the score 'nan' is not a finite number"),
        ("q1 Q0 d0 2 0.1 tag", "query 'q1' has document 'd0' on an earlier line"),
    ],
)
def test_a_wrong_run_line_is_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"q1 Q0 d0 1 0.9 tag\n{line}\n")
    with pytest.raises(DataError) as caught:
        read_run(path)
    assert str(caught.value) == f"{path}:2: {problem}"


@pytest.mark.parametrize(
    ("run", "tag", "problem"),
    [
        ({"q 1": {"d": 1.0}}, "tag", "the query id 'q 1' is empty or contains white space"),
        ({"q": {"d\n1": 1.0}}, "tag", "the document id 'd\\n1' is empty or contains white space"),
        ({"q": {"d": 1.0}}, "", "the tag '' is empty or contains white space"),
        ({"q": {"d": float("inf")}}, "tag", "the score of query 'q' and document 'd' is inf"),
    ],
)
def test_a_run_that_the_format_cannot_hold(tmp_path, run, tag, problem):
    with pytest.raises(DataError) as caught:
        write_run(tmp_path / "run", run, tag)
    assert str(caught.value) == f"{tmp_path / 'run'}: could not be written: {problem}"
    assert list(tmp_path.iterdir()) == []
