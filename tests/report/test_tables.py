"""Tables show values, differences, stars and p, in each format; JSON is strict."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from retrokit.cli.common import show
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import to_json
from retrokit.evaluation.comparison.comparison import BaselineChange, Comparison, Evaluation, evaluation_of
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result
from retrokit.metrics.significance import PairedTest, randomisation_test
from retrokit.report.evaluation import FORMATS, evaluation_sheets, form, gate_sheets
from retrokit.report.reranking import cost_sheet
from retrokit.report.sheets import TerminalTable, to_latex, to_markdown
from retrokit.report.tables import outcome_sheet
from retrokit.report.terminal import console
from retrokit.training.history import Outcome

RNG = np.random.default_rng(0)
BASE = RNG.uniform(0.3, 0.8, 40)
BETTER = BASE + 0.1 + RNG.normal(0, 0.05, 40)
NOISE = BASE - 0.004 + 0.2 * np.resize([1, -1], 40)


def result(encoder: str, values: np.ndarray, task: str = "beir:x") -> Result:
    return Result(
        encoder=encoder,
        similarity="sfs:16",
        task=task,
        main_metric="ndcg@10",
        metrics={"ndcg@10": float(values.mean()), "mrr@10": 0.25},
        per_query={
            "ndcg@10": {f"q{i}": float(value) for i, value in enumerate(values)},
            "mrr@10": {f"q{i}": 0.25 for i in range(len(values))},
        },
        counts={"queries": 1234, "documents": 5678},
        norms={},
        configuration={},
    )


def shown(results: list[Result], metrics: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The tables of the tasks, without those of the tests and over tasks."""
    found = evaluation_of(results, {result.task: metrics for result in results}, {})
    return [printed(sheet, capsys) for sheet in evaluation_sheets(found) if sheet.title in found.tasks]


