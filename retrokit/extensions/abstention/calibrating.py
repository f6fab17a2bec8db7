"""Calibrate when a system abstains, on judged queries with and without their relevant documents.

Queries are parted at random, with a fixed seed. The first sixth computes the hub scores, the second chooses the signal
that answers most, and the rest sets the threshold. The same is repeated over splits, without a third of the queries.
The realised error and the share answered are those of this third.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain

import numpy as np

from retrokit import evaluation
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.outputs import check_settings
from retrokit.core.registry import Spec, Value
from retrokit.core.settings import taking
from retrokit.data.exports import Export, open_export
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.extensions.abstention.calibration import Abstention, check_system, corpus_of, mark_of, verifier_of
from retrokit.extensions.abstention.results import CalibrationReport, Spread
from retrokit.extensions.abstention.settings import AbstentionSettings
from retrokit.extensions.abstention.signals import (
    DEEP,
    DEPTH,
    HUBNESS,
    SIGNALS,
    VERIFIER,
    Hubs,
    allowed,
    signal_of,
    threshold_of,
    verified,
)
from retrokit.ranking import retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.retrieval.base import Ranking, Searcher, TextList

PART, HELD_OUT = 6, 3  # one query of that number
Sides = tuple[np.ndarray, np.ndarray]
"""Signals ``[n]`` of all queries with, and without, their relevant documents."""


@dataclass(frozen=True)
class JudgedQueries:
    """The queries with relevant documents, and for each the positions of documents that are left out of its search, and
    of the relevant ones."""

    texts: TextList
    left_out: list[Set[int]]
    relevant: list[Set[int]]

    @property
    def left_out_with_relevant(self) -> list[Set[int]]:
        return [left_out | relevant for left_out, relevant in zip(self.left_out, self.relevant, strict=True)]


def _judged_queries(task: Retrieval, export: Export | None) -> JudgedQueries:
    """Positions are those of the ``export``, if there is one."""
    left_out, relevant = task.left_out, task.relevant
    if export is not None:
        left_out, relevant = task.places(export.rows_of)
    rows = [row for row, positions in enumerate(relevant) if positions]
    texts = TextList([task.queries[row] for row in rows], [task.queries.ids[row] for row in rows])
    return JudgedQueries(texts, [left_out[row] for row in rows], [relevant[row] for row in rows])


@taking(AbstentionSettings)
def calibrate(settings: AbstentionSettings) -> CalibrationReport:
    """Find when ``system`` abstains, on the judged queries of the task ``on``, and write it to ``output``.

    Raises:
        UsageError: wrong names or options, a task without judged documents, an export that does not fit, or too few
            queries for a promise.
        DataError: files that cannot be read or written.
    """
    check_settings(settings)
    task = judged_task(settings.on, settings.device)
    export = open_export(settings.index_folder) if settings.index_folder is not None else None
    judged = _judged_queries(task, export)
    _check_enough(len(judged.texts), settings)
    if settings.verifier is not None and export is not None:
        raise UsageError(f"{settings.verifier}: a verifier reads texts, and an export has none")
    system = spec_of(settings.system, export)
    check_system(system)
    searcher = retrieval.create(system, settings.device)
    index = searcher.index(task.documents) if export is None else searcher.over(export)
    searcher.check(task.documents, task.queries)
    verifier = verifier_of(settings.verifier, settings.device) if settings.verifier is not None else None
    queries = judged.texts
    with_relevant = index.search_without(queries, DEEP, judged.left_out)
    without = index.search_without(queries, DEPTH, judged.left_out_with_relevant)
    ids: Sequence[str] | Mapping[int, str] = task.documents.ids
    if export is not None:
        ids = export.ids_at(_positions_in(chain(with_relevant, without)))
    sample = _CalibrationSample((with_relevant, without), ids, judged.relevant, settings)
    if verifier is not None:
        sample.computed[VERIFIER] = (
            verified(verifier, queries, with_relevant, task.documents),
            verified(verifier, queries, without, task.documents),
        )
    corpus = corpus_of(task.documents if export is None else export, searcher.spec)
    calibration = sample.calibration(searcher, verifier, corpus, task, queries)
    report = sample.report(settings.output, calibration)
    calibration.write(settings.output)
    return report


def _positions_in(rankings: Iterable[Ranking]) -> Iterator[int]:
    for _, positions in rankings:
        yield from positions.tolist()


def judged_task(spec: str, device: str | None) -> Retrieval:
    """The task of that spec; raises :class:`UsageError` if it has no judged documents."""
    task = evaluation.registry.create_on(spec, device)
    if not isinstance(task, Retrieval):
        raise UsageError(f"{task.spec}: has no judged documents; give a task such as beir:data/scifact,split=train")
    notice(task.describe())
    return task


def spec_of(system: str | None, export: Export | None) -> str:
    """The spec of the searcher ``system``, or of the encoder of that name; of an export by default that of its encoder,
    similarity, dimensions and storage dtype."""
    if system is None:
        assert export is not None
        system = export.note["encoder"]["spec"]
    if retrieval.registry_of(system) is retrieval.registry:
        spec = retrieval.registry.parse(system)
    else:
        spec = Spec("dense", {"encoder": system}, "encoder")
    if spec.name == "dense" and export is not None:
        encoder = export.note["encoder"]
        written: dict[str, Value] = {"sim": export.note["similarity"]["spec"]}
        if export.note["dtype"] != "float32":
            written["quantize"] = export.note["dtype"]
        if encoder["dims"] != encoder["dimension"]:
            written["dims"] = encoder["dims"]
        spec = spec.changed(**{**written, **spec.params})
    return str(retrieval.registry.parse(str(spec)))


def _parts(count: int, signal: str) -> tuple[int, int]:
    """How many of the queries compute hubs, and how many choose the signal; the others set the threshold."""
    size = count // PART
    return size if signal in ("auto", HUBNESS) else 0, size if signal == "auto" else 0


def _check_enough(count: int, settings: AbstentionSettings) -> None:
    """Raise :class:`UsageError` if as few queries allow no promise, in a split either."""

    def promises(queries: int) -> bool:
        rest = queries - queries // HELD_OUT
        hubs, choosing = _parts(rest, settings.signal)
        can_choose = settings.signal != "auto" or choosing > 0
        return can_choose and allowed(rest - hubs - choosing, settings.error) >= 0

    def always_promises(least: int) -> bool:
        return all(promises(queries) for queries in range(least, least + 2 * PART))

    # each query is held out, computes hubs, chooses the signal or calibrates; of four, at least one calibrates
    upper_bound = HELD_OUT + math.ceil(4 / settings.error)
    needed = bisect_left(range(upper_bound), True, lo=HELD_OUT, key=always_promises)
    if count < needed:
        where = "" if settings.index_folder is None else f" in {settings.index_folder}"
        problem = f"{count:,} queries with relevant documents{where}, and {needed:,} are needed"
        raise UsageError(f"{settings.on}: cannot promise an error of at most {settings.error:g}: {problem}")


class _CalibrationSample:
    """Rankings of judged queries with and without their ``relevant`` documents; ``computed`` are the signals that need
    no hubs."""

    def __init__(
        self,
        rankings: tuple[Sequence[Ranking], Sequence[Ranking]],
        ids: Sequence[str] | Mapping[int, str],
        relevant: Sequence[Set[int]],
        settings: AbstentionSettings,
    ) -> None:
        self._rankings, self._ids, self._settings = rankings, ids, settings
        is_right = []
        for documents, (_, positions) in zip(relevant, rankings[0], strict=True):
            is_right.append(not documents.isdisjoint(positions[:1].tolist()))
        self._right = np.array(is_right)
        self.computed: dict[str, Sides] = {}
        self.computed |= {name: self.signals(name, Hubs({}, 0.0)) for name in SIGNALS if name != HUBNESS}

    def signals(self, name: str, hubs: Hubs) -> Sides:
        """The signals of that name."""
        if name in self.computed:
            return self.computed[name]
        with_relevant, without = self._rankings
        return signal_of(name, with_relevant, self._ids, hubs), signal_of(name, without, self._ids, hubs)

    def fit(self, rows: np.ndarray) -> tuple[str, Hubs, np.ndarray]:
        """The signal, the hubs, and those of the ``rows`` that set the threshold."""
        chosen, alpha = self._settings.signal, self._settings.error
        first, second = _parts(len(rows), chosen)
        hubs = Hubs.of([self._rankings[0][row] for row in rows[:first].tolist()], self._ids)
        if chosen == "auto":
            shares = {}
            for name in dict.fromkeys([*SIGNALS, *self.computed]):
                answerable, nulls = (side[rows[first : first + second]] for side in self.signals(name, hubs))
                shares[name] = (answerable > np.quantile(nulls, 1 - alpha, method="higher")).mean()
            chosen = max(shares, key=lambda name: float(shares[name]))  # of equal ones the first
        return chosen, hubs, rows[first + second :]

    def calibration(
        self, searcher: Searcher, verifier: Reranker | None, corpus: str, task: Retrieval, queries: Sequence[str]
    ) -> Abstention:
        """The calibration on all queries."""
        signal, hubs, fitted = self.fit(np.random.default_rng(0).permutation(len(queries)))
        answerable, nulls = (np.sort(side[fitted]).tolist() for side in self.signals(signal, hubs))
        return Abstention(
            system=searcher.spec,
            fingerprint=searcher.portable_fingerprint(),
            corpus=corpus,
            task=task.spec,
            data=task.digest(),
            queries=sorted({*map(mark_of, queries)}),
            signal=signal,
            verifier=[verifier.spec, verifier.fingerprint()] if verifier is not None and signal == VERIFIER else [],
            nulls=nulls,
            answerable=answerable,
            hubs=hubs if signal == HUBNESS else Hubs({}, 0.0),
        )

    def report(self, file: str, result: Abstention) -> CalibrationReport:
        """The calibration with its figures on held-out queries."""
        from scipy.stats import beta

        count, alpha = len(self._right), self._settings.error
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
        return CalibrationReport(
            file=file,
            system=result.system,
            task=result.task,
            promised=alpha,
            signal=result.signal,
            queries=count,
            calibrated=len(result.nulls),
            threshold=result.threshold(alpha, file),
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
