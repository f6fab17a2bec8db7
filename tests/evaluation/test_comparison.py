"""Several encoders, similarities and tasks at once; the gates."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from retrokit import encoders
from retrokit.core.errors import GateFailed, UsageError
from retrokit.core.registry import Entry, Param
from retrokit.evaluation.comparison.comparison import T_TEST, Evaluation, evaluation_of
from retrokit.evaluation.comparison.gates import check_gates, gates_of
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.result import Resampled, Result
from retrokit.evaluation.settings import GateSettings, parse_gate
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics.significance import holm
from retrokit.report.evaluation import FORMATS, evaluation_sheets
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences


@pytest.fixture(autouse=True)
def _random_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("hashed", "", "tests.evaluation.fakes:hashed", (Param("number", int, required=True),), "number")
    monkeypatch.setitem(encoders.registry._entries, "hashed", entry)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return benchmark(tmp_path / "random", seed=0)


def benchmark(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    texts = sentences(70, seed=seed)
    documents = {f"d{i}": text for i, text in enumerate(texts[:40])}
    queries = {f"q{i}": text for i, text in enumerate(texts[40:])}
    qrels = {query: {f"d{i}": 1 for i in rng.choice(40, 4, replace=False)} for query in queries}
    return write_folder(folder, documents, queries, qrels)


def test_differences_and_p_values_are_scipys(folder: Path) -> None:
    found = evaluate(["hashed:1", "hashed:2"], [f"beir:{folder}"], ["cosine", "dot"])
    assert [result.name for result in found.results] == [
        *("hashed:1 cosine", "hashed:1 dot", "hashed:2 cosine", "hashed:2 dot"),
    ]
    by_name = {result.name: result for result in found.results}
    assert {(c.result, c.metric) for c in found.comparisons} == {
        (name, metric) for name in list(by_name)[1:] for metric in Retrieval.shown_metrics
    }
    for comparison in found.comparisons:
        assert comparison.baseline == "hashed:1 cosine"
        queries = list(by_name[comparison.result].per_query[comparison.metric])
        assert len(queries) == 30
        a, b = (
            [by_name[name].per_query[comparison.metric][query] for query in queries]
            for name in (comparison.baseline, comparison.result)
        )
        difference = np.mean(b) - np.mean(a)
        assert comparison.test.difference == pytest.approx(difference, abs=1e-12)
        means = [by_name[name].metrics[comparison.metric] for name in (comparison.baseline, comparison.result)]
        assert comparison.test.difference == pytest.approx(means[1] - means[0], abs=1e-12)
        if comparison.metric != "recall@100":  # all 40 documents are found: no difference anywhere
            assert comparison.test.p == pytest.approx(stats.ttest_rel(b, a).pvalue)
            # five standard deviations of the two shares, of which SciPy doubles the smaller tail's
            noise = 5 * np.sqrt((0.25 + 2**2 * 0.25) / 10_000)
            assert comparison.randomisation_p == pytest.approx(randomised(a, b), abs=noise)
        else:
            assert (comparison.test.difference, comparison.test.p, comparison.randomisation_p) == (0.0, 1.0, 1.0)
    plain = [asdict(comparison) for comparison in found.comparisons]
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert set(plain[0]) == {
        *("task", "metric", "baseline", "result", "method", "test", "randomisation_p", "corrected_p", "precisions")
    }
    assert plain[0]["test"]["p"] == found.comparisons[0].test.p


def randomised(a: list[float], b: list[float]) -> float:
    def statistic(b: np.ndarray, a: np.ndarray, axis: int) -> np.ndarray:
        return np.mean(b - a, axis=axis)

    return stats.permutation_test(
        (b, a), statistic, permutation_type="samples", vectorized=True, n_resamples=9999, rng=0
    ).pvalue


def test_each_task_has_its_own_baseline(tmp_path: Path, folder: Path) -> None:
    other = benchmark(tmp_path / "other", seed=1)
    specs = [f"beir:{folder}", f"beir:{other}"]
    found = evaluate(["hashed:1", "hashed:2"], specs, metrics=["mrr@10"])
    assert [(result.task, result.encoder) for result in found.results] == [
        (spec, encoder) for spec in specs for encoder in ("hashed:1", "hashed:2")
    ]
    assert [(c.task, c.metric, c.result) for c in found.comparisons] == [
        (spec, metric, "hashed:2 cosine") for spec in specs for metric in ("ndcg@10", "mrr@10")
    ]
    assert [list(result.metrics) for result in found.results] == [["ndcg@10", "mrr@10"]] * 4
    assert {found.main_metric(spec) for spec in specs} == {"ndcg@10"}
    assert len({result.metrics["ndcg@10"] for result in found.results}) == 4


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    rows = [{"text": text, "label": i % 2} for i, text in enumerate(sentences(40, seed=2))]
    return write_lines(tmp_path / "labels.jsonl", rows)


def test_each_task_takes_the_metrics_that_it_knows(folder: Path, labels: Path) -> None:
    knn, beir = f"knn:{labels},k=3", f"beir:{folder}"
    found = evaluate(["hashed:1", "hashed:2"], [knn, beir])
    assert found.shown == {knn: ["accuracy"], beir: list(Retrieval.shown_metrics)}
    assert [(r.task, r.encoder) for r in found.results] == [
        (s, e) for s in (knn, beir) for e in ("hashed:1", "hashed:2")
    ]
    assert [(c.metric, c.method) for c in found.comparisons if c.task == knn] == [("accuracy", T_TEST)]
    assert len([c for c in found.comparisons if c.task == beir]) == len(Retrieval.shown_metrics)
    found = evaluate(["hashed:1"], [knn, beir], metrics=["mrr@3", "recall@5"], fail_under=["raw_cosine=0"])
    assert found.shown == {knn: ["accuracy"], beir: ["mrr@3", "recall@5"]}  # knn knows neither: its usual ones
    assert [[*one.metrics] for one in found.results] == [["accuracy", "raw_cosine"], ["ndcg@10", "mrr@3", "recall@5"]]
    found = evaluate(["hashed:1"], [knn, beir], metrics=["raw_cosine", "mrr@3"])
    assert found.shown == {knn: ["raw_cosine"], beir: ["mrr@3"]}


def test_a_metric_that_is_no_mean_is_compared_by_bootstrap() -> None:
    values = np.arange(20.0)

    def made(encoder: str, step: float) -> Result:
        made = result(encoder, values)
        made.resampled["top"] = Resampled(20, lambda rows: float(values[rows].max() + step))
        made.metrics["top"], made.metrics["odd"] = 19.0 + step, 0.5
        return made

    by_metric = {
        c.metric: c for c in evaluation_of([made("a", 0), made("b", 2)], {"beir:x": ["top", "odd"]}, {}).comparisons
    }
    assert set(by_metric) == {"ndcg@10", "top"}  # of the third nothing is known
    assert by_metric["top"].method == "paired bootstrap"
    test = by_metric["top"].test
    assert (test.queries, test.difference, test.low, test.high) == (20, 2.0, 2.0, 2.0)
    assert json.loads(json.dumps(asdict(by_metric["top"])))["test"]["difference"] == 2.0


def result(encoder: str, values: np.ndarray, others: np.ndarray | None = None, task: str = "beir:x") -> Result:
    columns = {"ndcg@10": values, "mrr@10": values if others is None else others}
    per_query = {name: {f"q{i}": float(v) for i, v in enumerate(column)} for name, column in columns.items()}
    return Result(
        encoder=encoder,
        similarity="cosine",
        task=task,
        main_metric="ndcg@10",
        metrics={name: float(np.mean(column)) for name, column in columns.items()},
        per_query=per_query,
        counts={"queries": len(values), "documents": 1},
        norms={},
        configuration={},
    )


def evaluation(*results: Result) -> Evaluation:
    return evaluation_of(results, {result.task: ["mrr@10"] for result in results}, {})


RNG = np.random.default_rng(3)
BASE = RNG.uniform(0.3, 0.9, 60)
MUCH_WORSE = BASE - 0.2 + RNG.normal(0, 0.05, 60)
NOISY_WORSE = BASE - 0.01 + 0.3 * np.resize([1, -1], 60)


NAN = float("nan")


def test_forms_of_a_gate() -> None:
    assert [parse_gate(text) for text in ("ndcg@10=0.64", "mrr@3=1", "r = .5")] == [
        *(("ndcg@10", 0.64), ("mrr@3", 1), ("r", 0.5)),
    ]
    for text in ("ndcg@10", "ndcg@10=", "ndcg@10=high", "=0.5", "", "ndcg@10=nan", "ndcg@10=inf"):
        with pytest.raises(UsageError, match=r"expected METRIC=VALUE, as in ndcg@10=0\.64"):
            parse_gate(text)


TWO = [result("one", np.array([0.5, 0.7])), result("two", np.array([0.5, 0.6]))]
ALIKE = [result("one", BASE), result("two", BASE)]


def with_mrr(value: float) -> Result:
    return replace(ALIKE[1], metrics={**ALIKE[1].metrics, "mrr@10": value})


@pytest.mark.parametrize(
    ("results", "least", "fail_if_worse", "failures"),
    [
        (TWO, [("ndcg@10", 0.55), ("mrr@10", 0.1)], False, []),
        (TWO, [("ndcg@10", 0.58)], False, ["two cosine on beir:x: ndcg@10 = 0.5500 is under 0.58"]),
        (
            *(TWO, [("mrr@10", 0.61)], False),
            [
                f"{by} cosine on beir:x: mrr@10 = {value} is under 0.61"
                for by, value in (("one", "0.6000"), ("two", "0.5500"))
            ],
        ),
        *(
            ([ALIKE[0], with_mrr(value)], [("mrr@10", -1.0)], False, ["two cosine on beir:x: mrr@10 is undefined"])
            for value in (NAN, float("inf"), float("-inf"))
        ),
        ([ALIKE[0], with_mrr(NAN)], [("ndcg@10", 0.1)], True, []),
        (
            [ALIKE[0], replace(ALIKE[1], metrics={"ndcg@10": 0.6}, per_query={})],
            *([("mrr@10", 0.1)], False, ["two cosine on beir:x: has no mrr@10"]),
        ),
        *(
            (
                [
                    result(by, np.where(np.arange(60) == 7, NAN, BASE) if by == undefined else BASE)
                    for by in ("one", "two")
                ],
                *([], True, [f"{undefined} cosine on beir:x: ndcg@10 is undefined"]),
            )
            for undefined in ("one", "two")
        ),
    ],
)
def test_gates(results: list[Result], least: list, fail_if_worse: bool, failures: list[str]) -> None:
    found = evaluation(*results)
    for form in FORMATS.values():
        assert "nan" not in str(form(found, True)).lower()
    minimums = [f"{metric}={value}" for metric, value in least]
    gates = gates_of(found, GateSettings(fail_under=minimums, fail_if_worse=fail_if_worse))
    if not failures:
        check_gates(gates)
        return
    with pytest.raises(GateFailed) as caught:
        check_gates(gates)
    assert str(caught.value).splitlines() == failures


def test_fail_if_worse_only_where_the_main_metric_is_significantly_worse() -> None:
    worse = evaluation(result("base", BASE), result("new", MUCH_WORSE))
    assert worse.comparisons[0].significant
    check_gates(gates_of(worse, GateSettings()))
    with pytest.raises(GateFailed, match=r"^new cosine on beir:x: ndcg@10 is 0\.\d{4} worse than base cosine \(p = "):
        check_gates(gates_of(worse, GateSettings(fail_if_worse=True)))
    noise = evaluation(result("base", BASE), result("new", NOISY_WORSE))
    (comparison,) = [one for one in noise.comparisons if one.metric == "ndcg@10"]
    assert comparison.corrected_p == comparison.p, "one comparison needs no correction"
    assert (comparison.test.difference < 0, comparison.test.p > 0.05) == (True, True)
    better = evaluation(result("base", MUCH_WORSE), result("new", BASE), result("same", MUCH_WORSE))
    assert better.comparisons[0].test.p < 0.05
    other = evaluation(result("base", BASE, BASE), result("new", NOISY_WORSE, MUCH_WORSE))
    assert [c.metric for c in other.comparisons if c.significant] == ["mrr@10"]
    for found in (noise, better, other):
        check_gates(gates_of(found, GateSettings(fail_if_worse=True)))


def test_holm_corrects_the_larger_p_of_all_comparisons_in_a_metric() -> None:
    slightly = BASE + RNG.normal(0.02, 0.06, 60)
    results = [
        *(result("base", BASE, MUCH_WORSE), result("a", slightly, BASE), result("b", MUCH_WORSE, BASE)),
        *(result("base", BASE, task="beir:y"), result("a", NOISY_WORSE, task="beir:y")),
    ]
    found = evaluation_of(results, {"beir:x": ["mrr@10"]}, {}).comparisons
    main = [c for c in found if c.metric == "ndcg@10"]
    assert [(c.task, c.result) for c in main] == [
        *(("beir:x", "a cosine"), ("beir:x", "b cosine"), ("beir:y", "a cosine"))
    ]
    assert all(c.p == max(c.test.p, c.randomisation_p) for c in main)
    assert [c.corrected_p for c in main] == holm([c.p for c in main])
    assert main[0].p < main[0].corrected_p < 1
    others = [c for c in found if c.metric == "mrr@10"]
    assert [c.corrected_p for c in others] == holm([c.p for c in others])
    assert len(others) == 2


def test_a_difference_that_correction_takes_away_passes_the_gate() -> None:
    # z scores that are spread evenly: a mean of -0.01 is then 2.3 standard errors below 0
    spread = stats.zscore(np.arange(60.0), ddof=1) * 0.01 * np.sqrt(60) / 2.3
    a_little_worse = BASE - 0.01 + RNG.permutation(spread)
    alone = evaluation(result("base", BASE), result("new", a_little_worse))
    assert 0.01 < alone.comparisons[0].corrected_p < 0.05
    with pytest.raises(GateFailed):
        check_gates(gates_of(alone, GateSettings(fail_if_worse=True)))
    noise = [result(f"other{i}", NOISY_WORSE) for i in range(5)]
    among_others = evaluation(result("base", BASE), result("new", a_little_worse), *noise)
    assert not among_others.comparisons[0].significant
    check_gates(gates_of(among_others, GateSettings(fail_if_worse=True)))


# --- over tasks (MAG, Q.1)

MEANS = {"one": [0.31, 0.42, 0.55, 0.21], "two": [0.35, 0.44, 0.61, 0.22]}


def over_four_tasks(seeds: int) -> Evaluation:
    results, trainings = [], {}
    for task in range(4):
        for name, means in MEANS.items():
            for seed in range(seeds):
                encoder, mean = f"{name}-{seed}", means[task] + 0.01 * (seed - (seeds - 1) / 2)
                values = RNG.normal(0, 0.1, 30)
                results.append(result(encoder, values - values.mean() + mean, task=f"beir:{task}"))
                trainings[encoder] = Training("cosine", name, str(seed))
    return evaluation_of(results, {f"beir:{task}": ["ndcg@10"] for task in range(4)}, trainings)


@pytest.mark.parametrize("seeds", [1, 3])
def test_tasks_are_the_items_of_a_test_over_tasks(seeds: int) -> None:
    first, second = over_four_tasks(seeds).over_tasks
    for one, name in ((first, "one"), (second, "two")):
        assert (one.metric, one.tasks) == ("ndcg@10", ("beir:0", "beir:1", "beir:2", "beir:3"))
        assert one.mean == pytest.approx(np.mean(MEANS[name]))
        assert one.deviation == pytest.approx(np.std(MEANS[name], ddof=1))
    assert first.comparison is None
    comparison = second.comparison
    assert comparison is not None
    assert comparison.test.p == pytest.approx(stats.ttest_rel(MEANS["two"], MEANS["one"]).pvalue)
    assert (comparison.test.queries, comparison.test.difference) == (4, pytest.approx(0.0325))
    assert comparison.randomisation_p == 2 / 16  # all four are better; exact over 2^4 signs
    assert comparison.corrected_p == 2 / 16
    assert json.loads(json.dumps(asdict(second)))["comparison"]["task"] == "mean of 4 tasks"


# --- seeds


def test_seeds_are_averaged_before_anything_is_tested() -> None:
    rng = np.random.default_rng(11)
    runs = {f"runs/q-{seed}": BASE + rng.normal(0.01, 0.05, 60) for seed in range(3)}
    results = [result("base", BASE), *(result(name, values) for name, values in runs.items())]
    trainings = {name: Training("qnorm", "same", name[-1]) for name in runs}
    found = evaluation_of(results, {"beir:x": ["ndcg@10"]}, trainings)
    assert [system.name for system in found.systems] == ["base cosine", "runs/q-* (3 seeds) cosine"]
    averaged = found.systems[1]
    means = [values.mean() for values in runs.values()]
    assert averaged.metrics["ndcg@10"] == pytest.approx(np.mean(means))
    assert averaged.deviation("ndcg@10") == pytest.approx(np.std(means, ddof=1))
    assert averaged.seeds == ("0", "1", "2")
    (comparison,) = found.comparisons
    expected = stats.ttest_rel(np.mean(list(runs.values()), axis=0), BASE)
    assert (comparison.result, comparison.test.p) == (averaged.name, pytest.approx(expected.pvalue))
    assert len(found.results) == 4


def test_what_differs_in_more_than_the_seed_stays_apart() -> None:
    trainings = {
        "a": Training("qnorm", "one", "0"),
        "b": Training("qnorm", "other", "1"),
        "c": Training("qnorm", "one", "0"),  # the same seed again is no second draw
        "d": None,
        "e": Training("qnorm", "one", ""),
    }
    found = evaluation_of([result(name, BASE) for name in trainings], {}, trainings)
    assert [len(system.results) for system in found.systems] == [1] * 5
    on_two_tasks = [result(name, BASE, task=task) for task in ("beir:x", "beir:y") for name in ("a", "f")]
    found = evaluation_of(on_two_tasks, {}, {**trainings, "f": Training("qnorm", "one", "1")})
    assert [(system.task, len(system.results)) for system in found.systems] == [("beir:x", 2), ("beir:y", 2)]


def test_a_metric_that_is_no_mean_is_averaged_over_seeds_draw_by_draw() -> None:
    def made(encoder: str, values: np.ndarray) -> Result:
        made = result(encoder, values)
        made.per_query.clear()
        made.resampled["ndcg@10"] = Resampled(60, lambda rows: float(np.median(values[rows])))
        made.metrics["ndcg@10"] = float(np.median(values))
        return made

    sides = [BASE, BASE + 0.2, BASE + 0.4]
    found = evaluation_of(
        [made(name, values) for name, values in zip("abc", sides, strict=True)],
        {},
        {"b": Training(None, "g", "0"), "c": Training(None, "g", "1")},
    )
    (comparison,) = found.comparisons
    assert (comparison.result, comparison.method) == ("* (2 seeds) cosine", "paired bootstrap")
    assert (comparison.test.difference, comparison.test.low) == (pytest.approx(0.3), pytest.approx(0.3))
    assert comparison.randomisation_p is None


def computed_in(precision: str | None, *results: Result) -> list[Result]:
    return [replace(one, configuration={} if precision is None else {"precision": precision}) for one in results]


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ("float32", "bfloat16", ("float32", "bfloat16")),
        *(("float32", "float32", None), (None, "bfloat16", None), (None, None, None)),  # bm25 computes in none
    ],
)
@pytest.mark.parametrize("is_cross", [False, True])
def test_a_comparison_across_precisions_is_marked(
    first: str | None, second: str | None, marked: tuple[str, str] | None, is_cross: bool
) -> None:
    results = [
        *computed_in(first, result("one", BASE), result("one", BASE, task="beir:y")),
        *computed_in(second, result("two", BASE), result("two", BASE, task="beir:y")),
    ]
    found = evaluation_of(results, {"beir:x": ["ndcg@10"], "beir:y": ["ndcg@10"]}, {}, is_cross)
    every = [*found.comparisons, *(one.comparison for one in found.over_tasks if one.comparison)]
    assert [one.precisions for one in every] == [marked] * 3
    assert [one["precisions"] for one in json.loads(FORMATS["json"](found, False)[0])["comparisons"]] == [
        list(marked) if marked else None
    ] * 2
    told = "COMPARED ACROSS PRECISIONS, which differ by their rounding too: float32: one cosine; bfloat16: two cosine"
    sheets = [sheet for sheet in evaluation_sheets(found) if sheet.title != "tests"]
    assert len(sheets) == (2 if is_cross else 3)
    assert {told in sheet.caption for sheet in sheets} == {marked is not None}
    rows = list(csv.DictReader(FORMATS["csv"](found, False)[0].splitlines()))
    assert {row["encoder"]: row["precision"] for row in rows} == {"one": first or "", "two": second or ""}


# --- cross-evaluation (MAG, Figure 3)
