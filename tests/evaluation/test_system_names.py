"""What people read as names of systems: the end of a folder's path, a service's model; files keep the specs."""

import json
import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from matplotlib.text import Text

from retrokit import cli
from retrokit.evaluation.comparison.comparison import evaluation_of
from retrokit.evaluation.comparison.names import for_people, short_names
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.evaluate import evaluate
from retrokit.report import plots
from retrokit.report.evaluation import evaluation_sheets
from tests.evaluation.fakes import write_folder
from tests.models import make_bert, sentences


@pytest.mark.parametrize(
    ("specs", "names"),
    [
        (["/x/runs/a", "/x/runs/b"], ["a", "b"]),
        (["/home/me/quickstart/run"], ["run"]),
        (["/x/a/run", "/x/b/run"], ["a/run", "b/run"]),
        (["/x/minilm", "minilm"], ["x/minilm", "minilm"]),
        (["./a", "a"], ["./a", "a"]),
        (["sentence-transformers/all-MiniLM-L6-v2"], ["sentence-transformers/all-MiniLM-L6-v2"]),
        (["/x/a,max_length=8"], ["a,max_length=8"]),
        (['hybrid:a="/x/a,max_length=8",b=bm25'], ['hybrid:a="a,max_length=8",b=bm25']),
        (["two words/and a path: no spec"], None),
    ],
)
def test_the_shortest_name_that_tells_systems_apart(specs, names):
    rows = [{"encoder": spec} for spec in specs]
    assert [row["encoder"] for row in for_people(rows)] == (names or specs)


def test_only_whole_paths_are_shortened():
    rows = [{"encoder": "/x/run", "message": "/x/run cosine, /x/run. /x/run-2 /x/run/log /x/run.txt /y/x/run"}]
    assert for_people(rows)[0]["message"] == "run cosine, run. /x/run-2 /x/run/log /x/run.txt /y/x/run"
    command = [{"encoder": "/x/run", "conclusion": "/x/run is best: `retrokit eval /x/run` tests it"}]
    assert for_people(command)[0]["conclusion"] == "run is best: `retrokit eval /x/run` tests it"
    assert short_names(["/x/run", "/x/run cosine"]) == {"/x/run": "run"}


def test_two_groups_of_seeds_keep_the_names_that_tell_them_apart(models):
    evaluation = evaluate(models[:1], ["beir:beir"])
    result = evaluation.results[0]
    results, trainings = [], {}
    for path in ("/r/a/s0", "/r/a/s1", "/r/b/s1", "/r/b/s2"):
        results.append(replace(result, encoder=path))
        trainings[results[-1].name] = Training("cosine", path[:4], path[-1])
    systems = [system.name for system in for_people(evaluation_of(results, evaluation.shown, trainings)).systems]
    assert len(set(systems)) == 2


@pytest.fixture
def models(tmp_path, monkeypatch):
    """Two models in the working directory, by their absolute paths, and a task."""
    monkeypatch.chdir(tmp_path)
    texts = sentences(12)
    documents = {f"d{i}": text for i, text in enumerate(texts)}
    queries = {f"q{i}": text.split(".")[0] for i, text in enumerate(texts)}
    write_folder(tmp_path / "beir", documents, queries, {f"q{i}": {f"d{i}": 1} for i in range(12)})
    first = make_bert(tmp_path / "models" / "first")
    shutil.copytree(first, tmp_path / "models" / "second")
    return [str(first), str(tmp_path / "models" / "second")]


def test_tables_are_short_and_files_whole(models, tmp_path, capsys):
    files = ["--results", "results", "--junit", "junit.xml", "--markdown-summary", "summary.md"]
    gate = ["--fail-under", "ndcg@10=2", "--save-baseline", "baseline.json"]
    assert cli.run(["eval", *models, "--on", "beir:beir", *files, *gate]) == 1
    table = capsys.readouterr().out
    assert re.findall(r"│ (first|second) +│ cosine", table)[:2] == ["first", "second"]
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    for text in (table, summary):
        assert str(tmp_path) not in text
    cases = ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    assert [case.get("classname") for case in cases] == ["models/first cosine", "models/second cosine"]
    stored = [json.loads(file.read_text(encoding="utf-8")) for file in (tmp_path / "results").iterdir()]
    assert sorted(record["result"]["encoder"] for record in stored) == models
    assert cli.run(["eval", "--results", "results", "--json"]) == 0
    printed = capsys.readouterr().out
    assert sorted(result["encoder"] for result in json.loads(printed)["results"]) == models
    (tmp_path / "printed.json").write_text(printed, encoding="utf-8")
    assert cli.run(["report", "printed.json", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(r"On beir:beir, (first|second) cosine is best", page)
    assert models[0] in page  # where the page says what was measured


def test_a_task_that_names_a_system_is_shown_with_its_metrics(models, capsys):
    task = f"pairs:pairs.jsonl,reference={models[0]}"
    evaluation = evaluate([models[0]], ["beir:beir"])
    renamed = replace(
        evaluation,
        results=[replace(result, task=task) for result in evaluation.results],
        systems=[replace(s, results=tuple(replace(r, task=task) for r in s.results)) for s in evaluation.systems],
        shown={task: evaluation.shown["beir:beir"]},
    )
    (sheet,) = evaluation_sheets(renamed)
    assert sheet.title == "pairs:pairs.jsonl,reference=first"
    assert sheet.rows[0][0] == ("first",)


def test_pictures_have_the_names_of_tables(models, tmp_path, monkeypatch):
    evaluation = evaluate(models, ["beir:beir"])
    drawn = []

    def save(figure, folder, name):
        drawn.extend(text.get_text() for text in figure.findobj(Text))
        return []

    monkeypatch.setattr(plots, "save", save)
    plots.evaluation_plots(evaluation, tmp_path)
    plots.reranking_plots(evaluation, tmp_path)
    assert {"first cosine", "second cosine"} <= {*drawn}
    assert not [text for text in drawn if "models" in text]


def test_seeds_keep_their_tests(models):
    evaluation = evaluate([*models, "static:8"], ["beir:beir"], baseline_system="static:8")
    trainings = {result.name: None for result in evaluation.results}
    trainings |= {f"{model} cosine": Training("cosine", "one training", str(seed)) for seed, model in enumerate(models)}
    joined = evaluation_of(evaluation.results, evaluation.shown, trainings)
    full, short = joined.systems[1], for_people(joined).systems[1]
    assert full.encoder.startswith(models[0][:-5])
    assert short.encoder == "* (2 seeds)"
    metric = joined.main_metric("beir:beir")
    test = joined.tests_on("beir:beir", metric)[full.name].test
    assert for_people(joined).tests_on("beir:beir", metric)[short.name].test == test


def test_a_probe_is_read_with_short_names(models, capsys):
    assert cli.run(["probe", "fisher", models[0], "--data", "docstrings,documents=60"]) == 0
    shown = capsys.readouterr().out
    assert "first: " in shown
    assert models[0] not in shown
    assert cli.run(["probe", "fisher", models[0], "--data", "docstrings,documents=60", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["encoder"] == models[0]
