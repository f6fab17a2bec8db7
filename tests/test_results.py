"""docs/results: its files are complete, its pages up to date, its commands real; reproduce.py on a made-up claim."""

import importlib
import io
import json
import lzma
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from tests import conftest, test_docs

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results"
sys.path.insert(0, str(FOLDER))
make, reproduce, get_data = (importlib.import_module(name) for name in ("make", "reproduce", "get_data"))
sys.path.remove(str(FOLDER))

RECORDS = [make.records("claims"), make.records("runs"), make.records("benchmarks"), make.data()]
READS = [
    pytest.param(words, id=f"{name}:{field}:{number}")
    for records in RECORDS
    for name, record in records.items()
    for field in ("command", "read", "make")
    for number, words in enumerate(test_docs.retrokit_lines(record.get(field, "")))
]


def test_every_file_is_complete():
    assert list(make.problems()) == []
    assert len(make.records("claims")) > 50


def test_the_pages_are_up_to_date():
    for path, text in make.pages().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run: python docs/results/make.py"
        assert text.startswith(make.MARK)


@pytest.mark.parametrize("words", READS)
def test_the_commands_of_claims_runs_benchmarks_and_data_parse(words, tmp_path, monkeypatch):
    test_docs.test_commands_parse("claims", words, tmp_path, monkeypatch)


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


def _print_figures(path, command):
    """Make the run at ``path`` one whose command prints the figures."""
    text = path.read_text().replace("touch $OUT/ran", command)
    path.write_text(re.sub("^read = .*\n", "", text, flags=re.MULTILINE))


def test_reproduce_reads_the_output_of_a_command_that_prints_the_figures(small, capsys, monkeypatch):
    path = small / "runs" / "small.toml"
    _print_figures(path, "touch again; cat $GIVEN/printed")
    (small / "printed").write_text('{"results": [{"encoder": "a", "metrics": {"ndcg@10": 0.5}}]}')
    monkeypatch.setattr(reproduce, "ROOT", small)
    monkeypatch.setenv("OUT", "here")
    monkeypatch.chdir(small)
    assert reproduce.main(["good", "--read"]) == 2
    assert capsys.readouterr().err == f"{small / 'here'}: no finished run; leave out --read\n"
    assert reproduce.main(["good"]) == 0
    (small / "again").unlink()
    monkeypatch.delenv("GIVEN")
    assert reproduce.main(["good", "--read"]) == 0
    assert not (small / "again").exists()
    assert capsys.readouterr().out.splitlines()[-1] == "ok"


def test_reproduce_names_what_is_missing(small, capsys, monkeypatch):
    data = small / "data.toml"
    data.write_text(data.read_text() + 'make = "get it"\n')
    monkeypatch.delenv("GIVEN")
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr().err == "GIVEN: not set; a folder; nowhere; get it\n"
    monkeypatch.setenv("GIVEN", "/no/where")
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr().err == "GIVEN=/no/where: does not exist; a folder; nowhere; get it\n"
    assert not (small / "out").exists()


def test_reproduce_reports_a_command_that_fails(small, capsys):
    path = small / "runs" / "small.toml"
    path.write_text(path.read_text().replace("touch $OUT/ran", "exit 3"))
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr().out == "not run: exit status 3: exit 3\n"
    assert not (small / "out").exists()
    path.write_text(path.read_text().replace("exit 3", "exit 1"))
    assert reproduce.main(["good"]) == 1
    assert capsys.readouterr().out == "fail  exit status 1: exit 1\n"


def test_reproduce_reports_data_that_cannot_be_created(small, capsys, monkeypatch):
    (small / "data.toml").write_text('[given]\npath = "made"\ncontents = "a folder"\nmake = "echo\\nexit 1"\n')
    monkeypatch.setattr(reproduce, "ROOT", small)
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr() == ("", "given: not created, exit status 1: echo; exit 1\n")


