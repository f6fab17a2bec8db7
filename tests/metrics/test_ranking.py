"""Ranking metrics: by hand, against pytrec_eval called directly, and against sums written out here."""

import math

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from retrokit.core.errors import UsageError
from retrokit.metrics.ranking import DEFAULT_METRICS, check_metric, evaluate_run, mean, ranks

QRELS = {
    "q1": {"a": 2, "b": 1, "c": 0},
    "q2": {"b": 1, "d": -1},
}
RUN = {
    "q1": {"x": 0.9, "b": 0.8, "a": 0.7, "c": 0.6},  # x is not judged
    "q2": {"d": 0.9, "a": 0.8, "b": 0.7},
    "q9": {"a": 1.0},  # a query without judgements
}


@pytest.mark.parametrize(
    ("metric", "q1", "q2"),
    [
        ("ndcg@10", (1 / math.log2(3) + 2 / 2) / (2 + 1 / math.log2(3)), 1 / 2),
        ("ndcg@2", (1 / math.log2(3)) / (2 + 1 / math.log2(3)), 0.0),
        ("ndcg@1", 0.0, 0.0),
        ("map@100", (1 / 2 + 2 / 3) / 2, 1 / 3),
        ("map@2", 1 / 2 / 2, 0.0),
        ("recall@2", 1 / 2, 0.0),
        ("recall@3", 1.0, 1.0),
        ("precision@3", 2 / 3, 1 / 3),
        ("precision@10", 2 / 10, 1 / 10),
        ("mrr@10", 1 / 2, 1 / 3),
        ("mrr@2", 1 / 2, 0.0),
        ("mrr@1", 0.0, 0.0),
        ("accuracy@1", 0.0, 0.0),
        ("accuracy@2", 1.0, 0.0),
        ("accuracy@3", 1.0, 1.0),
    ],
)
def test_values_by_hand(metric: str, q1: float, q2: float) -> None:
    scores = evaluate_run(QRELS, RUN, [metric])
    assert scores.keys() == {metric}
    assert scores[metric] == pytest.approx({"q1": q1, "q2": q2}, abs=1e-9)


def test_a_query_that_the_run_lacks_counts_as_zero() -> None:
    for run in ({"q1": RUN["q1"]}, {"q1": RUN["q1"], "q2": {}}):
        scores = evaluate_run(QRELS, run)
        assert set(scores) == set(DEFAULT_METRICS)
        assert all(scores[name]["q2"] == 0.0 for name in DEFAULT_METRICS)
        assert mean(scores["recall@3"]) == 0.5


def test_equal_scores_rank_by_descending_id() -> None:
    run = {"q": {"10": 0.5, "9": 0.5, "a": 0.5}}  # a, 9, 10
    for document, rank in (("a", 1), ("9", 2), ("10", 3)):
        scores = evaluate_run({"q": {document: 1}}, run, ["mrr@10", "precision@1", "ndcg@3"])
        assert scores["mrr@10"]["q"] == pytest.approx(1 / rank)
        assert scores["precision@1"]["q"] == float(rank == 1)
        assert scores["ndcg@3"]["q"] == pytest.approx(1 / math.log2(rank + 1))


def test_scores_that_differ_beyond_single_precision_are_equal_for_every_metric() -> None:
    run = {"q": {"a": 0.1 + 1e-12, "b": 0.1, "x": 0.1}}  # ranked x, b, a
    scores = evaluate_run({"q": {"a": 1}}, run, ["mrr@1", "mrr@2", "mrr@3", "mrr@10", "accuracy@1", "accuracy@3"])
    assert [values["q"] for values in scores.values()] == pytest.approx([0, 0, 1 / 3, 1 / 3, 0, 1])


