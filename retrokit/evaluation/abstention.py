"""Calibrate when a system abstains, on judged queries with and without their relevant documents.

Queries are parted at random, with a fixed seed. The first sixth computes the hub scores, the second chooses the signal
that answers most, and the rest sets the threshold. The same is repeated over splits, without a third of the queries.
The realised error and the share answered are those of this third.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from retrokit import evaluation
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_settings
from retrokit.core.settings import taking
from retrokit.data.exports import ABSTENTION, open_export
from retrokit.evaluation.settings import AbstentionSettings
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.ranking import retrieval
from retrokit.ranking.abstention import (
    DEEP,
    DEPTH,
    HUBNESS,
    SIGNALS,
    VERIFIER,
    Abstention,
    Hubs,
    allowed,
    corpus_of,
    mark_of,
    signal_of,
    threshold_of,
    verified,
    verifier_of,
)
from retrokit.ranking.retrieval.base import Ranking, Searcher, TextList

PART, HELD_OUT = 6, 3  # one query of that number
Sides = tuple[np.ndarray, np.ndarray]
"""Signals ``[n]`` of all queries with, and without, their relevant documents."""


@dataclass(frozen=True)
class Spread:
    """A share over splits: its mean, and the 2.5% and 97.5% percentiles."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class AbstentionReport:
    """A calibration, and what it gives on held-out queries.

    Attributes:
        abstain: the promised error: of the queries with nothing relevant in the corpus, at most this share gets an
            answer anyway, on average over calibrations.
        queries: judged queries with a relevant document.
        calibrated: those that set the threshold.
        threshold: a query is answered if its signal is above.
        expected: the error of calibrations with as many queries if no two signals are equal: mean and 95% interval.
        error: realised share of held-out queries that are answered without their relevant documents.
        answered: share of held-out queries that are answered with their relevant documents.
        wrong: share of those answered whose first document is not relevant; null: none is answered.
        wrong_without: the same if all are answered.
        chosen: number of splits that chose each signal.
    """

    file: str
    system: str
    similarity: str
    task: str
    abstain: float
    signal: str
    queries: int
    calibrated: int
    threshold: float
    splits: int
    expected: Spread
    error: Spread
    answered: Spread
    wrong: Spread | None
    wrong_without: float
    chosen: dict[str, int]


@taking(AbstentionSettings)
def calibrate(settings: AbstentionSettings) -> AbstentionReport:
    """Find when ``system`` abstains, on the judged queries of the task ``on``, and write it to ``output``.

    Raises:
        UsageError: wrong names or options, a task without judged documents, an export that does not fit, or too few
            queries for a promise.
        DataError: files that cannot be read or written.
    """
    check_settings(settings)
    task = evaluation.registry.create_on(settings.on, settings.device)
    if not isinstance(task, Retrieval):
        raise UsageError(f"{task.spec}: has no judged documents; give a task such as beir:data/scifact,split=train")
    notice(task.describe())
    export = open_export(settings.index_folder) if settings.index_folder is not None else None
    output = settings.output or str(Path(settings.index_folder or "") / ABSTENTION)
    left_out, relevant = task.places(export.rows_of) if export is not None else (task.left_out, task.relevant)
    rows = [row for row, positions in enumerate(relevant) if positions]
    _check_enough(len(rows), settings)
    documents = task.documents if export is None else export
    options = {name: getattr(settings, name) for name in ("sim", "dims", "precision", "index", "quantize")}
    searcher, index = retrieval.opened(settings.system or "", documents, settings.device, **options)
    searcher.check(task.documents, task.queries)
    verifier = None
    if settings.verifier is not None:
        verifier = verifier_of(settings.verifier, task.documents if export is None else None, settings.device)
    queries = TextList([task.queries[row] for row in rows], [task.queries.ids[row] for row in rows])
    rankings = (
        index.search_without(queries, DEEP, [left_out[row] for row in rows]),
        index.search_without(queries, DEPTH, [left_out[row] | relevant[row] for row in rows]),
    )
    positions = (place for side in rankings for _, places in side for place in places.tolist())
    ids = dict(enumerate(task.documents.ids)) if export is None else export.ids_at(positions)
    sample = _CalibrationSample(rankings, ids, [relevant[row] for row in rows], settings)
    if verifier is not None:
        of_both = (verified(verifier, queries, side, task.documents) for side in rankings)
        sample.known[VERIFIER] = (next(of_both), next(of_both))
    result = sample.calibration(searcher, verifier, corpus_of(documents), task, queries)
    report = sample.report(output, result)
    result.write(output)
    return report


def _parts(count: int, signal: str) -> tuple[int, int]:
    """How many of the queries compute hubs, and how many choose the signal; the others set the threshold."""
    part = count // PART
    return part if signal in ("auto", HUBNESS) else 0, part if signal == "auto" else 0


