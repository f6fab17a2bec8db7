"""Metrics as they would be if all documents of a pool were judged, from a few verdicts.

A document's chance to be relevant is predicted from its ranks and cheap scores, by a logistic regression on known
judgements. What a metric gains by one more relevant document is worked out query by query; the verdicts are drawn where
that is uncertain and matters; and the estimate is prediction-powered
(:mod:`~retrokit.extensions.judging.prediction_powered`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retrokit.extensions.judging.prediction_powered import (
    PoweredEstimate,
    draw_items,
    inclusion_probabilities,
    powered,
)
from retrokit.extensions.judging.unjudged import NOWHERE, JudgingPool, fraction_of

_MOST = 5.0  # further relevant documents for each known one
_LIKELIEST = 0.97
_FLOOR = 0.1  # of the mean size: what no prediction may fall below
_PRIOR = 0.3  # weight of the expected number of relevant documents, next to the verdicts
_LONELY = 0.1  # known relevant documents, where there are none


@dataclass(frozen=True)
class Scale:
    """How many unknown relevant documents are expected: for each known one, and for a query without any."""

    more: float = 0.5
    alone: float = 1.0


@dataclass(frozen=True)
class Effect:
    """Of one system and metric: its ``expected`` value of each query, and what each open pair adds to that of its
    query if it is relevant rather than not."""

    expected: np.ndarray
    gain: np.ndarray

    def minus(self, other: Effect) -> Effect:
        """The effect on the difference of two systems."""
        return Effect(self.expected - other.expected, self.gain - other.gain)


class Predictor:
    """Predicts the open pairs of a pool. ``scores`` are cheap ones of all pairs, float ``[scorers, pairs]``."""

    def __init__(self, pool: JudgingPool, metrics: Sequence[str], scores: np.ndarray) -> None:
        self.pool, self.metrics = pool, list(metrics)
        self.query = pool.query[pool.open]
        odds = np.exp(np.clip(_log_odds(pool, scores)[pool.open], -30, 30))
        self._shares = odds / np.maximum(pool.per_query(odds, pool.open), 1e-300)[self.query]
        self._without = pool.relevant == 0
        self._most_open = int(pool.per_query(np.ones(len(pool.open)), pool.open).max())
        size = _size(_MOST * np.maximum(pool.relevant, _LONELY) + self._most_open)
        self._fractions = {name: fraction_of(name, pool, size + 2 + self._most_open) for name in metrics}

    def chances(self, scale: Scale) -> np.ndarray:
        """The chance of each open pair to be relevant, ``[open]``."""
        return np.minimum(_LIKELIEST, self._expected(scale)[self.query] * self._shares)

    def _expected(self, scale: Scale) -> np.ndarray:
        """Further relevant documents of each query in the pool."""
        return np.where(self._without, scale.alone, scale.more * self.pool.relevant) * self.pool.covered

    def effects(self, chances: np.ndarray, scale: Scale) -> dict[tuple[str, int], Effect]:
        """The effect of each metric and system; a chance of 1 or 0 is a verdict. The number of other relevant documents
        of a query is binomial or Poisson; given one that is no verdict, Poisson."""
        pool, certain = self.pool, (chances == 1).astype(float)
        settled = pool.per_query(certain, pool.open).astype(int)
        uncertain = chances * (1 - certain)
        uncertain_count = pool.per_query(uncertain, pool.open)
        outside = np.where(self._without, 0, scale.more * pool.relevant) * (1 - pool.covered)
        share = (
            np.minimum(1, uncertain_count / np.maximum(self._expected(scale), 1e-9)) * pool.covered + 1 - pool.covered
        )
        others = scale.more * np.maximum(pool.relevant, _LONELY) * share
        size, starts = _size(np.append(uncertain_count + outside, others)), range(self._most_open + 3)
        number, rest = _counts(uncertain_count + outside, others, size), _poisson(others, size)
        effects = {}
        for name, metric in self._fractions.items():
            with_verdict = np.array([(rest * metric.factors[:, start : start + size]).sum(1) for start in starts])
            none = np.array([(number * metric.factors[:, start : start + size]).sum(1) for start in starts])
            every = np.arange(len(pool.queries))
            other_verdicts = (settled[self.query] - certain).astype(int)
            zero, one, two = (with_verdict[other_verdicts + more, self.query] for more in range(3))
            for system in range(len(pool.systems)):
                gains = metric.gains[system]
                known_gain = metric.known[system] + pool.per_query(gains * certain, pool.open)
                likely = pool.per_query(gains * uncertain, pool.open)
                gain = gains * one + (known_gain[self.query] - gains * certain) * (one - zero)
                shared = np.where(self._without[self.query], 0, two - one)
                gain += (likely[self.query] - gains * uncertain) * shared
                effects[name, system] = Effect(
                    known_gain * none[settled, every] + likely * with_verdict[settled + 1, every], gain
                )
        return effects


def _log_odds(pool: JudgingPool, scores: np.ndarray) -> np.ndarray:
    """The log-odds of each pair to be relevant, up to a constant, from the pairs of queries with known ones."""
    from sklearn.linear_model import LogisticRegression

    rank = np.minimum(pool.ranks, 1000).astype(float)
    columns = [np.log1p(rank), 1 / rank, pool.ranks >= NOWHERE, [np.prod(1 / np.log2(1 + rank), axis=0)]]
    if len(scores):
        columns.append(_standard(pool, scores))
    table = np.concatenate(columns).T
    table = (table - table.mean(0)) / (table.std(0) + 1e-9)
    has_known = pool.relevant[pool.query] > 0
    labels = pool.grades >= pool.level
    if len(set(labels[has_known].tolist())) < 2:
        # a document that a system does not list counts as the one after its last
        after_last = int(pool.ranks[pool.ranks < NOWHERE].max(initial=0)) + 1
        return -np.log1p(np.minimum(pool.ranks, after_last)).sum(0)
    odds: np.ndarray = (
        LogisticRegression(max_iter=500).fit(table[has_known], labels[has_known]).decision_function(table)
    )
    return odds


def _standard(pool: JudgingPool, scores: np.ndarray) -> np.ndarray:
    """Scores with mean 0 and SD 1 within each query."""
    count = np.maximum(pool.per_query(np.ones(len(pool.query))), 1)
    rows = []
    for of_scorer in scores:
        centred = of_scorer - (pool.per_query(of_scorer) / count)[pool.query]
        rows.append(centred / (np.sqrt(pool.per_query(centred**2) / count)[pool.query] + 1e-9))
    return np.array(rows)


def _size(means: np.ndarray) -> int:
    """How many counts, from 0, a distribution with the highest of these means needs."""
    highest = float(means.max())
    return math.ceil(highest + 6 * math.sqrt(highest)) + 10


def _poisson(means: np.ndarray, size: int) -> np.ndarray:
    """Poisson probabilities of 0 to size − 1, the rest on the last, ``[means, size]``."""
    from scipy.special import gammaln

    count = np.arange(size)
    logs = count * np.log(np.maximum(means, 1e-300))[:, None] - means[:, None] - gammaln(count + 1)
    table = np.exp(logs)
    table[:, -1] += np.maximum(0, 1 - table.sum(1))
    result: np.ndarray = table
    return result


def _counts(means: np.ndarray, others: np.ndarray, size: int) -> np.ndarray:
    """Probabilities of 0 to size − 1 relevant documents, given their mean, and how many others there are if one is:
    Poisson if as many, binomial if fewer."""
    from scipy.stats import binom

    table = _poisson(means, size)
    fewer = np.flatnonzero((means > 1e-9) & (others < 0.95 * means))
    mean = means[fewer]
    trials = np.maximum(np.ceil(mean / (mean - others[fewer])), np.ceil(mean))[:, None]
    table[fewer] = binom.pmf(np.arange(size), trials, np.minimum(1.0, mean[:, None] / trials))
    return table


# --- the sample


def sample_sizes(predictor: Predictor, scale: Scale) -> np.ndarray:
    """How much each open pair matters for what is estimated: metrics, differences from the first system, and the rate
    of relevant ones, each in its own uncertainty, ``[open]``."""
    chances = predictor.chances(scale)
    spread = np.sqrt(chances * (1 - chances))
    effects = predictor.effects(chances, scale)
    targets = [effect.gain for effect in effects.values()]
    targets += [effect.minus(effects[name, 0]).gain for (name, system), effect in effects.items() if system]
    targets.append(np.ones(len(chances)))
    sizes = [np.abs(gain) * spread for gain in targets]
    scaled = [size / norm for size in sizes if (norm := float(np.linalg.norm(size))) > 0]
    if not scaled:
        return np.ones(len(chances))
    joint = np.sqrt(np.mean(np.square(scaled), axis=0))
    result: np.ndarray = joint + _FLOOR * joint.mean()
    return result


def draw_pairs(predictor: Predictor, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """``count`` open pairs to judge, in a random order, and the probability that each was drawn with."""
    probabilities = inclusion_probabilities(sample_sizes(predictor, Scale()), count)
    drawn = draw_items(probabilities, np.random.default_rng(seed))[:count]
    return drawn, probabilities[drawn]


# --- the estimate


@dataclass(frozen=True)
class Estimates:
    """What the verdicts say.

    Attributes:
        relevant: the share of open pairs that is relevant: the rate of false negatives.
        metrics: by metric and system; by metric and system, the difference from the first one.
        per_query: by metric and system, the estimate of each query, ``[queries]``.
        variances: as differences, the variance over queries, by the law of total variance: that of what is expected of
            each query, and the mean of what the predictions leave open. It varies less than that of ``per_query``,
            which contains the choice of the verdicts.
    """

    relevant: PoweredEstimate
    metrics: dict[tuple[str, int], PoweredEstimate]
    differences: dict[tuple[str, int], PoweredEstimate]
    per_query: dict[tuple[str, int], np.ndarray]
    variances: dict[tuple[str, int], float]


def estimate(
    predictor: Predictor, drawn: np.ndarray, verdicts: np.ndarray, probabilities: np.ndarray, size: int
) -> Estimates:
    """Estimates from verdicts (0 to 1) on the open pairs ``drawn``, given the probabilities that they were drawn with
    in a sample of ``size`` pairs."""
    scale = _rescaled(predictor, Scale(), drawn, verdicts, probabilities)
    predicted = predictor.chances(scale)
    chances = predicted.copy()
    chances[drawn] = verdicts
    share = len(drawn) / size
    of_all = inclusion_probabilities(sample_sizes(predictor, Scale()), size) * share
    errors, spread = verdicts - predicted[drawn], predicted * (1 - predicted)

    def total(base: float, gain: np.ndarray) -> PoweredEstimate:
        return powered(base, gain[drawn] * errors, probabilities, gain**2 * spread, of_all)

    def mean(effect: Effect) -> PoweredEstimate:
        return total(float(effect.expected.mean()), effect.gain / len(predictor.pool.queries))

    def per_query(effect: Effect) -> np.ndarray:
        corrections = effect.gain[drawn] * errors * (1 / probabilities - 1)
        return effect.expected + predictor.pool.per_query(corrections, predictor.pool.open[drawn])

    def variance(effect: Effect) -> float:
        count = len(predictor.pool.queries)
        between = float(np.var(effect.expected)) * count / max(count - 1, 1)
        within = float((effect.gain**2 * chances * (1 - chances)).sum()) / count
        return between + within

    effects = predictor.effects(chances, scale)
    differences = {
        (name, system): effect.minus(effects[name, 0]) for (name, system), effect in effects.items() if system
    }
    count = max(len(chances), 1)
    return Estimates(
        total(float(chances.sum()) / count, np.full(len(chances), 1 / count)),
        {key: mean(effect) for key, effect in effects.items()},
        {key: mean(difference) for key, difference in differences.items()},
        {key: per_query(effect) for key, effect in effects.items()},
        {key: variance(difference) for key, difference in differences.items()},
    )


def _rescaled(
    predictor: Predictor, scale: Scale, drawn: np.ndarray, verdicts: np.ndarray, probabilities: np.ndarray
) -> Scale:
    """The scale that the verdicts support."""
    chances = predictor.chances(scale)
    without = (predictor.pool.relevant == 0)[predictor.query]

    def ratio(group: np.ndarray, prior: float) -> float:
        in_group = group[drawn]
        held = prior * float(chances[group].sum())
        seen = float((verdicts[in_group] / probabilities[in_group]).sum())
        foreseen = float((chances[drawn][in_group] / probabilities[in_group]).sum())
        return (seen + held) / (foreseen + held) if held else 1.0

    more = scale.more * ratio(~without, _PRIOR)
    return Scale(min(max(more, 0.02), _MOST), min(max(scale.alone * ratio(without, 1.0), 0.1), 1.2))
