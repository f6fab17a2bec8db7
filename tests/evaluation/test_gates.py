"""``--junit``, ``--markdown-summary``, ``--baseline-system`` and ``--gate-metric``, on rankings that are given."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from retrokit import cli
from tests.evaluation.fakes import write_folder
from tests.models import sentences

COUNT = 30
TEXTS = dict(enumerate(sentences(COUNT, seed=3)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    documents, queries = ({f"{side}{place}": text for place, text in TEXTS.items()} for side in "dq")
    return write_folder(tmp_path / "data", documents, queries, {f"q{place}": {f"d{place}": 1} for place in TEXTS})


def run_at(path: Path, rank: int) -> str:
    """A run that finds the document of each query at ``rank``."""
    lines = []
    for place in TEXTS:
        others = [other for other in TEXTS if other != place][: rank - 1]
        for number, document in enumerate([*others, place], start=1):
            lines.append(f"q{place} Q0 d{document} {number} {-number} x\n")
    path.write_text("".join(lines))
    return f"run:{path}"


def evaluate(data: Path, *words: object) -> int:
    return cli.run(["eval", "--on", f"beir:{data}", *map(str, words)])


GATES = ("--fail-under", "mrr@10=0.4", "--fail-under", "recall@100=1", "--fail-if-worse")


def test_what_became_of_gates_stands_in_every_form(data, tmp_path, capsys):
    good, bad = run_at(tmp_path / "good", 1), run_at(tmp_path / "bad", 3)
    files = tmp_path / "made" / "junit.xml", tmp_path / "summary.md"
    words = [*GATES, "--junit", files[0], "--markdown-summary", files[1]]
    assert evaluate(data, good, bad, *words, "--json") == 1
    out, err = capsys.readouterr()
    told = json.loads(out)["gates"]
    assert [(one["system"], one["metric"], one["asked"], one["verdict"]) for one in told] == [
        (f"{good} own", "mrr@10", "at least 0.4", "passed"),
        (f"{good} own", "recall@100", "at least 1", "passed"),
        (f"{bad} own", "mrr@10", "at least 0.4", "failed"),
        (f"{bad} own", "recall@100", "at least 1", "passed"),
        (f"{bad} own", "ndcg@10", f"not significantly worse than {good} own", "failed"),
    ]
    assert [one["value"] for one in told] == pytest.approx([1, 1, 1 / 3, 1, 0.5])
    failures = [one["message"] for one in told if one["message"]]
    short = [message.replace(good, "run:good").replace(bad, "run:bad") for message in failures]
    assert short == [line.removeprefix("retrokit: ") for line in err.splitlines()[1:]]
    root = ElementTree.parse(files[0]).getroot()
    (suite,) = root
    assert (root.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", f"beir:{data}")
    for counted in (root, suite):
        assert [counted.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "2", "0", "0"]
    cases = [(case.get("classname"), case.get("name")) for case in suite]
    assert cases == [(one["system"], f"{one['metric']} {one['asked']}") for one in told]
    assert len(set(cases)) == len(cases)
    assert [case[0].get("message") for case in suite if len(case)] == failures
    assert {case[0].tag for case in suite if len(case)} == {"failure"}
    summary = files[1].read_text()
    assert summary.startswith("### retrokit: gates: 3 passed, 2 failed\n\n- ")
    assert summary.count("\n- ") == 2
    assert summary.count("\n| ---") == 3, "the task, its tests, the gates"


@pytest.mark.parametrize("name", ["spec", "full"])
def test_the_system_that_others_are_compared_with_is_named(name, data, tmp_path, capsys):
    runs = [run_at(tmp_path / str(rank), rank) for rank in (1, 2, 3)]
    chosen = runs[1] if name == "spec" else f"{runs[1]} own"
    words = [*runs, "--baseline-system", chosen, "--fail-if-worse", "--explain", 1]
    assert evaluate(data, *words, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert [one["encoder"] for one in told["results"]] == [runs[1], runs[0], runs[2]]
    assert {one["baseline"] for one in (*told["comparisons"], *told["explanations"])} == {f"{runs[1]} own"}
    assert [(one["system"], one["verdict"]) for one in told["gates"]] == [
        (f"{runs[0]} own", "passed"),
        (f"{runs[2]} own", "failed"),
    ]
    kept = tmp_path / "results"
    assert evaluate(data, *runs, "--results", kept) == 0
    capsys.readouterr()
    assert cli.run(["eval", "--results", str(kept), "--baseline-system", chosen.removesuffix(" own"), "--json"]) == 0
    assert {one["baseline"] for one in json.loads(capsys.readouterr().out)["comparisons"]} == {f"{runs[1]} own"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--junit", "x.xml"], "--junit needs --fail-under"),
        (["--baseline-system", "run:nowhere"], "--baseline-system run:nowhere is none of run:"),
        (["--baseline-system", "{run} dot"], "there is none of that name; there are {run} own"),
        (["--gate-metric", "ndgc@10"], "did you mean ndcg"),
        (["--fail-under", "mrr@10=0", "--junit", "{folder}"], "could not be written: it is a folder"),
        (["--fail-if-worse", "--junit", "{folder}/junit.xml"], "--fail-if-worse compares nothing here: one system"),
        (["--max-drop", "0.1"], "--max-drop needs --baseline"),
    ],
)
def test_wrong_use_is_one_line(words, told, data, tmp_path, capsys):
    run, folder = run_at(tmp_path / "run", 2), tmp_path / "folder"
    folder.mkdir()
    assert evaluate(data, run, *(word.format(run=run, folder=folder) for word in words)) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1
    assert told.format(run=run) in lines[0]


def test_a_drop_above_1_is_refused_for_a_metric_between_0_and_1(data, tmp_path, capsys):
    run, baseline = run_at(tmp_path / "run", 2), tmp_path / "baseline.json"
    assert evaluate(data, run, "--save-baseline", baseline) == 0
    assert evaluate(data, run, "--baseline", baseline, "--max-drop", 2) == 2
    assert "--max-drop 2: ndcg@10 is between 0 and 1; 0.02 is 2 points" in capsys.readouterr().err


def test_a_baseline_without_the_gated_metric_is_refused(data, tmp_path, capsys):
    run, baseline = run_at(tmp_path / "run", 2), tmp_path / "baseline.json"
    assert evaluate(data, run, "--metrics", "ndcg@10", "--save-baseline", baseline) == 0
    words = ["--metrics", "mrr@10", "--baseline", baseline, "--max-drop", 0.1]
    assert evaluate(data, run, *words) == 2
    assert f"{baseline}: has no mrr@10; it has ndcg@10" in capsys.readouterr().err


def test_a_run_that_fails_leaves_no_older_gates(data, tmp_path, capsys):
    run, junit = run_at(tmp_path / "run", 2), tmp_path / "junit.xml"
    words = ["--fail-under", "mrr@10=0.4", "--junit", junit]
    assert evaluate(data, run, *words) == 0
    assert junit.exists()
    (tmp_path / "run").write_text("no run")
    assert evaluate(data, run, *words) == 2
    assert not junit.exists()


def test_a_baseline_that_is_named_as_output_stays(data, tmp_path, capsys):
    run, baseline = run_at(tmp_path / "run", 2), tmp_path / "baseline.json"
    assert evaluate(data, run, "--save-baseline", baseline) == 0
    content = baseline.read_bytes()
    assert evaluate(data, run, "--baseline", baseline, "--max-drop", 0.1, "--junit", baseline) == 2
    assert baseline.read_bytes() == content
