"""Faults planted in clean data: each kind is reported, and none that is not there."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError
from retrokit.core.notices import heard
from retrokit.data import check as checks
from retrokit.data.check import KINDS, boilerplate, quick_line, trace_of_encoding
from retrokit.data.pairs import read_source
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


def test_what_is_not_checked_is_said(tmp_path: Path) -> None:
    folder = clean(tmp_path / "set")
    message = "training-overlap is not checked, because no test set with judgements is among the data"
    with heard() as notices:
        retrokit.check([str(folder / "pairs.jsonl")])
    assert message in notices
    with heard() as notices:
        retrokit.check([f"beir:{folder}", str(folder / "pairs.jsonl")])
    assert message not in notices


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


def test_every_kind_is_planted() -> None:
    assert {kind for kind, *_ in PLANTED} | {"truncated"} == set(KINDS)


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


def test_a_wrong_line_is_reported_as_of_the_kind_of_the_lines_before(tmp_path: Path) -> None:
    rows = [{"sentence1": "a b", "sentence2": "c d", "score": score} for score in (1, 3)]
    path = write_lines(tmp_path / "scored.jsonl", rows)
    append(path, '{"sentence1": "a b", "score": 1}')
    with pytest.raises(DataError, match=r"scored\.jsonl:3: no field 'positive' \(or .*, sentence2, "):
        retrokit.check([str(path)])


def test_scores_and_labels_that_contradict_each_other(tmp_path: Path) -> None:
    scored = write_lines(
        tmp_path / "scored.jsonl",
        [
            {"sentence1": a, "sentence2": b, "score": s}
            for a, b, s in (("x y", "z", 1), ("Z", "X  y", 2), ("x", "z", 1))
        ],
    )
    labelled = write_lines(
        tmp_path / "labelled.jsonl", [{"text": t, "label": n} for t, n in (("a b", 0), ("A B", 1), ("c", 1))]
    )
    found = retrokit.check([str(scored), str(labelled)], examples=5).data
    assert [(fault.kind, fault.count) for fault in found[0].faults] == [("contradicting-labels", 1)]
    assert found[0].faults[0].examples == ["x y | z: 1, 2"]
    assert [(fault.kind, fault.examples) for fault in found[1].faults] == [
        ("contradicting-labels", ["a b: 0, 1"]),
        ("repeated-texts", ["1, 2: a b"]),
    ]


def test_labels_are_reported_as_not_used_only_if_they_are_not(tmp_path: Path) -> None:
    rows = [{"text": text, "label": label} for text, label in (("a b", 0), ("c d", 1), ("e f", 1))]
    labelled = write_lines(tmp_path / "labelled.jsonl", rows)
    with heard() as lines:
        (checked,) = retrokit.check([str(labelled)]).data
    assert checked.counts == {"texts": 3, "labels": 2}
    assert not [line for line in lines if "columns not used" in line]
    with heard() as lines:
        retrokit.check([str(write_lines(tmp_path / "mixed.jsonl", [*rows, {"text": "g h", "label": "one"}]))])
    assert [line for line in lines if line.endswith("mixed.jsonl: columns not used: 'label'")]


def test_the_training_split_of_a_folder_is_training_data(tmp_path: Path) -> None:
    folder = clean(tmp_path / "set")
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq-train\td0\t1\n")
    query(folder, "q-train", ASKED.upper())
    test, train = retrokit.check([f"beir:{folder}", f"beir:{folder},split=train"]).data
    assert [(fault.kind, fault.count) for fault in test.faults] == [("training-overlap", 1)]
    assert (train.role, train.faults) == ("training", [])


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


def test_boilerplate_is_what_many_different_texts_share() -> None:
    own, alike = texts(20, 9), [f"Number {place}. {NOTICE}" for place in range(8)]
    assert boilerplate([*own, *alike[:7]]) == []
    assert boilerplate([*own[:5], *alike, *own[5:]]) == [*range(5, 13)]
    assert boilerplate([f"{text}. {NOTICE}" for text in texts(20, 11, 60)]) == []  # a small part of each
    assert boilerplate([NOTICE] * 20) == []  # one text


def test_gates_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = clean(tmp_path / "set")
    assert cli.run(["check", f"beir:{folder}", "--fail-on", "any"]) == 0
    document(folder, "d-wrong", "un cafÃ© noir")
    assert cli.run(["check", f"beir:{folder}", "--fail-on", "boilerplate"]) == 0
    capsys.readouterr()
    assert cli.run(["check", f"beir:{folder}", "--fail-on", "any", "--json"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "retrokit: present: encoding\n"
    assert json.loads(shown.out)["failing"] == ["encoding"]
    checked = retrokit.check([f"beir:{folder}"], fail_on=["any"])
    assert checked.failing == ["encoding"]
    assert retrokit.check([f"beir:{folder}"], fail_on=["boilerplate"]).failing == []
    (data,) = json.loads(shown.out)["data"]
    assert [(fault["kind"], fault["count"], fault["of"]) for fault in data["faults"]] == [
        ("encoding", 1, DOCUMENTS + 1)
    ]
    assert cli.run(["check", f"beir:{folder}", "--examples", "2"]) == 0
    assert "d-wrong: un cafÃ© noir" in capsys.readouterr().out


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


def test_an_evaluation_reports_in_one_line(
    tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clean(tmp_path / "set")
    words = ["eval", str(tiny_bert), "--on", f"beir:{folder}", "--metrics", "ndcg@10", "--device", "cpu"]
    assert cli.run(words) == 0
    assert "retrokit check" not in capsys.readouterr().err
    document(folder, "d-copy", FIRST.upper())
    document(folder, "d-wrong", "un cafÃ© noir")
    assert cli.run(words) == 0
    copies = "1 times a document with the text of a relevant one is not judged relevant"
    expected = f"set: {copies}; 1 documents show a wrong encoding (see retrokit check)"
    assert expected in capsys.readouterr().err
    monkeypatch.setattr(checks, "QUICK", 100)
    data, _ = checks.check_test(str(folder), "test", 1, True)
    assert quick_line(data) is None


def test_a_training_counts_negatives_that_are_positives(
    tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"anchor": "a", "positive": "b", "negatives": ["c", "d"]},
        {"anchor": "a", "positive": "c", "negatives": ["b"]},
    ]
    path = write_lines(tmp_path / "pairs.jsonl", [*rows, {"anchor": "e", "positive": "f", "negatives": ["b"]}])
    assert read_source(str(path), "pairs").counts["contradictions"] == 2
    words = ["finetune", str(tiny_bert), "--data", str(path), "-o", str(tmp_path / "run"), "--batch-size", "2"]
    assert cli.run([*words, "--dry-run", "--device", "cpu"]) == 0
    assert f"{path}: 2 negatives are positives of their anchor (see retrokit check)" in capsys.readouterr().err


@pytest.mark.shared_data
def test_faults_of_public_data(shared_data: Path) -> None:
    scifact, cisi = retrokit.check([str(shared_data / "scifact"), str(shared_data / "cisi")]).data
    assert [(fault.kind, fault.count) for fault in scifact.faults] == [("encoding", 10)]
    assert {fault.kind: fault.count for fault in cisi.faults} == {
        "unjudged-queries": 36,
        "repeated-texts": 2,
        "near-duplicates": 10,
    }
