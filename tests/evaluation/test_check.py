"""Faults planted in clean data: each kind is reported, and none that is not there."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import retrokit
from retrokit import cli
from retrokit.data import check as checks
from retrokit.data.check import trace_of_encoding
from retrokit.data.trec import read_judgements
from tests.evaluation.fakes import write_folder, write_lines

WORDS = [a + b for a in ("ka", "lo", "mi", "nu", "pe", "ro", "si", "tu") for b in ("ber", "dan", "fol", "gim", "hos")]
DOCUMENTS, QUERIES = 30, 12


def texts(count: int, seed: int, size: int = 12) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=size)) for _ in range(count)]


def clean(folder: Path) -> Path:
    write_folder(
        folder,
        {f"d{i}": text for i, text in enumerate(texts(DOCUMENTS, 1))},
        {f"q{i}": text for i, text in enumerate(texts(QUERIES, 2, 6))},
        {f"q{i}": {f"d{i}": 1, f"d{i + QUERIES}": 1} for i in range(QUERIES)},
    )
    write_lines(
        folder / "pairs.jsonl",
        [
            {"anchor": a, "positive": b, "negatives": [c]}
            for a, b, c in zip(*(texts(20, s) for s in (3, 4, 5)), strict=True)
        ],
    )
    return folder


def append(path: Path, line: object) -> None:
    with path.open("a") as stream:
        stream.write((line if isinstance(line, str) else json.dumps(line)) + "\n")


def document(folder: Path, id: str, text: str) -> None:
    append(folder / "corpus.jsonl", {"_id": id, "text": text})


def query(folder: Path, id: str, text: str) -> None:
    append(folder / "queries.jsonl", {"_id": id, "text": text})


def judge(folder: Path, line: str) -> None:
    append(folder / "qrels" / "test.tsv", line.replace(" ", "\t"))


def pair(folder: Path, **row: object) -> None:
    append(folder / "pairs.jsonl", row)


FIRST, ASKED = texts(DOCUMENTS, 1)[0], texts(QUERIES, 2, 6)[0]
NOTICE = "All rights are reserved by the owner. See the terms of use."


def unjudged(folder: Path) -> None:
    query(folder, "q-new", "nobody judges this one")


def no_relevant(folder: Path) -> None:
    query(folder, "q-none", "nothing answers this one")
    judge(folder, "q-none d0 0")


def not_utf8(folder: Path) -> None:
    with (folder / "corpus.jsonl").open("ab") as stream:
        stream.write('{"_id": "d-latin", "text": "un café noir"}\n'.encode("latin-1"))


def notices(folder: Path) -> None:
    for place in range(8):
        document(folder, f"d-notice{place}", f"Number {place}. {NOTICE}")


PLANTED: list[tuple[str, str, int, Callable[[Path], None]]] = [
    ("absent-documents", "judgements", 1, lambda folder: judge(folder, "q0 gone 1")),
    ("absent-queries", "judgements", 1, lambda folder: judge(folder, "gone d0 1")),
    ("unreadable-splits", "splits", 1, lambda folder: append(folder / "qrels" / "README.txt", "made by hand")),
    ("unreadable-splits", "splits", 1, lambda folder: append(folder / "qrels" / "dev.json", '{"q0": {"d0": "yes"}}')),
    ("unjudged-queries", "queries", 1, unjudged),
    ("no-relevant", "queries", 1, no_relevant),
    ("colliding-ids", "ids", 1, lambda folder: document(folder, "d3", "a text of another kind")),
    ("colliding-ids", "documents", 1, lambda folder: document(folder, "D3", "a text of another kind")),
    ("contradicting-labels", "judgements", 1, lambda folder: judge(folder, "q0 d0 2")),
    ("repeated-lines", "lines", 1, lambda folder: document(folder, "d0", FIRST)),
    ("repeated-texts", "documents", 1, lambda folder: document(folder, "d-copy", f" {FIRST.upper()}")),
    ("near-duplicates", "documents", 2, lambda folder: document(folder, "d-near", f"{FIRST} again")),
    ("empty-texts", "documents", 1, lambda folder: document(folder, "d-empty", " … ")),
    ("boilerplate", "documents", 8, notices),
    ("encoding", "documents", 1, lambda folder: document(folder, "d-wrong", "un cafÃ© noir")),
    ("encoding", "lines", 1, not_utf8),
    (
        "invisible-characters",
        "documents",
        1,
        lambda folder: document(folder, "d-zero", "a quiet har\u200bbour at dawn"),
    ),
    (
        "invisible-characters",
        "texts",
        1,
        lambda folder: pair(folder, anchor="a quiet har\u2060bour", positive="its answer", negatives=[]),
    ),
    ("odd-grades", "judgements", 1, lambda folder: judge(folder, "q0 d20 1.5")),
    ("training-overlap", "queries", 1, lambda folder: pair(folder, anchor=ASKED, positive="its answer", negatives=[])),
    (
        "contradicting-labels",
        "pairs",
        1,
        lambda folder: pair(folder, anchor=texts(1, 3)[0], positive="more", negatives=[texts(1, 4)[0].upper()]),
    ),
    (
        "repeated-lines",
        "records",
        1,
        lambda folder: pair(folder, anchor=texts(1, 3)[0], positive=texts(1, 4)[0], negatives=[texts(1, 5)[0]]),
    ),
    ("self-pairs", "pairs", 1, lambda folder: pair(folder, anchor="the same", positive="The  same", negatives=[])),
    ("empty-texts", "texts", 1, lambda folder: pair(folder, anchor="a word", positive="…", negatives=[])),
]
FREE_TEXT = {"boilerplate": {"near-duplicates"}}  # faults that come with the planted one


def checked(folder: Path, **options: object) -> dict[tuple[str, str], checks.DataFault]:
    result = retrokit.check([f"beir:{folder}", str(folder / "pairs.jsonl")], **options)  # type: ignore[arg-type]
    return {(fault.kind, fault.unit): fault for data in result.data for fault in data.faults}


@pytest.mark.parametrize("text", ["می\u200cخواهم", "ไทย\u200bไทย", "👩\u200d🚀 flew", "a word \u200band another"])
def test_invisible_characters_that_belong_there(text: str) -> None:
    assert checks.trace_of_invisible(text) is None


def test_clean_data_have_no_fault(tmp_path: Path, tiny_bert: Path) -> None:
    assert checked(clean(tmp_path / "set"), encoder=str(tiny_bert)) == {}


@pytest.mark.parametrize(
    ("kind", "unit", "count", "plant"), PLANTED, ids=lambda value: str(value) if isinstance(value, str) else ""
)
def test_a_planted_fault_is_reported_and_nothing_else(
    tmp_path: Path, kind: str, unit: str, count: int, plant: Callable[[Path], None]
) -> None:
    folder = clean(tmp_path / "set")
    plant(folder)
    faults = checked(folder, examples=1)
    assert {name for name, _ in faults} - FREE_TEXT.get(kind, set()) == {kind}
    fault = faults[kind, unit]
    assert fault.count == count <= fault.of
    assert len(fault.examples) == 1


def test_texts_longer_than_the_encoder_reads(tmp_path: Path, tiny_bert: Path) -> None:
    folder = clean(tmp_path / "set")
    document(folder, "d-long", " ".join(texts(1, 7, 400)))
    query(folder, "q-long", " ".join(texts(1, 8, 400)))
    judge(folder, "q-long d-long 1")
    faults = checked(folder, encoder=str(tiny_bert), examples=3)
    assert set(faults) == {("truncated", "documents"), ("truncated", "queries")}
    assert faults["truncated", "documents"].examples[0].startswith("d-long: ")


def test_what_a_perfect_system_reaches_and_loses(tmp_path: Path) -> None:
    """Two relevant documents for each of 12 queries; by hand, nDCG of one of two is 1 / (1 + 1 / log2(3))."""
    folder = clean(tmp_path / "set")
    assert retrokit.check([str(folder)]).data[0].highest == {"ndcg@10": 1, "recall@100": 1, "mrr@10": 1}
    write_lines(
        folder / "corpus.jsonl",
        [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts(DOCUMENTS, 1)) if i != 0],
    )
    half = 1 / (1 + 0.63093)
    result = retrokit.check([str(folder)], metrics=("ndcg@10", "recall@10")).data[0]
    assert result.highest == pytest.approx({"ndcg@10": (11 + half) / 12, "recall@10": 11.5 / 12}, abs=1e-5)
    (fault,) = result.faults
    assert fault.cost == pytest.approx({"ndcg@10": (1 - half) / 12, "recall@10": 0.5 / 12}, abs=1e-5)


def test_a_copy_that_is_not_judged_costs_the_first_rank(tmp_path: Path) -> None:
    folder = clean(tmp_path / "set")
    document(folder, "d-copy", FIRST)
    fault = checked(folder, metrics=("mrr@10", "accuracy@1"))["repeated-texts", "documents"]
    # d0 and its copy lead for q0; the copy is first
    assert fault.cost == pytest.approx({"mrr@10": 0.5 / 12, "accuracy@1": 1 / 12})
    judge(folder, "q0 d-copy 1")
    assert checked(folder)["repeated-texts", "documents"].cost == {}


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("un cafÃ© noir", True),
        ("itâ€™s", True),
        ("lost \ufffd", True),
        ("a \x96 dash", True),
        ("café, NÃO, Ångström, 10 °C, «à»", False),
        ("Übergröße; naïve; São Paulo; 用户", False),
        ("plain", False),
    ],
)
def test_traces_of_a_wrong_encoding(text: str, is_wrong: bool) -> None:
    assert (trace_of_encoding(text) is not None) == is_wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a test set or training data"),
        (["{0}", "--fail-on", "boiler"], "--fail-on boiler: unknown kind of fault (did you mean boilerplate?)"),
        (["{0}", "--metrics", "ndgc@10"], "unknown metric 'ndgc@10'"),
        (["{0}", "--examples", "-1"], "--examples"),
        (["beir:{0},split=dev"], "has no split 'dev'; its splits are 'test'"),
        (["beir:{0}/qrels"], "is no BEIR folder"),
        (["nothing.jsonl"], "nothing.jsonl: does not exist"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    folder = clean(tmp_path / "set")
    assert cli.run(["check", *(word.format(folder) for word in words)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


class Row(tuple):
    """A judgement that counts how many of them are in memory."""

    alive = most = 0

    def __init__(self, *values: object) -> None:
        Row.alive += 1
        Row.most = max(Row.most, Row.alive)

    def __del__(self) -> None:
        Row.alive -= 1


def test_judgements_of_all_splits_are_not_in_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = clean(tmp_path)
    judgements = [f"q{i % QUERIES}\td{i % DOCUMENTS}\t1\n" for i in range(60)]
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judgements))
    monkeypatch.setattr(checks, "read_judgements", lambda path: map(Row, read_judgements(path)))
    checks.check_test(str(folder), "test", level=1, titles=True)
    assert 1 <= Row.most <= 3
    assert Row.alive == 0


@pytest.mark.shared_data
def test_faults_of_public_data(shared_data: Path) -> None:
    scifact, cisi = retrokit.check([str(shared_data / "scifact"), str(shared_data / "cisi")]).data
    assert [(fault.kind, fault.count) for fault in scifact.faults] == [("encoding", 10)]
    assert {fault.kind: fault.count for fault in cisi.faults} == {
        "unjudged-queries": 36,
        "repeated-texts": 2,
        "near-duplicates": 10,
    }
