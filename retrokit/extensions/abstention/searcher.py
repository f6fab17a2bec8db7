"""The searcher ``abstain``: one that was calibrated, and finds nothing for queries with nothing relevant.

It wraps the searcher that the file of a calibration names. A query is answered if its signal is above the threshold of
the promised error.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.data.exports import Export
from retrokit.extensions.abstention.calibration import Abstention, corpus_of, read_calibration, verifier_of
from retrokit.extensions.abstention.signals import DEPTH, drift_p, signal_of, verified
from retrokit.ranking import retrieval
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.retrieval.base import (
    Account,
    FilteredIndex,
    Index,
    Ranking,
    Searcher,
    TextList,
    account_of,
)

ABSTAINED = "abstained: no document is relevant enough"
BATCH, LEVEL = 50, 0.01
"""Queries that are tested for drift together, and the level of the test."""
NOTHING = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64)


class Abstaining(Searcher):
    """What ``searcher`` finds, for the queries that the calibration in ``file`` answers at an ``error``. Raises
    :class:`UsageError` if it is not that of the calibration, or cannot promise the error."""

    def __init__(
        self, file: str, calibration: Abstention, error: float, searcher: Searcher, verifier: Reranker | None
    ) -> None:
        self.file, self.calibration, self.error = file, calibration, error
        self.searcher, self.verifier = searcher, verifier
        self.spec, self.similarity = f"abstain:{file}", searcher.similarity
        self.by_ids, self.export = searcher.by_ids, searcher.export
        self.threshold = calibration.threshold(error, file)
        if searcher.portable_fingerprint() != calibration.fingerprint:
            problem = f"was calibrated for {calibration.system} with other weights or settings; calibrate again"
            raise UsageError(f"{file}: {problem}")
        if verifier is not None and verifier.fingerprint() != calibration.verifier[1]:
            raise UsageError(f"{file}: {verifier.spec} is not the verifier of the calibration; calibrate again")

    def index(self, documents: TextList) -> AbstainingIndex:
        self._check_corpus(documents)
        return AbstainingIndex(self, self.searcher.index(documents), documents)

    def over(self, export: Export) -> AbstainingIndex:
        if self.verifier is not None:
            raise UsageError(f"{self.verifier.spec}: a verifier reads texts, and {export.folder} has none")
        index = self.searcher.over(export)
        self._check_corpus(export)
        return AbstainingIndex(self, index, export)

    def check(self, documents: TextList, queries: TextList) -> None:
        """Raise :class:`UsageError` if the calibration is of other documents, or of these queries."""
        self.searcher.check(documents, queries)
        self._check_corpus(documents)
        unseen = self.calibration.unseen(queries, self.spec)
        if seen := len(queries) - len(unseen):
            notice(f"{self.spec}: {seen:,} of {len(queries):,} queries calibrated it, and have no promise")

    def _check_corpus(self, documents: TextList | Export) -> None:
        corpora = [corpus_of(documents, self.spec)]
        if isinstance(documents, TextList) and self.export is not None and self.export.note["count"] == len(documents):
            corpora.append(corpus_of(self.export, self.spec))
        if self.calibration.corpus not in corpora:
            raise UsageError(f"{self.file}: was calibrated for other documents ({self.calibration.task})")

    def fingerprint(self) -> str:
        verifier = "" if self.verifier is None else f" {self.verifier.fingerprint()}"
        return f"{self.searcher.fingerprint()} {digest(self.file)} {self.error}{verifier}"

    def portable_fingerprint(self) -> str:
        return f"{self.searcher.portable_fingerprint()} {digest(self.file)} {self.error}"


class AbstainingIndex(FilteredIndex):
    """The ``documents`` of ``index``, which finds nothing for some queries. A notice reports a drift of the signals."""

    def __init__(self, searcher: Abstaining, index: Index, documents: TextList | Export) -> None:
        self.searcher, self.inner = searcher, index
        self._documents = documents
        self._searched = self._not_answered = 0
        self._untested: list[float] = []  # signals since the last test for drift

    def search_without(self, queries: TextList, k: int, left_out: Sequence[Set[int]]) -> list[Ranking]:
        rankings = self.inner.search_without(queries, max(k, DEPTH), left_out)
        signals = self.signals(queries, rankings)
        self._test_drift(signals)
        answers = signals > self.searcher.threshold
        refused = np.flatnonzero(~answers).tolist()
        self._searched += len(queries)
        self._not_answered += len(refused)
        self.empty = {queries[row]: ABSTAINED for row in refused}
        if self.inner.unlisted:
            refused_ids = {queries.ids[row] for row in refused}
            self.unlisted = {id: scores for id, scores in self.inner.unlisted.items() if id not in refused_ids}
        return [
            (scores[:k], positions[:k]) if answer else NOTHING
            for (scores, positions), answer in zip(rankings, answers.tolist(), strict=True)
        ]

    def signals(self, queries: TextList, rankings: Sequence[Ranking]) -> np.ndarray:
        """The signals ``[n]`` of rankings of at least :data:`DEPTH` documents."""
        calibration, documents = self.searcher.calibration, self._documents
        if isinstance(documents, TextList):
            if self.searcher.verifier is not None:
                return verified(self.searcher.verifier, queries, rankings, documents)
            ids: Sequence[str] | Mapping[int, str] = documents.ids
        else:
            ids = documents.ids_at(int(positions[0]) for _, positions in rankings if len(positions))
        return signal_of(calibration.signal, rankings, ids, calibration.hubs)

    def _test_drift(self, signals: np.ndarray) -> None:
        """Report signals of the last :data:`BATCH` queries or more that are no mixture of those with and without
        relevant documents."""
        self._untested += signals.tolist()
        if len(self._untested) >= BATCH:
            calibration = self.searcher.calibration
            report_drift(self.searcher, np.array(self._untested), calibration.nulls, calibration.answerable)
            self._untested = []

    def score_pairs(self, queries: TextList, texts: TextList) -> np.ndarray:
        return self.inner.score_pairs(queries, texts)

    def ready(self) -> AbstainingIndex:
        index = copy.copy(self)
        index.inner = self.inner.ready()
        return index

    def account(self) -> Account:
        """That of the searcher inside, with how many queries are not answered."""
        searcher = self.searcher
        account = account_of(searcher.searcher, self.inner)
        about = {"error": searcher.error, "signal": searcher.calibration.signal, "threshold": searcher.threshold}
        note = (
            f"{self._not_answered:,} of {self._searched:,} queries are not answered; promised: at most "
            f"{searcher.error:g} of those with nothing relevant are"
        )
        return replace(
            account,
            configuration={**account.configuration, "abstain": about},
            counts={**account.counts, "queries_not_answered": self._not_answered},
            notes=[*account.configuration.get("notes", ()), note],
        )


def report_drift(searcher: Abstaining, signals: np.ndarray, *references: Sequence[float]) -> float:
    """The p-value of :func:`drift_p`; a notice reports one below :data:`LEVEL`."""
    p = drift_p(signals, *map(np.array, references))
    if p < LEVEL:
        drift = f"the {searcher.calibration.signal} of {len(signals):,} queries has drifted from the calibration"
        notice(f"{searcher.spec}: {drift} (p = {p:.2g}); the promise is void, calibrate again")
    return p


def abstain(file: str, error: float, export: str | None = None, device: str | None = None) -> Abstaining:
    """The searcher that the calibration in ``file`` names, which abstains at that ``error``; with ``export`` over the
    embeddings of that folder."""
    calibration = read_calibration(file)
    calibration.threshold(error, file)
    system = calibration.system
    if export is not None:
        system = str(retrieval.registry.parse(str(retrieval.registry.parse(system).changed(export=export))))
    searcher = retrieval.create(system, device)
    verifier = verifier_of(calibration.verifier[0], device) if calibration.verifier else None
    return Abstaining(file, calibration, error, searcher, verifier)