def test_numpy_scores() -> None:
    single = {query: {d: np.float32(s) for d, s in found.items()} for query, found in RUN.items()}
    assert evaluate_run(QRELS, single) == evaluate_run(QRELS, RUN)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ndgc@10", r"unknown metric 'ndgc@10' \(did you mean ndcg@10\?\); it is one of ndcg, map, recall, precision,"),
        ("ndcg", r"unknown metric 'ndcg' \(did you mean ndcg@\d+\?\); .* accuracy, mrr, then @ and a cutoff"),
        ("ndcg@0", r"^the cutoff of 'ndcg@0' is 0; expected 1 or more$"),
        ("ndcg@010", r"unknown metric 'ndcg@010' \(did you mean ndcg@10\?\)"),
        ("ndcg@1.5", r"unknown metric 'ndcg@1.5'"),
        ("NDCG@10", r"unknown metric 'NDCG@10'"),
        ("zzz", r"unknown metric 'zzz'; it is one of"),
        ("ndcg@\N{ARABIC-INDIC DIGIT FIVE}", "unknown metric"),
        ("mrr@1000000001", "the cutoff of 'mrr@1000000001' is beyond 1,000,000,000"),
        ("ndcg@99999999999999999999", "the cutoff of 'ndcg@99999999999999999999' is beyond 1,000,000,000"),
        ("ndcg@" + "9" * 5000, "is beyond 1,000,000,000"),
    ],
)
def test_unknown_metrics(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_metric(name)
    with pytest.raises(UsageError, match=problem):
        evaluate_run(QRELS, RUN, ["ndcg@10", name])


def test_the_largest_cutoff() -> None:
    names = [f"{metric}@{10**9}" for metric in (*TREC, "mrr")]
    scores = evaluate_run({"q": {"a": 1}}, {"q": {"a": 0.5}}, names)
    assert {name: values["q"] for name, values in scores.items() if values["q"] != 1} == {"precision@1000000000": 1e-9}


# Few documents and few scores: ties are the rule. Single precision only: trec_eval has no more.
DOCUMENTS = st.sampled_from([*"abcde", "10", "9", "é"])
SCORES = st.one_of(st.sampled_from([0.0, 0.5, 1.0, -1.0]), st.floats(-10, 10, width=32))
QUERIES = st.sampled_from(["q1", "q2", "q3", "q4"])
GRADES = st.integers(-1, 3)
RANDOM_QRELS = st.dictionaries(QUERIES, st.dictionaries(DOCUMENTS, GRADES, min_size=1), min_size=1)
RANDOM_RUNS = st.dictionaries(QUERIES, st.dictionaries(DOCUMENTS, SCORES))
TREC = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P", "accuracy": "success"}
METRICS = [f"{metric}@{cutoff}" for metric in (*TREC, "mrr") for cutoff in (1, 2, 3, 5, 10)]


def by_definition(name: str, judged: dict[str, int], found: dict[str, float]) -> float:
    """One query's value, from the definitions."""
    metric, _, text = name.partition("@")
    cutoff = int(text)
    ranked = sorted(found, key=lambda document: (found[document], document), reverse=True)
    gains = np.array([max(0, judged.get(document, 0)) for document in ranked], dtype=float)
    ideal = np.array(sorted((grade for grade in judged.values() if grade > 0), reverse=True), dtype=float)
    hits = (gains > 0).astype(float)
    if not len(ideal) or not len(gains):
        return 0.0
    top = hits[:cutoff]
    first = int(np.argmax(hits)) + 1 if hits.any() else 0
    if metric == "ndcg":
        discounts = np.log2(np.arange(2, 2 + max(len(gains), len(ideal))))
        best = (ideal[:cutoff] / discounts[: len(ideal[:cutoff])]).sum()
        return float((gains[:cutoff] / discounts[: len(top)]).sum() / best)
    if metric == "map":
        return float((top * np.cumsum(top) / np.arange(1, len(top) + 1)).sum() / len(ideal))
    if metric == "recall":
        return float(top.sum() / len(ideal))
    if metric == "precision":
        return float(top.sum() / cutoff)
    if metric == "accuracy":
        return float(top.any())
    return 1 / first if 0 < first <= cutoff else 0.0


@settings(max_examples=150, deadline=None)
@given(qrels=RANDOM_QRELS, run=RANDOM_RUNS)
def test_equals_the_definitions(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> None:
    scores = evaluate_run(qrels, run, METRICS)
    assert set(scores) == set(METRICS)
    for name in METRICS:
        expected = {query: by_definition(name, judged, run.get(query, {})) for query, judged in qrels.items()}
        assert scores[name] == pytest.approx(expected, abs=1e-9), name


@settings(max_examples=100, deadline=None)
@given(qrels=RANDOM_QRELS, run=RANDOM_RUNS)
def test_equals_pytrec_eval_called_directly(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> None:
    ours = evaluate_run(qrels, run, METRICS)
    for name in METRICS:
        metric, _, cutoff = name.partition("@")
        if metric == "mrr":  # what lies below the cutoff does not count: cut the run
            cut = {
                query: dict(sorted(found.items(), key=lambda pair: pair[::-1], reverse=True)[: int(cutoff)])
                for query, found in run.items()
            }
            measure, theirs = "recip_rank", pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank"}).evaluate(cut)
        else:
            measure = f"{TREC[metric]}_{cutoff}"
            theirs = pytrec_eval.RelevanceEvaluator(qrels, {f"{TREC[metric]}.{cutoff}"}).evaluate(run)
        expected = {query: theirs.get(query, {}).get(measure, 0.0) for query in qrels}
        assert ours[name] == pytest.approx(expected, abs=1e-12), name


def test_scores_that_are_equal_in_single_precision_rank_by_descending_id():
    assert ranks({"a": 1 + 1e-9, "b": 1.0, "c": 0.5}) == {"b": 1, "a": 2, "c": 3}