def printed(sheet: Sheet, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    console().print(TerminalTable(sheet))
    return capsys.readouterr().out


def test_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown([result("minilm", BASE)], ["ndcg@10", "mrr@10"], capsys)
    assert text.startswith("beir:x")
    row = next(line for line in text.splitlines() if "minilm" in line)
    assert re.split(r"[│\s]+", row.strip("│ ")) == ["minilm", "sfs:16", f"{BASE.mean():.4f}", "0.2500"]
    assert text.rstrip().endswith("1,234 queries, 5,678 documents")
    assert not any(word in text for word in ("p=", "*", "difference"))


def test_differences_stars_and_p(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = shown([result("one", BASE), result("two", BETTER), result("three", NOISE)], ["ndcg@10"], capsys)
    assert f"{BETTER.mean() - BASE.mean():+.4f}*" in text
    assert f"{NOISE.mean() - BASE.mean():+.4f} " in text
    for values in (BETTER, NOISE):
        assert f"{values.mean():.4f}" in text
    per_query = [result("", values).per_query["ndcg@10"] for values in (BASE, NOISE)]
    larger = max(stats.ttest_rel(NOISE, BASE).pvalue, randomisation_test(*per_query))
    assert f"p={larger:.2g}" in text  # the larger of two p stays as it is
    assert "p=0.0002" in text  # twice 1 / 10,001: no draw of the randomisation test was as extreme
    assert stats.ttest_rel(NOISE, BASE).pvalue > 0.05 > stats.ttest_rel(BETTER, BASE).pvalue
    assert text.count("p=") == 2
    assert "* where p < 0.05 (the larger of paired t-test and randomisation test; Holm's correction)" in " ".join(
        text.split()
    )


def labels_result(encoder: str, accuracy: float, spread: float) -> Result:
    return Result(
        encoder=encoder,
        similarity="l2",
        task="knn:y",
        main_metric="accuracy",
        metrics={"accuracy": accuracy, "spread": spread},
        per_query={"accuracy": {str(i): float(i < 40 * accuracy) for i in range(40)}},
        counts={"test_texts": 40, "train_texts": 1360, "labels": 7, "texts_without_text": 1},
        norms={},
        configuration={},
    )


def test_each_task_has_its_own_columns(capsys: pytest.CaptureFixture[str]) -> None:
    results = [result("one", BASE), labels_result("one", 0.5, 0.25), labels_result("two", 0.75, 0.125)]
    columns = {"beir:x": ["mrr@10"], "knn:y": ["accuracy", "spread"]}
    for expected in (["accuracy", "spread"], ["spread"], ["spread", "accuracy"]):
        evaluation = evaluation_of(results, {**columns, "knn:y": expected}, {})
        text = printed(evaluation_sheets(evaluation)[1], capsys)
        header = next(line for line in text.splitlines() if "system" in line)
        assert [word for word in header.split() if word in ("accuracy", "spread", "mrr@10", "ndcg@10")] == expected
        assert "-0.1250 " in text  # a difference that nothing can be tested with
        assert text.count("p=") == ("accuracy" in expected)
        caption = " ".join(text.split("┘")[1].split())
        assert caption.startswith("40 test texts, 1,360 train texts, 7 labels; difference from the first row")
        assert ("paired t-test" in caption) == ("accuracy" in expected)


# --- formats


def seeded() -> Evaluation:
    """A baseline and two seeds of one run, on two tasks."""
    results = [
        result(encoder, values + shift, task)
        for task, shift in (("beir:x", 0.0), ("beir:y", 0.05))
        for encoder, values in (("base_1", BASE), ("runs/q-0", BETTER), ("runs/q-1", BETTER + 0.02))
    ]
    trainings = {"runs/q-0": Training("qnorm", "g", "0"), "runs/q-1": Training("qnorm", "g", "1")}
    return evaluation_of(results, {"beir:x": ["ndcg@10"], "beir:y": ["ndcg@10"]}, trainings)


MEAN = BETTER.mean() + 0.01
DEVIATION = 0.02 / np.sqrt(2)


def test_over_tasks_and_the_tests() -> None:
    over, tests = evaluation_sheets(seeded())[2:]
    assert (over.title, tests.title) == ("over tasks", "tests")
    first, second = over.rows
    assert first[2:] == [("ndcg@10",), ("2",), (f"{BASE.mean() + 0.025:.4f} ± {0.05 / np.sqrt(2):.4f}",)]
    assert second[4][1] == f"{MEAN - BASE.mean():+.4f} "  # two tasks prove nothing
    assert [row[0][0] for row in tests.rows] == ["beir:x", "beir:y", "mean of 2 tasks"]
    expected = stats.ttest_rel(BETTER + 0.01, BASE)
    low, high = expected.confidence_interval(0.95)
    cells = [cell[0] for cell in tests.rows[0]]
    assert cells[5:7] == [f"{low:+.4f} … {high:+.4f}", f"{expected.pvalue:.2g}"]
    assert cells[7:] == ["0.0001", "0.0002"]
    assert "2 in ndcg@10" in tests.caption


def test_csv_has_a_line_for_each_system_and_metric() -> None:
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](seeded(), False)[0])))
    assert [(row["task"], row["metric"]) for row in rows] == [
        *(("beir:x", "ndcg@10"), ("beir:x", "mrr@10")) * 2,
        *(("beir:y", "ndcg@10"), ("beir:y", "mrr@10")) * 2,
        *(("mean of 2 tasks", "ndcg@10"),) * 2,
    ]
    base, averaged = rows[0], rows[2]
    assert (base["value"], base["deviation"], base["p"], base["seeds"]) == (str(BASE.mean()), "", "", "1")
    assert float(averaged["value"]) == pytest.approx(MEAN)
    assert float(averaged["deviation"]) == pytest.approx(DEVIATION)
    assert float(averaged["difference"]) == pytest.approx(MEAN - BASE.mean())
    assert float(averaged["p"]) == pytest.approx(stats.ttest_rel(BETTER + 0.01, BASE).pvalue)
    assert (averaged["trained_with"], averaged["seeds"], averaged["items"]) == ("qnorm", "2", "40")
    assert float(averaged["corrected_p"]) == pytest.approx(2 / 10_001)


def test_json_has_all_of_it() -> None:
    found = json.loads(to_json(seeded().to_json()))
    assert len(found["results"]) == 6
    first = found["seeds"][0]
    assert (first["encoders"], first["seeds"]) == (["runs/q-0", "runs/q-1"], ["0", "1"])
    assert first["metrics"]["ndcg@10"] == {
        "mean": pytest.approx(MEAN),
        "deviation": pytest.approx(DEVIATION),
    }
    assert found["cross"] == []


TINY = Sheet("a_b|c", ["name", "x&y"], 1, [[("p_1",), ("0.5 ± 0.1", "-0.2* ", "p=0.01")]], "100% of < 3")


def test_markdown() -> None:
    assert to_markdown(TINY).splitlines() == [
        r"**a\_b\|c**",
        "",
        "| name | x&y |",
        "| --- | ---: |",
        r"| p\_1 | 0.5 ± 0.1 -0.2\* p=0.01 |",
        "",
        r"100% of \< 3",
    ]


def test_latex() -> None:
    assert to_latex(TINY).splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\caption{a\_b|c: 100\% of $<$ 3.}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"name & x\&y \\",
        r"\midrule",
        r"p\_1 & 0.5 $\pm$ 0.1 $-$0.2$^{*}$ p=0.01 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_shows_the_values(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for part in form(name)(seeded(), False):
        show(part)
    text = capsys.readouterr().out
    for value in (BASE.mean(), MEAN):
        assert re.search(rf"{value:.4f}"[:-1], text)


