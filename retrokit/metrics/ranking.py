"""Ranking metrics of a run against relevance judgements, through pytrec_eval (trec_eval's own code).

Names are ``metric@cutoff``: ``ndcg@10``, ``map@100``, ``recall@100``, ``precision@5``, ``mrr@10``, ``accuracy@1``.
"""

import re
from collections.abc import Container, Iterable, Mapping

import numpy as np
import pytrec_eval

from retrokit.core.errors import UsageError, did_you_mean
from retrokit.metrics.names import METRICS

Run = Mapping[str, Mapping[str, float]]
Qrels = Mapping[str, Mapping[str, int]]

CUTOFFS = (1, 3, 5, 10, 20, 50, 100, 1000)
DEEPEST = 1_000_000_000
_TREC = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P", "accuracy": "success"}
DEFAULT_METRICS = tuple(f"{metric}@{cutoff}" for metric in METRICS for cutoff in CUTOFFS)


def check_metric(name: str) -> str:
    """Return ``name`` if it is ``metric@cutoff`` of a known metric.

    Raises:
        UsageError: it is not (the message has the nearest name), or the cutoff is beyond :data:`DEEPEST`.
    """
    match = re.fullmatch(r"([a-z]+)@([0-9]+)", name)
    if match and match.group(1) in METRICS:
        digits = match.group(2).lstrip("0")
        if not digits:
            raise UsageError(f"the cutoff of {name!r} is 0; expected 1 or more")
        if len(digits) > len(str(DEEPEST)) or int(digits) > DEEPEST:
            raise UsageError(f"the cutoff of {name!r} is beyond {DEEPEST:,}")
        if digits == match.group(2):
            return name
    hint = did_you_mean(name, DEFAULT_METRICS)
    raise UsageError(f"unknown metric {name!r}{hint}; it is one of {', '.join(METRICS)}, then @ and a cutoff")


def evaluate_run(
    qrels: Qrels, run: Run, metrics: Iterable[str] = DEFAULT_METRICS, level: int = 1
) -> dict[str, dict[str, float]]:
    """Scores per metric and query: ``{metric: {query: value}}``, for every query of ``qrels``.

    Documents are ranked as trec_eval does: by score in single precision, equal scores by descending id. A query that
    ``run`` lacks counts as 0. Grades below ``level`` are not relevant; nDCG takes all grades above 0.

    >>> scores = evaluate_run({"q": {"a": 1, "b": 0}}, {"q": {"a": 0.5, "b": 0.9}}, ["mrr@10", "accuracy@1"])
    >>> scores["mrr@10"], scores["accuracy@1"]
    ({'q': 0.5}, {'q': 0.0})
    """
    names = [check_metric(name) for name in metrics]
    results: dict[str, dict[str, float]] = {name: dict.fromkeys(qrels, 0.0) for name in names}
    if not names:
        return results
    by_trec = {}
    for name in names:
        metric, _, cutoff = name.partition("@")
        by_trec[name] = "recip_rank" if metric == "mrr" else f"{_TREC[metric]}.{cutoff}"
    judged = {query: dict(grades) for query, grades in qrels.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, set(by_trec.values()), level)
    for query, scores in evaluator.evaluate(_plain(run, qrels)).items():
        for name, measure in by_trec.items():
            value = scores[measure.replace(".", "_")]
            results[name][query] = _cut_off(value, name) if measure == "recip_rank" else value
    return results


def _cut_off(reciprocal_rank: float, name: str) -> float:
    """0 for a rank beyond the cut-off in a metric's name, which trec_eval does not have for this one."""
    cutoff = int(name.partition("@")[2])
    return reciprocal_rank if reciprocal_rank and round(1 / reciprocal_rank) <= cutoff else 0.0


def _plain(run: Run, queries: Container[str]) -> dict[str, dict[str, float]]:
    """The rankings of these queries with Python's own numbers, as pytrec_eval refuses any other."""
    plain = {}
    for query, by_document in run.items():
        if query in queries and by_document:
            plain[query] = {document: float(score) for document, score in by_document.items()}
    return plain


def ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """The rank of each document of one query, from 1, in trec_eval's order: by score in single precision, equal ones by
    descending id.

    >>> ranks({"a": 0.5, "b": 0.9, "c": 0.5})
    {'b': 1, 'c': 2, 'a': 3}
    """
    ordered = sorted(scores, key=lambda id: (np.float32(scores[id]), id), reverse=True)
    return {id: rank for rank, id in enumerate(ordered, start=1)}


def mean(scores: Mapping[str, float]) -> float:
    """Mean over queries; 0 for none."""
    return sum(scores.values()) / len(scores) if scores else 0.0