def test_a_skipped_test_is_no_result(small, capsys):
    path, test = small / "runs" / "small.toml", small / "test_one.py"
    test.write_text("import pytest\n@pytest.mark.skip(reason='no data')\ndef test_a(): ...\ndef test_b(): ...\n")
    command = f"{sys.executable} -m pytest -c /dev/null -ra {test}"
    _print_figures(path, command)
    claim = small / "claims" / "good.toml"
    claim.write_text(claim.read_text().partition("at =")[0] + "line = '(\\d+) passed'\nvalue = 1\nwithin = 0\n")
    assert reproduce.main(["good"]) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "not run:"
    assert re.fullmatch(r"SKIPPED \[1\] .*test_one.py:2: no data", said[1])
    assert reproduce.main(["good", "--read"]) == 2
    test.write_text("def test_b(): ...\n")
    assert reproduce.main(["good"]) == 0


def test_tests_read_the_folder_that_a_variable_names_or_are_skipped(tmp_path, monkeypatch):
    monkeypatch.setenv("SURE", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=f"the real data is not here: {tmp_path / 'fiqa'}"):
        conftest.real("sure", "fiqa")
    (tmp_path / "fiqa").mkdir()
    assert conftest.real("sure", "fiqa") == tmp_path.resolve()


def test_counts_of_passed_tests_are_exact():
    checks = [check for claim in make.records("claims").values() for check in claim.get("checks", [])]
    assert {check["within"] for check in checks if "passed" in check.get("line", "")} == {0}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_break_is_one_line_and_ends_what_runs(small, number):
    path = small / "runs" / "small.toml"
    path.write_text(path.read_text().replace("touch $OUT/ran", "echo $$ > $OUT/started; sleep 60"))
    script = (
        f"import make, reproduce; make.FOLDER = make.Path({str(small)!r}); raise SystemExit(reproduce.run(['good']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=make.__file__[:-8], stderr=subprocess.PIPE, text=True
    )
    started = small / "out" / "started"
    while process.poll() is None and not (started.exists() and started.read_text().strip()):
        time.sleep(0.02)
    process.send_signal(number)
    assert process.communicate() == (None, "stopped; the same command resumes\n")
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_a_break_while_a_process_starts_ends_it(small, monkeypatch):
    start, processes = subprocess.Popen, []

    def interrupted(*args, **options):
        processes.append(start(*args, **options))
        signal.raise_signal(signal.SIGINT)
        return processes[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            reproduce.shell("sleep 60", {**os.environ})
    finally:
        signal.signal(signal.SIGINT, before)
    assert processes[0].returncode == -signal.SIGTERM


def test_a_study_names_its_extra_before_data_are_made(small, capsys, monkeypatch):
    path = small / "runs" / "small.toml"
    path.write_text(path.read_text().replace("touch $OUT/ran", "retrokit study run x"))
    monkeypatch.setattr(reproduce.importlib.util, "find_spec", lambda name: None)
    assert reproduce.main(["good"]) == 2
    assert "the command needs an extra: python -m pip install -e '.[study]'" in capsys.readouterr().err
    path.write_text(path.read_text().replace("retrokit study run x", "python -m pytest x"))
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr().err == "the command needs an extra: python -m pip install -e '.[test]'\n"


def test_a_variable_may_name_the_folder_of_its_file(tmp_path, monkeypatch):
    (tmp_path / "abstracts.jsonl").write_text("")
    for given in (tmp_path, tmp_path / "abstracts.jsonl"):
        environment = {"ABSTRACTS": str(given)}
        assert reproduce.prepare(["abstracts"], environment) == []
        assert environment["ABSTRACTS"] == str(tmp_path.resolve() / "abstracts.jsonl")


def test_help_and_an_unknown_claim(small, capsys):
    with pytest.raises(SystemExit, match="0"):
        reproduce.main(["--help"])
    assert "Run a claim's command" in capsys.readouterr().out
    assert reproduce.main(["godo"]) == 2
    assert capsys.readouterr().err == "godo: unknown claim (did you mean good?); --list prints the names\n"
    with pytest.raises(SystemExit, match="2"):
        reproduce.main([])
    assert "usage: " in (said := capsys.readouterr().err)
    assert said.endswith("name a claim; --list prints their names\n")
    with pytest.raises(SystemExit, match="2"):
        reproduce.main(["good", "--reed"])
    assert "--reed" in capsys.readouterr().err
    assert not (small / "out").exists()


def test_the_list_has_minutes_and_data(small, capsys):
    assert reproduce.main(["--list"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["close", "0", "minutes", "given"]


def test_a_figure_is_read_from_a_line_of_a_table():
    table = "| a | 1 | 2.5 ± 0.1 |\n| b | 1 | −3.5 |\n"
    assert reproduce.figure(table, {"line": r"^\| a \|[^|]*\| ([\d.]+)"}) == 2.5
    assert reproduce.figure(table, {"line": r"^\| b \|[^|]*\| (\S+)"}) == -3.5
    assert reproduce.judge(table, [{"line": r"^\| c \| (\S+)", "value": 1, "within": 1}]) == "fail"


def test_the_quickest_row_may_have_a_remark_on_its_time(small):
    path = small / "runs" / "small.toml"
    path.write_text(path.read_text().replace("minutes = 0", 'minutes = 2\ntime = "about 2 minutes, an estimate"'))
    assert "The quickest row is `close`: about 2 minutes, data: given." in make.paper("MAG")


def test_problems_are_found(small):
    path = small / "claims" / "good.toml"
    path.write_text(path.read_text().replace('"agrees"', '"holds"') + 'colour = "red"\n')
    assert "claims/good.toml: verdict or paper unknown" in list(make.problems())


def test_each_sentence_of_what_we_learned_names_a_claim(small):
    learned = small / "learned.txt"
    learned.write_text("## A heading\n\nIt holds {good}. Figures rise to 1.5 {good}, or fall {bad}. It is said.\n")
    wrong = [problem for problem in make.problems() if problem.startswith("learned")]
    assert wrong == ["learned.txt: no claim bad", "learned.txt: no claim for: It is said."]
    learned.write_text("One {good}.")
    assert re.search(r"One \(\[good\]\(\w+\.md#[\w-]+\): agrees\)\.\n$", make.learned())
    learned.write_text("word " * 901 + "{good}.")
    assert "learned.txt: more than 900 words" in list(make.problems())


def test_cisi_is_read_by_its_letters():
    text = ".I 1\n.T\nA title\n.A\nSomebody\n.W\nOne line\n and another.\n.X\n1 5 1\n.I 2\n.W\nA query\n"
    first, second = get_data.entries(text)
    assert first["I"] == "1"
    assert first["T"] == "A title"
    assert first["W"] == "One line and another."
    assert second == {"I": "2", "W": "A query "}, "a blank line at the end leaves a space, as in the recorded file"


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


def test_abstracts_are_taken_from_their_places(tmp_path, monkeypatch):
    (tmp_path / "abstracts.xz").write_bytes(lzma.compress(b"uai2019 1\nacl2020 0\nuai2019 0\n"))
    files = {
        "at/uai/uai2019.json": [
            {"id": "a", "title": " A ", "abstract": "One\n text"},
            {"title": "B", "abstract": "Two"},
        ],
        "at/acl/acl2020.json": [{"id": "c", "title": "C", "abstract": "Three"}],
    }
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    monkeypatch.setattr(get_data, "urlopen", lambda address: io.StringIO(json.dumps(files[address])))
    get_data.abstracts("at", tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "abstracts.jsonl").read_text("utf-8").splitlines()]
    assert rows == [
        {"id": "uai2019-None", "title": "B", "text": "Two", "label": "uai", "year": 2019},
        {"id": "acl2020-c", "title": "C", "text": "Three", "label": "acl", "year": 2020},
        {"id": "uai2019-a", "title": "A", "text": "One text", "label": "uai", "year": 2019},
    ]


def test_the_list_of_abstracts_is_whole():
    lines = lzma.decompress((FOLDER / "abstracts.xz").read_bytes()).decode().splitlines()
    assert len(lines) == len(set(lines)) == 22_918


def test_sets_of_the_hub_become_json_lines(tmp_path, monkeypatch, capsys):
    row = {"text": "é", "label": 3, "label_text": "card", "other": 1}
    monkeypatch.setattr("datasets.load_dataset", lambda path, configuration, split: [row])
    get_data.main("banking77", tmp_path)
    assert (tmp_path / "train.jsonl").read_text("utf-8") == '{"text": "\\u00e9", "label": "card"}\n'
    assert capsys.readouterr().out.count("differs") == 2