# --- cross-evaluation


def crossed() -> Evaluation:
    values = {("c", "cosine"): 0.4, ("c", "dot"): 0.3, ("d", "cosine"): 0.45, ("d", "dot"): 0.5, ("m", "cosine"): 0.2}
    results = []
    for (encoder, similarity), shift in values.items():
        made = result(encoder, BASE - BASE.mean() + shift)
        results.append(Result(**{**vars(made), "similarity": similarity}))
    trainings = {"c": Training("cosine", "c", "0"), "d": Training("dot", "d", "0")}
    return evaluation_of(results, {"beir:x": ["ndcg@10"]}, trainings, is_cross=True)


def test_training_against_evaluation_similarity() -> None:
    (sheet,) = evaluation_sheets(crossed())
    assert list(sheet.columns) == ["system", "trained with", "cosine", "dot"]
    assert [[cell[0] for cell in row] for row in sheet.rows] == [
        ["c", "cosine", "0.4000 <", "0.3000"],
        ["d", "dot", "0.4500", "0.5000 <"],
        ["m", "–", "0.2000", "–"],
    ]
    assert sheet.caption.startswith("ndcg@10; columns: evaluated with")
    (cross,) = crossed().to_json()["cross"]
    assert cross["similarities"] == ["cosine", "dot"]
    assert cross["encoders"][1] == {
        "encoder": "d",
        "trained_with": "dot",
        "values": pytest.approx([0.45, 0.5]),
        "deviations": [None, None],
    }
    assert cross["encoders"][2]["values"] == [pytest.approx(0.2), None]


def test_costs_are_plain_numbers() -> None:
    cost = {"pairs": 4567, "pairs_computed": 45, "seconds": 196.5}
    cost |= {"milliseconds_per_pair": 0.04213, "milliseconds_per_query": 16380.4}
    of = replace(result("bm25", BASE), configuration={"reranker": "maxsim", "depth": 20, "cost": cost})
    (row,) = cost_sheet([of]).rows
    assert [cell for (cell,) in row[3:]] == ["4,567", "45", "196.5", "0.0421", "16,380", "–"]


def test_an_undefined_metric_of_an_outcome_is_a_dash_or_left_out() -> None:
    rows = [
        {"step": 0, "evaluation": {"a": 0.5, "b": None, "c": 0.5}},
        {"step": 4, "evaluation": {"a": 0.75, "b": 0.5, "c": None}},
    ]
    baseline = {"similarity": "dot", "evaluation": {"a": 0.25, "b": None, "c": math.nan}}
    outcome = Outcome("run", 4, None, 4, None, rows, [], baseline, metric="a")
    cells = {name: text for (name,), (text,) in outcome_sheet(outcome).rows}
    assert cells == {
        "run": "run",
        "steps": "4",
        "a": "0.5000 → 0.7500 (step 0 → 4)",
        "as it came, under its own dot": "a 0.2500, b –, c –",
        "converged (MAG, C.1)": "not yet",
    }


def test_a_change_without_a_test_has_dashes() -> None:
    test = PairedTest(20, difference=-0.1, low=-0.2, high=0.0, p=0.04)
    comparison = Comparison("t", "ndcg@10", "old", "new", "paired t-test", test, 0.05, 0.05)
    changes = [
        BaselineChange("t", "ndcg@10", "old", "new", 0.5, 0.4, comparison),
        BaselineChange("t", "ndcg@10", "old", "gone", 0.5, math.nan, None),
    ]
    found = replace(evaluation_of([], {}, {}), changes=changes)
    (sheet,) = gate_sheets(found)
    assert sheet.columns[-6:] == ["before", "after", "difference", "95% interval", "Holm p", "visible"]
    assert (sheet.words, sheet.rows[0][:4]) == (4, [("t",), ("new",), ("old",), ("ndcg@10",)])
    visible = 2.802 / (2 * 1.96) * 0.2
    assert [cell for (cell,) in sheet.rows[0][4:]] == [
        "0.5000",
        "0.4000",
        "-0.1000 ",
        "-0.2000 … +0.0000",
        "0.05",
        f"{visible:.4f}",
    ]
    assert [cell for (cell,) in sheet.rows[1][4:]] == ["0.5000", "–", "–", "–", "–", "–"]


def test_a_star_in_a_name_is_no_mark_of_significance() -> None:
    sheet = Sheet("runs/a-*", ["system", "nDCG"], 1, [["runs/a-* (3 seeds)", "0.5*"]], "* where p < 0.05")
    latex = to_latex(sheet)
    assert r"runs/a-* (3 seeds) & 0.5$^{*}$ \\" in latex
    assert r"\caption{runs/a-*: $^{*}$ where p $<$ 0.05.}" in latex
