"""docs/results: its files are complete, its pages up to date, its commands real; reproduce.py on a made-up claim."""

import importlib
import io
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import test_docs

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results"
sys.path.insert(0, str(FOLDER))
make, reproduce, get_data = (importlib.import_module(name) for name in ("make", "reproduce", "get_data"))
sys.path.remove(str(FOLDER))

RECORDS = [make.records("claims"), make.records("runs"), make.records("benchmarks"), make.data()]


def test_every_file_is_complete():
    assert list(make.problems()) == []
    assert len(make.records("claims")) > 50


def test_the_pages_are_up_to_date():
    for path, text in make.pages().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run: python docs/results/make.py"
        assert text.startswith(make.MARK)


def test_the_commands_of_claims_runs_benchmarks_and_data_parse():
    for records in RECORDS:
        for name, record in records.items():
            for field in ("command", "read", "make"):
                for words in test_docs.retrokit_lines(record.get(field, "")):
                    with test_docs.noted(f"{name}: {field}"):
                        test_docs.check_command("claims", words)


def test_scripts_and_pictures_exist():
    root = FOLDER.parents[1]
    for run in [*make.records("runs").values(), *make.records("benchmarks").values(), *make.data().values()]:
        words = " ".join(run.get(field, "") for field in ("command", "read", "make")).split()
        assert all((root / word).exists() for word in words if word.startswith(("examples/", "tests/", "docs/")))
        assert all((root / "docs/pictures" / name).exists() for name in run.get("pictures", {}))


def test_every_run_has_a_claim():
    used = {claim["run"] for claim in make.records("claims").values() if "run" in claim}
    assert used == make.records("runs").keys()


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Three claims and a run that prints JSON, and a table below it."""
    printed = json.dumps({"results": [{"encoder": "a", "metrics": {"ndcg@10": 0.5}}, {"encoder": "b", "metrics": {}}]})
    run = f"""
title = "Small"
page = "MAG"
setting = ""
departures = ""
seeds = {{pretraining = 0, finetuning = 0}}
command = "touch $OUT/ran"
read = '''echo '{printed}' '''
minutes = 0
commit = ""
processor = ""
data = ["given"]
"""
    claim = """
paper = "MAG"
where = "Table 0"
claim = "."
published = ""
figure = ""
interval = "none"
verdict = "agrees"
run = "small"
[[checks]]
at = ["results", "encoder=a*", "metrics", "ndcg@10"]
value = {}
within = 0.01
"""
    for name, value in (("good", 0.505), ("close", 0.52), ("far", 0.9)):
        (tmp_path / "claims").mkdir(exist_ok=True)
        (tmp_path / "claims" / f"{name}.toml").write_text(claim.format(value))
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "small.toml").write_text(run)
    (tmp_path / "data.toml").write_text('[given]\nvariable = "GIVEN"\ncontents = "a folder"\naddress = "nowhere"\n')
    (tmp_path / "learned.txt").write_text("One {good}.")
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setenv("GIVEN", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("claim", "word", "status"), [("good", "ok", 0), ("close", "near", 0), ("far", "fail", 1)])
def test_reproduce_prints_ok_near_or_fail(small, capsys, claim, word, status):
    assert reproduce.main([claim]) == status
    assert capsys.readouterr().out.splitlines()[-1] == word
    assert (small / "out" / "ran").exists()


def test_reproduce_reads_without_running(small, capsys):
    assert reproduce.main(["good", "--read"]) == 2
    assert capsys.readouterr().err == f"{small / 'out'}: no finished run; leave out --read\n"
    (small / "out").mkdir()
    assert reproduce.main(["good", "--read"]) == 2, "an empty folder is no finished run"
    (small / "out" / "result").touch()
    assert reproduce.main(["good", "--read"]) == 0
    assert not (small / "out" / "ran").exists()


def test_reproduce_reports_a_command_that_fails(small, capsys):
    path = small / "runs" / "small.toml"
    path.write_text(path.read_text().replace("touch $OUT/ran", "exit 3"))
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr().out == "not run: exit status 3: exit 3\n"
    assert not (small / "out").exists()
    path.write_text(path.read_text().replace("exit 3", "exit 1"))
    assert reproduce.main(["good"]) == 1
    assert capsys.readouterr().out == "fail  exit status 1: exit 1\n"


def test_each_sentence_of_what_we_learned_names_a_claim(small):
    learned = small / "learned.txt"
    learned.write_text("## A heading\n\nIt holds {good}. Figures rise to 1.5 {good}, or fall {bad}. It is said.\n")
    wrong = [problem for problem in make.problems() if problem.startswith("learned")]
    assert wrong == ["learned.txt: no claim bad", "learned.txt: no claim for: It is said."]
    learned.write_text("One {good}.")
    assert re.search(r"One \(\[good\]\(\w+\.md#[\w-]+\): agrees\)\.\n$", make.learned())
    learned.write_text("word " * 901 + "{good}.")
    assert "learned.txt: more than 900 words" in list(make.problems())


def _served(name, files):
    """An archive in memory."""
    buffer = io.BytesIO()
    if name == "cisi":
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for path, text in files.items():
                member = tarfile.TarInfo(path)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
    else:
        with zipfile.ZipFile(buffer, "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)
    return io.BytesIO(buffer.getvalue())


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        (
            "scifact",
            {
                "scifact/corpus.jsonl": '{"_id": "1", "title": "T", "text": "é", "metadata": {}}\n',
                "scifact/queries.jsonl": "",
                "scifact/qrels/train.tsv": "",
                "scifact/qrels/test.tsv": "t",
            },
            {"corpus.jsonl": '{"_id": "1", "title": "T", "text": "\\u00e9"}\n', "qrels/test.tsv": "t"},
        ),
        ("sure", {"SURE-main/data/fiqa/a.jsonl": "x", "SURE-main/README.md": "no"}, {"fiqa/a.jsonl": "x"}),
        (
            "paradetox",
            {"paradetox-main/paradetox/paradetox.tsv": "toxic\tneutral1\nbad\t good\tbetter\nworse\t \nlone\n"},
            {"pairs.jsonl": '{"toxic": "bad", "neutral": "good"}\n'},
        ),
        (
            "cisi",
            {"CISI.ALL": ".I 1\n.T\nT\n.W\nW\n", "CISI.QRY": ".I 7\n.W\nQ  q\n r", "CISI.REL": "  7   1\t0\t0.000\n"},
            {
                "corpus.jsonl": '{"_id": "1", "title": "T", "text": "W"}\n',
                "queries.jsonl": '{"_id": "7", "text": "Q  q r"}\n',
                "qrels/test.tsv": "query-id\tcorpus-id\tscore\n7\t1\t1\n",
            },
        ),
    ],
)
def test_archives_become_folders(name, files, expected, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(get_data, "urlopen", lambda address: _served(name, files))
    get_data.main(name, tmp_path)
    assert {path: (tmp_path / path).read_text("utf-8") for path in expected} == expected
    assert "no" not in [path.read_text() for path in tmp_path.rglob("*.md")]
    if make.data()[name].get("sha256"):
        assert "differs from the recorded SHA-256" in capsys.readouterr().out
