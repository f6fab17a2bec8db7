"""``retrokit search``: three forms of what is found, and what is said of wrong use."""

import io
import json
from pathlib import Path

import pytest

import retrokit
from retrokit import cli
from retrokit.data.trec import read_run
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences

DOCUMENTS = {f"d{number}": text for number, text in enumerate(sentences(30, seed=3))}
QUERIES = {f"q{number}": " ".join(text.split()[:4]) for number, text in enumerate(list(DOCUMENTS.values())[:5])}


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("data") / "toy", DOCUMENTS, QUERIES, {"q0": {"d0": 1}})


@pytest.fixture(scope="module")
def exported(tiny_bert: Path, beir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "documents"
    assert cli.run(["export", str(tiny_bert), "--on", str(beir), "-o", str(out), "--precision", "fp32"]) == 0
    return out


def test_texts_of_an_export_are_shown_while_its_file_is_the_same(tiny_bert, tmp_path, capsys, monkeypatch):
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "out"
    write_lines(corpus, [{"id": id, "text": text} for id, text in DOCUMENTS.items()])
    assert cli.run(["export", f"{tiny_bert},chunks=8", "--on", str(corpus), "-o", str(out)]) == 0
    words = ["search", "--index-folder", str(out), "-k", "1"]
    question = ["--query", DOCUMENTS["d7"]]

    def hit():
        captured = capsys.readouterr()
        (document,) = json.loads(captured.out)["documents"]
        return document.get("text"), [line for line in captured.err.splitlines() if "bare checkpoint" not in line]

    capsys.readouterr()
    assert cli.run([*words, *question, "--format", "jsonl"]) == 0
    assert hit() == (DOCUMENTS["d7"], [])
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{DOCUMENTS['d7']}\n\n"))
    assert cli.run([*words, "--interactive", "--format", "jsonl"]) == 0
    assert hit()[0] == DOCUMENTS["d7"]
    write_lines(corpus, [{"id": id, "text": "another"} for id in DOCUMENTS])
    assert cli.run([*words, *question, "--format", "jsonl"]) == 0
    assert hit() == (None, [f"ids without texts: {corpus}: is not what {out} was written from"])
    corpus.unlink()
    assert cli.run([*words, *question, "--format", "jsonl"]) == 0
    text, (said,) = hit()
    assert text is None
    assert said.startswith(f"ids without texts: {corpus}")
    assert cli.run([*words, *question, "--format", "trec"]) == 0
    assert "without texts" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bert", "bm25", "folder", "two-stage", "dense"])
def test_a_run_is_what_the_python_api_finds(name, tiny_bert, beir, exported, tmp_path):
    texts, queries, ids = list(DOCUMENTS.values()), list(QUERIES.values()), list(DOCUMENTS)
    system = {
        "bert": str(tiny_bert),
        "two-stage": f"two-stage:first=bm25,reranker={'maxsim:encoder=' + str(tiny_bert)!r}".replace("'", '"'),
        "dense": f"dense:{tiny_bert},sim=dot",
    }.get(name, "bm25")
    precision = ["--precision", "fp32"] if name in ("bert", "folder") else []
    where = ["--index-folder", exported] if name == "folder" else [system, "--corpus", beir]
    words = ["search", *where, "--queries", beir / "queries.jsonl", "-k", 4, "-o", tmp_path / "run.trec", *precision]
    assert cli.run([str(word) for word in words]) == 0
    options = {"precision": "fp32"} if precision else {}
    searcher = str(tiny_bert) if name == "folder" else system
    expected = retrokit.search(searcher, texts, queries, k=4, **options)
    run = read_run(tmp_path / "run.trec")
    for id, (scores, places) in zip(QUERIES, expected, strict=True):
        assert run.get(id, {}) == pytest.approx(
            {ids[place]: score for score, place in zip(scores.tolist(), places.tolist(), strict=True)}, rel=1e-5
        )
    assert any(run.values())


def test_json_lines_have_texts_where_there_are_any(tiny_bert, beir, exported, tmp_path, capsys):
    shared = ["--query", "a b", "--query", DOCUMENTS["d7"], "-k", "2", "--format", "jsonl"]
    assert cli.run(["search", str(tiny_bert), "--corpus", str(beir), *shared]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["query"], len(row["documents"])) for row in rows] == [
        ("query-1", "a b", 2),
        ("query-2", DOCUMENTS["d7"], 2),
    ]
    best = rows[1]["documents"][0]
    assert best == {"id": "d7", "score": pytest.approx(1, abs=1e-5), "text": DOCUMENTS["d7"]}
    assert cli.run(["search", "--index-folder", str(exported), *shared]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[1]["documents"][0] == {"id": "d7", "score": pytest.approx(1, abs=0.02), "text": DOCUMENTS["d7"]}
    out = tmp_path / "found.jsonl.gz"  # whose name says the form
    words = ["search", "bm25", "--corpus", str(beir / "corpus.jsonl"), "--queries", str(beir), "-o", str(out)]
    assert cli.run([*words, "--query", "one more"]) == 0
    from retrokit.data.jsonl import read_jsonl

    assert [row["id"] for _, row in read_jsonl(out)] == [*QUERIES, "query-1"]


def test_a_table_for_people(beir, exported, capsys):
    assert cli.run(["search", "--index-folder", str(exported), "--query", DOCUMENTS["d7"], "-k", "3"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(DOCUMENTS["d7"])
    first = next(line for line in shown.splitlines() if line.startswith("│ 1"))
    assert first.split("│")[2].strip() == "d7"
    assert first.split("│")[3].strip() == DOCUMENTS["d7"]
    assert cli.run(["search", "bm25", "--corpus", str(beir), "--query", "zzz"]) == 0
    assert "nothing was found" in capsys.readouterr().out
    pytest.importorskip("faiss", reason="of the extra faiss")
    words = ["search", "--index-folder", str(exported), "--query", DOCUMENTS["d7"], "--index", "IVF1,Flat"]
    assert cli.run(words) == 0
    captured = capsys.readouterr()
    assert "d7" in captured.out
    assert "recall@10 1.0, queries 1" in captured.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("bm25 --query x", "give one of --corpus, texts to search, and --index-folder"),
        ("bm25 --corpus {beir} --index-folder {out} --query x", "give one of"),
        ("bm25 --corpus {beir}", "give --queries, a file of them, or --query, a text"),
        ("--corpus {beir} --query x", "name what searches: an encoder, bm25"),
        ("bm25 --corpus - --queries -", "--corpus and --queries cannot both be standard input"),
        ("bm25 --corpus {beir} --interactive --query x", "--interactive and --query exclude each other"),
        ("bm25 --corpus {beir} --query=", "--query is empty; expected a text"),
        ("bm25 --corpus {beir} --query x -k 0", "-k 0 is out of range (at least 1)"),
        ("bm25 --corpus {beir} --query x --format csv", "--format csv is none of table, trec, jsonl"),
        (
            "bm25 --corpus {beir} --query x --format table -o {beir}/t",
            "--output takes --format trec or jsonl, not a table",
        ),
        ("bm25 --corpus {beir} --query x --sim dot", "are an encoder's, and bm25 is none"),
        ("bm25 --corpus nowhere.jsonl --query x", "nowhere.jsonl"),
        (
            "bm25 --corpus {beir}/qrels/test.tsv --query x",
            "test.tsv:2: no field 'text'; the fields are 'query-id', 'corpus-id', 'score'",
        ),
        ("--index-folder {beir} --query x", "is not a folder of 'retrokit export'"),
        ("bm25 --index-folder {out} --query x", "is searched with the encoder that wrote it"),
        ("--index-folder {out} --sim qnorm --query x", "was written for the similarity cosine, not qnorm"),
        ("bm25:k2=1 --corpus {beir} --query x", "k2"),
    ],
)
def test_wrong_use_is_one_line(beir, exported, capsys, words, problem):
    assert cli.run(["search", *words.format(beir=beir, out=exported).split()]) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert said.out == ""
    assert len(said.err.splitlines()) == 1


class Zeros(io.RawIOBase):
    """Bytes without a line end, and how many of them were read."""

    count = 0

    def readable(self):
        return True

    def readinto(self, into):
        self.count += len(into)
        assert self.count < 8 << 20, "read without limit"
        into[:] = bytes(len(into))
        return len(into)


@pytest.mark.parametrize("system", ["bm25", "folder"])
def test_lines_are_answered_one_by_one(system, beir, exported, capsys, monkeypatch):
    where = ["--index-folder", str(exported)] if system == "folder" else [system, "--corpus", str(beir)]
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{DOCUMENTS['d7']}\n{DOCUMENTS['d9']}\n\n{DOCUMENTS['d3']}\n"))
    assert cli.run(["search", *where, "--interactive", "-k", "2", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["id"], row["documents"][0]["id"]) for row in rows] == [("query-1", "d7"), ("query-2", "d9")]
    monkeypatch.setattr("sys.stdin", io.StringIO(DOCUMENTS["d7"]))
    assert cli.run(["search", *where, "-i"]) == 0
    assert capsys.readouterr().out.startswith(DOCUMENTS["d7"])


def test_a_line_without_end_is_refused(beir, capsys, monkeypatch):
    monkeypatch.setattr("retrokit.core.files.LONGEST_LINE", 1 << 20)
    endless = io.TextIOWrapper(io.BufferedReader(Zeros()))
    monkeypatch.setattr("sys.stdin", endless)
    assert cli.run(["search", "bm25", "--corpus", str(beir), "--interactive"]) == 2
    problem = "standard input:1: the line is longer than 1 MiB; expected a query"
    assert capsys.readouterr().err == f"retrokit: {problem}\n"
    assert endless.buffer.raw.count < 4 << 20


def test_what_is_typed_is_utf_8_in_any_locale(tmp_path, capsys, monkeypatch):
    (tmp_path / "corpus.jsonl").write_text('{"id": "d", "text": "Käse"}\n')
    words = ["search", "bm25", "--corpus", str(tmp_path / "corpus.jsonl"), "--format", "jsonl"]
    by_ascii = "Käse".encode().decode("ascii", "surrogateescape")  # as Python has it where the locale is C
    assert cli.run([*words, "--query", by_ascii]) == 0
    assert json.loads(capsys.readouterr().out)["query"] == "Käse"
    assert cli.run([*words, "--query", "\udcff"]) == 2
    assert capsys.readouterr().err == "retrokit: --query: is not UTF-8 text (byte 0xff at position 1)\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Käse\n".encode() + b"\xff\n"), encoding="ascii"))
    assert cli.run([*words, "--interactive"]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["query"] == "Käse"
    assert "standard input:2: is not UTF-8 text (byte 0xff at position 1 of the line)" in shown.err
