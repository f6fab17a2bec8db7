"""An empty answer to a query with nothing relevant in the corpus, with a guarantee: split-conformal risk control.

    answer a query if its signal > t,   t = min {t: (n · R(t) + 1) / (n + 1) ≤ α}

The error that is controlled is the share of queries with nothing relevant in the corpus that get an answer anyway.
R(t) is that share among n calibration queries whose relevant documents were taken out of the ranking. A new such query
that is exchangeable with them is answered with a probability of at most α, on average over calibrations (Angelopoulos,
Bates, Fisch, Lei and Schuster, "Conformal Risk Control", ICLR 2024, Theorem 1; the loss falls as t rises). The share of
answered queries whose first document is wrong does not fall with t. It is only reported.

Signals are of the first document: its score, its margin over the tenth, its hubness-corrected score (CSLS: twice the
score, less the mean score of the query and less that of the document, each over its ten best; Conneau et al., "Word
Translation Without Parallel Data", ICLR 2018), or a verifier's score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.retrieval.base import Ranking

DEPTH = 10
"""Documents of a query that a signal looks at."""
DEEP = 100
"""Documents of a query that count when the hubs are computed."""
EMPTY = float(np.finfo(np.float32).min)
"""The signal of a query for which nothing was retrieved."""
HUBNESS, VERIFIER = "hubness", "verifier"
SIGNALS: dict[str, Callable[[np.ndarray, float], float]] = {
    "score": lambda scores, hub: float(scores[0]),
    "margin": lambda scores, hub: float(scores[0] - scores[:DEPTH][-1]),
    HUBNESS: lambda scores, hub: float(2 * scores[0] - scores[:DEPTH].mean() - hub),
}
"""By name, of the scores ``[n]`` of one ranking, best first, and the hub score of its first document."""


def threshold_of(nulls: np.ndarray, alpha: float) -> float:
    """The lowest threshold that signals ``[n]`` of queries with nothing relevant allow; infinite: they are too few.

    >>> threshold_of(np.array([0.1, 0.4, 0.2, 0.3]), alpha=0.4)
    0.3
    >>> threshold_of(np.array([0.1, 0.4, 0.2, 0.3]), alpha=0.1)
    inf
    """
    above = allowed(len(nulls), alpha)
    return math.inf if above < 0 else float(np.sort(nulls)[len(nulls) - 1 - above])


def allowed(count: int, alpha: float) -> int:
    """How many of ``count`` calibration queries may be answered by error; −1: no promise is possible."""
    return math.floor(alpha * (count + 1) + 1e-9) - 1


def drift_p(signals: np.ndarray, *references: np.ndarray) -> float:
    """The p-value of a Kolmogorov-Smirnov test that ``signals`` come from a mixture of the ``references``, in the
    shares that fit best. References are of one size; of a single one it is the two-sample test."""
    from scipy.stats import kstwo

    points = np.sort(np.concatenate([signals, *references]))
    cumulative, *others = (
        np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (signals, *references)
    )
    first, last = others[0], others[-1]
    distance = min(
        float(np.abs(cumulative - share * first - (1 - share) * last).max()) for share in np.linspace(0, 1, 101)
    )
    size = round(len(signals) * len(references[0]) / (len(signals) + len(references[0])))
    return float(kstwo.sf(distance, max(1, size)))


@dataclass(frozen=True)
class Hubs:
    """Mean of the :data:`DEPTH` best scores that documents get from other queries, by id; ``rest`` replaces scores
    below a list's end, and is the value of any other document."""

    scores: dict[str, float]
    rest: float

    @classmethod
    def of(cls, rankings: Sequence[Ranking], ids: Sequence[str] | Mapping[int, str]) -> Hubs:
        """The hubs among the first :data:`DEEP` documents of some queries."""
        lists = [(scores[:DEEP], positions[:DEEP]) for scores, positions in rankings if len(scores)]
        if not lists:
            return cls({}, 0.0)
        rest = float(np.median([scores[-1] for scores, _ in lists]))
        scores, positions = (np.concatenate(side) for side in zip(*lists, strict=True))
        order = np.lexsort([-scores, positions])
        documents, starts, counts = np.unique(positions[order], return_index=True, return_counts=True)
        best = np.minimum(counts, DEPTH)
        places = np.arange(len(order)) - np.repeat(starts, counts)
        sums = np.bincount(np.repeat(np.arange(len(starts)), counts), np.where(places < DEPTH, scores[order], 0))
        means = ((sums + (DEPTH - best) * rest) / DEPTH).tolist()
        return cls({ids[document]: mean for document, mean in zip(documents.tolist(), means, strict=True)}, rest)


def signal_of(name: str, rankings: Sequence[Ranking], ids: Sequence[str] | Mapping[int, str], hubs: Hubs) -> np.ndarray:
    """The signal ``[n]`` of that name of each ranking; higher: rather answered. ``ids`` are those of documents by
    position."""
    values = [
        SIGNALS[name](scores, hubs.scores.get(ids[int(positions[0])], hubs.rest)) if len(scores) else EMPTY
        for scores, positions in rankings
    ]
    return np.array(values, dtype=np.float64)


def verified(
    verifier: Reranker, queries: Sequence[str], rankings: Sequence[Ranking], texts: Sequence[str]
) -> np.ndarray:
    """The score ``[n]`` of a verifier for each query with the first document of its ranking."""
    signals = np.full(len(queries), EMPTY)
    rows = [row for row, (scores, _) in enumerate(rankings) if len(scores)]
    firsts = [texts[int(rankings[row][1][0])] for row in rows]
    if rows:
        signals[rows] = verifier.score_pairs([queries[row] for row in rows], firsts)
    return signals
