"""docs/reproduction: its files are complete, its pages up to date and short; reproduce.py on made-up claims."""

import importlib
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import test_docs
from tests.benchmarks import augment

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reproduction"
sys.path.insert(0, str(FOLDER))
make, reproduce, get_data = (importlib.import_module(name) for name in ("make", "reproduce", "get_data"))
sys.path.remove(str(FOLDER))

RECORDS = [make.records("claims"), make.records("runs"), make.read("benchmarks"), make.data()]
TOTAL = 10_000


def test_every_entry_is_complete():
    assert list(make.problems()) == []
    assert len(make.records("claims")) > 50


def test_the_pages_are_up_to_date_and_short():
    pages = make.pages()
    for path, text in pages.items():
        assert path.read_text("utf-8") == text, f"{path.name}: run: python docs/reproduction/make.py"
        assert text.startswith(make.MARK)
        assert make.unfolded_words(text) <= make.PAGE_WORDS or path.stem in make.UNFOLDED
    assert {path.name for path in FOLDER.glob("*.md")} == {path.name for path in pages}
    assert sum(len(text.split()) for text in pages.values()) <= TOTAL


def test_every_row_has_its_minutes():
    runs = make.records("runs")
    rows = [line for key in make.PAPERS for line in make.matrix(key, runs) if "**" in line]
    assert len(rows) == len(make.records("claims"))
    for line in rows:
        time = line.split("|")[-2].strip()
        assert time.lstrip("≈")[0].isdigit(), line


def test_every_commit_that_is_cited_is_here():
    git = ["git", "-C", str(FOLDER)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("no whole history")
    for name, record in [*make.records("runs").items(), *make.read("benchmarks").items()]:
        for commit in re.findall(r"\b[0-9a-f]{7,40}\b", record["commit"]):
            is_here = [*git, "merge-base", "--is-ancestor", commit, "HEAD"]
            assert subprocess.run(is_here, capture_output=True).returncode == 0, (name, commit)


def test_the_commands_of_claims_runs_benchmarks_and_data_parse():
    for records in RECORDS:
        for name, record in records.items():
            for field in ("command", "read", "make"):
                for words in test_docs.retrokit_lines(record.get(field, "")):
                    with test_docs.noted(f"{name}: {field}"):
                        test_docs.check_command("claims", words)


def test_the_benchmark_of_augmentation_times_commands_that_exist():
    for words, _ in augment.COMMANDS.values():
        test_docs.check_command("benchmarks", ["augment", *words, "texts.jsonl", "-o", "pairs.jsonl"])


def test_scripts_and_pictures_exist():
    root = FOLDER.parents[1]
    for run in [*make.records("runs").values(), *make.read("benchmarks").values(), *make.data().values()]:
        words = " ".join(run.get(field, "") for field in ("command", "read", "make")).split()
        assert all((root / word).exists() for word in words if word.startswith(("examples/", "tests/", "docs/")))
        assert all((root / "docs/pictures" / name).exists() for name in run.get("pictures", {}))


def test_every_run_has_a_claim():
    used = {claim["run"] for claim in make.records("claims").values() if "run" in claim}
    assert used == make.records("runs").keys()


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("Table 1a", ["1a"]),
        ("4.3, Figures 5, 6, Table 25", ["4.3", "F5", "F6", "25"]),
        ("Figures 4b and 4c", ["F4b", "F4c"]),
        ("Tables 14 to 16, 19, S1 to S3", ["14", "15", "16", "19", "S1", "S2", "S3"]),
        ("3.3, Eqs. 7, 9", ["3.3", "E7", "E9"]),
        ("MTEB leaderboard", []),
    ],
)
def test_the_names_of_tables(where, keys):
    assert make.keys(where) == keys


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Four claims, three of them of a run that prints JSON and takes a minute."""
    printed = json.dumps({"results": [{"encoder": "a", "metrics": {"ndcg@10": 0.5}}, {"encoder": "b", "metrics": {}}]})
    run = f"""
[runs.{{name}}]
title = "Small"
setting = ""
departs = "none"
departures = ""
seeds = {{{{pretraining = 3, finetuning = 1}}}}
command = "echo x >> $OUT/ran"
read = '''echo '{printed.replace("{", "{{").replace("}", "}}")}' '''
minutes = {{minutes}}
commit = ""
processor = ""
data = ["given"]
"""
    claim = """