def _check_enough(count: int, settings: AbstentionSettings) -> None:
    """Raise :class:`UsageError` if as few queries allow no promise, in a split either."""

    def promises(queries: int) -> bool:
        rest = queries - queries // HELD_OUT
        hubs, choosing = _parts(rest, settings.signal)
        can_choose = settings.signal != "auto" or choosing > 0
        return can_choose and allowed(rest - hubs - choosing, settings.abstain) >= 0

    def always_promises(least: int) -> bool:
        return all(promises(queries) for queries in range(least, least + 2 * PART))

    # each query is held out, computes hubs, chooses the signal or calibrates; of four, at least one calibrates
    most = HELD_OUT + math.ceil(4 / settings.abstain)
    needed = bisect_left(range(most), True, lo=HELD_OUT, key=always_promises)
    if count < needed:
        where = "" if settings.index_folder is None else f" in {settings.index_folder}"
        problem = f"{count:,} queries with relevant documents{where}, and {needed:,} are needed"
        raise UsageError(f"{settings.on}: cannot promise an error of at most {settings.abstain:g}: {problem}")


class _CalibrationSample:
    """Rankings of judged queries with and without their ``relevant`` documents; ``known`` are the signals that need no
    hubs."""

    def __init__(
        self,
        rankings: tuple[Sequence[Ranking], Sequence[Ranking]],
        ids: Mapping[int, str],
        relevant: Sequence[Set[int]],
        settings: AbstentionSettings,
    ) -> None:
        self._rankings, self._ids, self._settings = rankings, ids, settings
        firsts = (positions[:1].tolist() for _, positions in rankings[0])
        self._right = np.array([not own.isdisjoint(first) for own, first in zip(relevant, firsts, strict=True)])
        self.known: dict[str, Sides] = {}
        self.known |= {name: self.signals(name, Hubs({}, 0.0)) for name in SIGNALS if name != HUBNESS}

    def signals(self, name: str, hubs: Hubs) -> Sides:
        """The signals of that name."""
        if name in self.known:
            return self.known[name]
        with_relevant, without = self._rankings
        return signal_of(name, with_relevant, self._ids, hubs), signal_of(name, without, self._ids, hubs)

    def fit(self, rows: np.ndarray) -> tuple[str, Hubs, np.ndarray]:
        """The signal, the hubs, and those of the ``rows`` that set the threshold."""
        chosen, alpha = self._settings.signal, self._settings.abstain
        first, second = _parts(len(rows), chosen)
        hubs = Hubs.of([self._rankings[0][row] for row in rows[:first].tolist()], self._ids)
        if chosen == "auto":
            shares = {}
            for name in dict.fromkeys([*SIGNALS, *self.known]):
                answerable, nulls = (side[rows[first : first + second]] for side in self.signals(name, hubs))
                shares[name] = (answerable > np.quantile(nulls, 1 - alpha, method="higher")).mean()
            chosen = max(shares, key=lambda name: float(shares[name]))  # of equal ones the first
        return chosen, hubs, rows[first + second :]

    def calibration(
        self, searcher: Searcher, verifier: Any, corpus: str, task: Retrieval, queries: Sequence[str]
    ) -> Abstention:
        """The calibration on all queries."""
        signal, hubs, fitted = self.fit(np.random.default_rng(0).permutation(len(queries)))
        answerable, nulls = (np.sort(side[fitted]).tolist() for side in self.signals(signal, hubs))
        return Abstention(
            system=searcher.spec,
            similarity=searcher.similarity,
            fingerprint=searcher.portable_fingerprint(),
            corpus=corpus,
            task=task.spec,
            data=task.digest(),
            queries=sorted({*map(mark_of, queries)}),
            signal=signal,
            verifier=[verifier.spec, verifier.fingerprint()] if signal == VERIFIER else [],
            nulls=nulls,
            answerable=answerable,
            hubs=hubs if signal == HUBNESS else Hubs({}, 0.0),
        )

    def report(self, file: str, result: Abstention) -> AbstentionReport:
        """The calibration with its figures on held-out queries."""
        from scipy.stats import beta

        count, alpha = len(self._right), self._settings.abstain
        chosen: Counter[str] = Counter()
        shares = np.full((self._settings.splits, 3), np.nan)
        for number in range(self._settings.splits):
            order = np.random.default_rng([1, number]).permutation(count)
            held_out, rest = order[: count // HELD_OUT], order[count // HELD_OUT :]
            signal, hubs, fitted = self.fit(rest)
            answerable, nulls = self.signals(signal, hubs)
            limit = threshold_of(nulls[fitted], alpha)
            answered, right = answerable[held_out] > limit, self._right[held_out]
            shares[number, :2] = (nulls[held_out] > limit).mean(), answered.mean()
            if answered.any():
                shares[number, 2] = 1 - right[answered].mean()
            chosen[signal] += 1
        above = allowed(len(result.nulls), alpha) + 1
        law = beta(above, len(result.nulls) + 1 - above)  # of the error, given the order statistic
        wrong = shares[~np.isnan(shares[:, 2]), 2]
        return AbstentionReport(
            file=file,
            system=result.system,
            similarity=result.similarity,
            task=result.task,
            abstain=alpha,
            signal=result.signal,
            queries=count,
            calibrated=len(result.nulls),
            threshold=result.threshold(alpha),
            splits=len(shares),
            expected=Spread(float(law.mean()), *map(float, law.ppf([0.025, 0.975]))),
            error=_spread(shares[:, 0]),
            answered=_spread(shares[:, 1]),
            wrong=_spread(wrong) if len(wrong) else None,
            wrong_without=float(1 - self._right.mean()),
            chosen={name: chosen[name] for name in sorted(chosen)},
        )


def _spread(shares: np.ndarray) -> Spread:
    low, high = np.quantile(shares, [0.025, 0.975])
    return Spread(float(shares.mean()), float(low), float(high))
