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

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.data.exports import IDS, NOTE, Export
from retrokit.data.images import Image
from retrokit.data.jsonl import read_json, write_json
from retrokit.ranking import reranking
from retrokit.ranking.retrieval.base import Ranking, Searcher, TextList

DEPTH = 10
"""Documents of a query that a signal looks at."""
DEEP = 100
"""Documents of a query that count when the hubs are computed."""
EMPTY = float(np.finfo(np.float32).min)
"""The signal of a query for which nothing was retrieved."""
BATCH, LEVEL = 50, 0.01
"""Queries that are tested for drift together, and the level of the test."""
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
    own, *others = (
        np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (signals, *references)
    )
    first, last = others[0], others[-1]
    distance = min(float(np.abs(own - share * first - (1 - share) * last).max()) for share in np.linspace(0, 1, 101))
    size = round(len(signals) * len(references[0]) / (len(signals) + len(references[0])))
    return float(kstwo.sf(distance, max(1, size)))


@dataclass(frozen=True)
class Hubs:
    """Mean of the :data:`DEPTH` best scores that documents get from other queries, by id; ``rest`` replaces scores
    below a list's end, and is the value of any other document."""

    scores: dict[str, float]
    rest: float

    @classmethod
    def of(cls, rankings: Sequence[Ranking], ids: Mapping[int, str]) -> Hubs:
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


def signal_of(name: str, rankings: Sequence[Ranking], ids: Mapping[int, str], hubs: Hubs) -> np.ndarray:
    """The signal ``[n]`` of that name of each ranking; higher: rather answered."""
    values = [
        SIGNALS[name](scores, hubs.scores.get(ids[int(positions[0])], hubs.rest)) if len(scores) else EMPTY
        for scores, positions in rankings
    ]
    return np.array(values, dtype=np.float64)


def verified(verifier: Any, queries: TextList, rankings: Sequence[Ranking], texts: Sequence[str]) -> np.ndarray:
    """The score ``[n]`` of a verifier for each query with the first document of its ranking."""
    signals = np.full(len(queries), EMPTY)
    rows = [row for row, (scores, _) in enumerate(rankings) if len(scores)]
    firsts = [texts[int(rankings[row][1][0])] for row in rows]
    if rows:
        signals[rows] = verifier.score_pairs([queries[row] for row in rows], firsts)
    return signals


def corpus_of(documents: TextList | Export) -> str:
    """A digest of the documents, in any order, or of the note of an export; of texts from a pipe, its ids too."""
    if isinstance(documents, Export):
        names = [NOTE] if documents.note["source"]["digest"] else [NOTE, IDS]
        return " ".join(digest(part.folder, names) for part in documents.parts)
    content = hashlib.sha256()
    for id, text in sorted(zip(documents.ids, documents, strict=True)):
        content.update(f"{id}\0{text.digest if isinstance(text, Image) else text}\0".encode())
    return f"sha256:{content.hexdigest()}"