[claims.{name}]
where = "{where}"
claim = "."
published = "0.49"
figure = "0.51"
about = "training"
over = "pretrainings"
effects = [{{name = "gain", interval = [0.1, 0.2], predicts = [0, inf]}}]
verdict = "agrees"
run = "{run}"
[[claims.{name}.checks]]
at = ["results", "encoder=a*", "metrics", "ndcg@10"]
value = {value}
within = 0.01
"""
    entries = [
        'title = "A paper"\ncontains = "Table 12, Figures 5, 6"',
        claim.format(name="good", where="Table 12", value=0.505, run="small"),
        claim.format(name="close", where="2.1, Table 12", value=0.52, run="small"),
        claim.format(name="far", where="Figure 5", value=0.9, run="small"),
        claim.format(name="slow", where="Figure 6", value=0.5, run="long"),
        run.format(name="small", minutes=1),
        run.format(name="long", minutes='"an hour"'),
    ]
    (tmp_path / "mag.toml").write_text("\n".join(entries))
    (tmp_path / "data.toml").write_text('[given]\nvariable = "GIVEN"\ncontents = "a folder"\naddress = "nowhere"\n')
    (tmp_path / "learned.toml").write_text('[[findings]]\ntitle = "A"\ntext = "One {good}."')
    monkeypatch.setattr(make, "FOLDER", tmp_path)
    monkeypatch.setenv("OUT", str(tmp_path / "out"))
    monkeypatch.setenv("GIVEN", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("claim", "word", "status"), [("good", "ok", 0), ("close", "near", 0), ("far", "fail", 1)])
def test_reproduce_prints_ok_near_or_fail(small, capsys, claim, word, status):
    assert reproduce.main([claim]) == status
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [f"{claim}: .", "paper: 0.49", "recorded: 0.51"]
    assert lines[3].startswith(word)
    assert lines[3].endswith("± 0.01, now 0.5")
    assert lines[-2:] == [word, ""]
    assert (small / "out" / "ran").exists()


def test_reproduce_runs_the_rows_of_a_table_once(small, capsys):
    assert reproduce.main(["mag:12"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in reproduce.WORDS] == ["ok", "near"]
    assert (small / "out" / "ran").read_text() == "x\n"
    assert reproduce.main(["MAG:F5", "good"]) == 1


def test_reproduce_selects_rows_by_paper_and_cost(small, capsys):
    assert reproduce.main(["--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["good", "close", "far", "slow"]
    assert reproduce.main(["--paper", "MAG", "--cheap", "--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["good", "close", "far"]
    assert reproduce.main(["slow", "--list"]) == 0
    assert "an hour" in capsys.readouterr().out
    assert reproduce.main(["MAG:13"]) == 2
    assert capsys.readouterr().err == "MAG:13: unknown row; --list prints the names\n"


def test_reproduce_shows_what_was_recorded(small, capsys):
    assert reproduce.main(["good", "--show"]) == 0
    assert {"published: 0.49", "title: Small", "command: echo x >> $OUT/ran"} <= set(
        capsys.readouterr().out.splitlines()
    )
    assert not (small / "out").exists()


def test_reproduce_reads_without_running(small, capsys):
    assert reproduce.main(["good", "--read"]) == 2
    assert capsys.readouterr().err == f"{small / 'out'}: no finished run; leave out --read\n"
    (small / "out").mkdir()
    assert reproduce.main(["good", "--read"]) == 2, "an empty folder is no finished run"
    (small / "out" / "result").touch()
    assert reproduce.main(["good", "--read"]) == 0
    assert not (small / "out" / "ran").exists()


def test_reproduce_reports_a_command_that_fails(small, capsys):
    path = small / "mag.toml"
    path.write_text(path.read_text().replace("echo x >> $OUT/ran", "exit 3"))
    assert reproduce.main(["good"]) == 2
    assert capsys.readouterr().out.splitlines()[-2:] == ["not run: exit status 3: exit 3", ""]
    assert not (small / "out").exists()
    path.write_text(path.read_text().replace("exit 3", "exit 1"))
    assert reproduce.main(["good"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == ["fail  exit status 1: exit 1", ""]


def test_each_sentence_of_what_we_learned_names_a_claim(small):
    def learned(text, count=1):
        finding = f"[[findings]]\ntitle = 'A'\ntext = '''{text}'''\n"
        (small / "learned.toml").write_text(finding * count)
        return [problem for problem in make.problems() if problem.startswith("learned")]

    wrong = learned("It holds {good}. Figures rise to 1.5 {good}, or fall {bad}. It is said.")
    assert wrong == ["learned: no claim bad", "learned: no claim for: It is said."]
    assert learned("One {good}.") == []
    assert make.learned().endswith("One ([good](mag.md): agrees).\n")
    assert learned("word " * 301 + "{good}.") == ["learned: A: more than 300 words"]
    assert learned("One {good}.", 6) == ["learned: more than 5 findings"]


def test_what_is_missing_or_wrong_is_named(small):
    path = small / "mag.toml"
    text = path.read_text()
    assert list(make.problems()) == []
    path.write_text(text.replace('verdict = "agrees"', 'verdict = "good"', 1).replace('commit = ""\n', "", 1))
    assert list(make.problems()) == ["runs small: no commit", "claims good: verdict unknown"]
    path.write_text(text + "\nother = 1\n")
    assert list(make.problems()) == ["runs long: other?"]


@pytest.mark.parametrize(
    ("was", "broken", "problem"),
    [
        (
            "[0.1, 0.2]",
            "[-0.1, 0.2]",
            "agrees, but its effects carry: cannot tell (not all inside)",
        ),
        ("[0.1, 0.2]", "[0, 0.2]", "agrees, but its effects carry: cannot tell (not all inside)"),
        ("[0.1, 0.2]", "[0.1, 0.1]", "gain: a point is no interval; only what is exact has one"),
        ("[0.1, 0.2]", "[-0.2, -0.1]", "agrees, but its effects carry: disagrees (outside: gain)"),
        ('verdict = "agrees"', 'verdict = "disagrees"', "disagrees, but its effects carry: agrees (all inside)"),
        (
            'over = "pretrainings"',
            'over = "trainings"',
            "agrees, but its effects carry: cannot tell (over trainings, not",
        ),
        ('over = "pretrainings"', 'over = "queries"', "agrees, but its effects carry: cannot tell (over queries, not"),
        (
            'about = "training"',
            'about = "one start"\nstart = "random weights"',
            "agrees, but its effects carry: cannot tell (over pretrainings, not trainings)",
        ),
        ('about = "training"', 'about = "one start"', "a claim about one start, and no other, names it: start"),
        ("effects = [", "start = 'a model'\neffects = [", "a claim about one start, and no other, names it: start"),
        ('over = "pretrainings"', 'over = "nothing"', "agrees, but its effects carry: cannot tell (over nothing, not"),
        ('verdict = "agrees"', 'verdict = "not tested"\nwhy = ""', "what was not tested has no effects"),
        (
            "pretraining = 3",
            "pretraining = 2",
            "agrees, but its effects carry: cannot tell (2 pretrainings, 3 are needed)",
        ),
        ("effects = [", "undecided = 'No.'\neffects = [", "agrees, but its effects carry: cannot tell (No.)"),
        ("effects = [", "effects = []\nnote = '' # ", "agrees, but its effects carry: cannot tell (no interval)"),
        ('about = "training"', 'about = "a gain"', "about is one of training, one start, checkpoint, data, exact"),
        ('over = "pretrainings"', "", "about is one of"),
        ("[0.1, 0.2]", "[0.2, 0.1]", "an effect takes name, interval and predicts, each range from low to high"),
        (", predicts = [0, inf]", "", "an effect takes name, interval and predicts"),
    ],
)
def test_a_verdict_that_its_intervals_do_not_carry_is_refused(small, capsys, was, broken, problem):
    path = small / "mag.toml"
    text = path.read_text()
    assert reproduce.main(["--check"]) == 0
    assert text.count(was) > 1
    path.write_text(text.replace(was, broken, 1))
    assert reproduce.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith(f"claims good: {problem}")


def change(path, text, *changes):
    """Write the text with the first place of each change changed."""
    for was, now in changes:
        text = text.replace(was, now, 1)
    path.write_text(text)


def test_other_verdicts_than_agrees(small):
    path = small / "mag.toml"
    text = path.read_text()

    def problems(*changes):
        change(path, text, *changes)
        return list(make.problems())

    disagrees, unknown = (
        ('verdict = "agrees"', 'verdict = "disagrees"'),
        ('verdict = "agrees"', 'verdict = "cannot tell"'),
    )
    two = "[0.1, 0.2], predicts = [0, inf]}, {name = 'loss', interval = [-2, -1], predicts = [0, inf]}"
    assert problems(("[0.1, 0.2]", "[-0.2, -0.1]"), disagrees) == []
    assert problems(("[0.1, 0.2], predicts = [0, inf]}", two), disagrees) == [], "one of two outside"
    assert problems(("[0.1, 0.2]", "[-0.2, 0.1]"), unknown) == []
    assert problems(("effects = [", "undecided = 'No.'\neffects = ["), unknown) == []
    assert problems(("[0.1, 0.2]", "[-0.2, 0]"), unknown) == [], "what ends at a prediction's end is not outside"
    assert problems(unknown) == ["claims good: cannot tell, but its effects carry: agrees (all inside)"]


@pytest.mark.parametrize(
    ("about", "over", "is_enough"),
    [
        ("checkpoint", "texts", True),
        ("checkpoint", "queries", True),
        ("checkpoint", "systems", False),
        ("checkpoint", "nothing", False),
        ("data", "texts", True),
        ("data", "systems", True),
        ("data", "nothing", False),
        ("exact", "nothing", True),
        ("exact", "texts", False),
        ("training", "texts", False),
    ],
)
def test_what_the_intervals_of_a_claim_can_be_over(small, about, over, is_enough):
    path = small / "mag.toml"
    about_it, over_what = f'about = "{about}"', f'over = "{over}"'
    change(path, path.read_text(), ('about = "training"', about_it), ('over = "pretrainings"', over_what))
    assert (list(make.problems()) == []) is is_enough


def test_what_is_exact_can_be_a_point_where_the_prediction_ends(small):
    path = small / "mag.toml"
    change(
        path,
        path.read_text(),
        ('about = "training"', 'about = "exact"'),
        ('over = "pretrainings"', 'over = "nothing"'),
        ("[0.1, 0.2], predicts = [0, inf]", "[137, 137], predicts = [137, 137]"),
    )
    assert list(make.problems()) == []
    assert "- `good`: Exact." in make.paper("MAG")


def test_a_page_says_what_one_start_is(small):
    path = small / "mag.toml"
    change(
        path,
        path.read_text(),
        ('about = "training"', 'about = "one start"\nstart = "minilm"'),
        ('over = "pretrainings"', 'over = "trainings"'),
        ("finetuning = 1", "finetuning = 3"),
    )
    assert list(make.problems()) == []
    assert "- `good`: 95% over trainings from minilm: gain 0.1 to 0.2." in make.paper("MAG")


def test_each_table_and_figure_is_in_a_claim_or_missing(small):
    path = small / "mag.toml"
    text = path.read_text()
    path.write_text(text.replace('"Table 12, Figures 5, 6"', '"Tables 11, 12, Figures 5, 7a, 7b"', 1))
    absent = [f"MAG: no claim and no missing entry for {one}" for one in ("Table 11", "Figure 7a", "Figure 7b")]
    assert list(make.problems()) == [*absent, "MAG: contains no Figure 6"]
    path.write_text(
        text.replace('"Table 12, Figures 5, 6"', '"Tables 11, 12, Figures 5, 6, 7a, 7b"', 1)
        + '[[missing]]\nwhere = "Table 11, Figure 7"\nwhat = "all"\nwhy = "no data"\n'
    )
    assert list(make.problems()) == []
    rows = make.tables().splitlines()
    assert {"|Table 12 |agrees |", "|Table 11, Figure 7 |not run: all; no data |"} <= set(rows)


def test_a_count_that_grows_is_ok(small, capsys):
    path = small / "mag.toml"
    text = path.read_text()
    path.write_text(text.replace("value = 0.505\nwithin = 0.01", "least = 0.5", 1))
    assert list(make.problems()) == []
    assert reproduce.main(["good"]) == 0
    path.write_text(text.replace("value = 0.505\nwithin = 0.01", "least = 0.6", 1))
    assert reproduce.main(["good"]) == 1
    assert "at least 0.6, now 0.5" in capsys.readouterr().out


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