def mark_of(query: str) -> str:
    """A short digest by which a query is recognised."""
    return hashlib.sha256(query.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Abstention:
    """What a calibration has measured: it serves one system on one corpus.

    Attributes:
        system: its spec, for messages.
        fingerprint: of what decides its scores.
        corpus: digest of the documents.
        task, data: the calibration queries' task, and the digest of its data.
        queries: short digests of the calibration queries.
        signal: what is compared with the threshold.
        verifier: spec and fingerprint of the verifier; empty: none.
        nulls: ascending signals of the calibration queries without their relevant documents.
        answerable: ascending signals of the same queries with them.
        hubs: hub scores, of the signal hubness.
    """

    system: str
    similarity: str
    fingerprint: str
    corpus: str
    task: str
    data: str | None
    queries: list[str]
    signal: Annotated[str, tuple(SIGNALS)]
    verifier: list[str]
    nulls: list[float]
    answerable: list[float]
    hubs: Hubs

    def write(self, path: str | Path) -> None:
        """Write it as JSON. Raises :class:`DataError`."""
        write_json(path, asdict(self), kind="abstention")

    def threshold(self, alpha: float) -> float:
        """The threshold for that error. Raises :class:`UsageError` if there are too few calibration queries."""
        limit, count = threshold_of(np.array(self.nulls), alpha), len(self.nulls)
        if math.isinf(limit):
            needed = f"{count:,} calibration queries, and at least {math.ceil(1 / alpha - 1e-9) - 1:,} are needed"
            raise UsageError(f"`abstain=` {alpha:g}: cannot promise this: {needed}")
        return limit

    def unseen(self, queries: Sequence[str], name: str) -> np.ndarray:
        """The positions of the queries that were not calibrated on. Raises :class:`UsageError` if more than half were;
        ``name`` is that of their task."""
        known = {*self.queries}
        unseen = np.array([row for row, query in enumerate(queries) if mark_of(query) not in known], dtype=np.int64)
        if 2 * len(unseen) < len(queries):
            shared = f"{len(queries) - len(unseen):,} of {len(queries):,} queries calibrated `abstain=`"
            raise UsageError(f"{name}: {shared}; calibrate on another split")
        return unseen


def read_abstention(path: str | Path) -> Abstention:
    """What ``retrokit calibrate`` has written. Raises :class:`UsageError` if there is no such file, and
    :class:`DataError` for another one."""
    if not Path(path).exists():
        raise UsageError(f"{path}: no such file; retrokit calibrate writes it")
    abstention: Abstention = read_json(path, "a calibration of retrokit calibrate", Abstention)
    if len(abstention.verifier) not in (0, 2) or len(abstention.nulls) != len(abstention.answerable):
        raise DataError(path, "is not a calibration of retrokit calibrate: its lists differ in length")
    return abstention


class Abstainer:
    """Decides which queries of one system on one corpus are answered, at an error of at most ``alpha``, and reports a
    drift of their signals. Raises :class:`UsageError` if ``calibrations`` contains none of this system and corpus."""

    def __init__(
        self,
        calibrations: Sequence[str | Path],
        alpha: float,
        searcher: Searcher,
        documents: TextList | Export,
        device: str | None = None,
    ) -> None:
        fingerprint, corpora = searcher.portable_fingerprint(), [corpus_of(documents)]
        stored = searcher.export
        if isinstance(documents, TextList) and stored is not None and stored.note["count"] == len(documents):
            corpora.append(corpus_of(stored))
        loaded = [(path, read_abstention(path)) for path in calibrations]
        of_system = [(path, calibration) for path, calibration in loaded if calibration.fingerprint == fingerprint]
        fitting = [calibration for _, calibration in of_system if calibration.corpus in corpora]
        if not fitting:
            path, calibration = (of_system or loaded)[0]
            names = calibration.system, calibration.similarity
            same = names == (searcher.spec, searcher.similarity)
            what = "another index, or other weights or settings" if same else " with ".join(names)
            what = f"other documents ({calibration.task})" if of_system else what
            raise UsageError(f"{path}: was calibrated for {what}, not for {searcher.spec} with {searcher.similarity}")
        self.abstention, self.alpha = fitting[0], alpha
        self.threshold = self.abstention.threshold(alpha)
        self._texts = documents if isinstance(documents, TextList) else None
        self._verifier = None
        if self.abstention.verifier:
            spec, own = self.abstention.verifier
            self._verifier = verifier_of(spec, self._texts, device)
            if self._verifier.fingerprint() != own:
                raise UsageError(f"{spec}: is not the verifier of the calibration; calibrate again")
        self._pending: list[float] = []

    def signals(self, queries: TextList, rankings: Sequence[Ranking], ids: Mapping[int, str]) -> np.ndarray:
        """The signals ``[n]`` of rankings of at least :data:`DEPTH` documents."""
        if self._verifier is not None:
            return verified(self._verifier, queries, rankings, self._texts or ())
        return signal_of(self.abstention.signal, rankings, ids, self.abstention.hubs)

    def answers(self, queries: TextList, rankings: Sequence[Ranking], ids: Mapping[int, str]) -> np.ndarray:
        """Whether each query is answered, bool ``[n]``. A notice reports a drift of the last :data:`BATCH` queries or
        more: their signals are no mixture of those with and without relevant documents."""
        signals = self.signals(queries, rankings, ids)
        self._pending += signals.tolist()
        if len(self._pending) >= BATCH:
            self.check_drift(np.array(self._pending), self.abstention.nulls, self.abstention.answerable)
            self._pending = []
        return signals > self.threshold

    def check_drift(self, signals: np.ndarray, *references: Sequence[float]) -> float:
        """The p-value of :func:`drift_p`; a notice reports calibration below :data:`LEVEL`."""
        p = drift_p(signals, *map(np.array, references))
        if p < LEVEL:
            text = f"the {self.abstention.signal} of {len(signals):,} queries has drifted from the calibration"
            notice(f"`abstain=` {self.alpha:g}: {text} (p = {p:.2g}); the promise is void, calibrate again")
        return p


def verifier_of(spec: str, texts: Sequence[str] | None, device: str | None = None) -> Any:
    """The reranker of that spec, to score pairs. Raises :class:`UsageError` if it is listwise, or for no texts."""
    if texts is None:
        raise UsageError(f"{spec}: a verifier reads texts, and an export has none; give `corpus=`")
    verifier = reranking.create(spec, device)
    if verifier.listwise:
        raise UsageError(f"{spec}: listwise reranker; cannot score pairs")
    return verifier
