"""Semantic textual similarity: does the score of two sentences rise with the one that people gave them?

Spearman's and Pearson's correlation under the encoder's own similarity, and under cosine beside it, which is what MTEB
reports (SFS, Table 2; MAG, Table 5).
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.core.errors import DataError
from retrokit.core.files import named
from retrokit.data.labelled import short_name
from retrokit.data.overlap import JudgedTexts
from retrokit.data.tables import read_rows
from retrokit.data.training_rows import WITHOUT_NAMES, ScoredPair, iterate_records
from retrokit.evaluation.result import Resampled
from retrokit.evaluation.scoring import moderate
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask
from retrokit.ranking.retrieval.embeddings import DistinctTexts, pair_scores
from retrokit.similarities.base import Similarity


class SentenceSimilarity(SymmetricTask):
    """Correlation of scores with people's, over pairs of sentences."""

    main_metric = "spearman"
    shown_metrics = ("spearman", "pearson", "cosine_spearman", "cosine_pearson")
    default_metrics = shown_metrics
    query_side = "sentence1"

    def __init__(self, name: str, pairs: Sequence[ScoredPair]) -> None:
        distinct = DistinctTexts()
        self._first = distinct.add(pair.sentence1 for pair in pairs)
        self._second = distinct.add(pair.sentence2 for pair in pairs)
        self._gold = np.array([pair.score for pair in pairs], dtype=np.float64)
        self._pairs = [(pair.sentence1, pair.sentence2) for pair in pairs]
        super().__init__(distinct.texts, {"pairs": len(pairs), "texts": len(distinct.texts)})
        self.name = name

    def judged_texts(self) -> JudgedTexts:
        return JudgedTexts.of(self._pairs)

    def describe(self) -> str:
        low, high = self._gold.min(), self._gold.max()
        return f"{self.name}: {self.counts['pairs']:,} pairs of sentences, scores {low:g} to {high:g}"

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """The correlations. Raises :class:`DataError` if all pairs score alike, which leaves them undefined."""
        (rows,) = embeddings
        first, second, gold = rows[self._first], rows[self._second], self._gold
        correlations: dict[str, Resampled] = {}
        for name in names:
            by_cosine = name.startswith("cosine_")
            used = similarity_functions.registry.create("cosine") if by_cosine else similarity
            scores = pair_scores(used, first, second)
            if np.ptp(scores) == 0:
                problem = f"scores every pair {float(scores[0]):g} under {used.spec}"
                raise DataError(request.name, f"{problem}: a correlation with that is undefined")
            statistic = spearman if name.endswith("spearman") else pearson

            def value(rows: np.ndarray, statistic: Any = statistic, scores: np.ndarray = scores) -> float:
                return float(statistic(gold[rows], scores[rows]))

            correlations[name] = Resampled(len(gold), value)
        return Measured(resampled=correlations)


def spearman(gold: np.ndarray, scores: np.ndarray) -> float:
    """Spearman's rank correlation of ``[n]`` with ``[n]``, ties sharing their mean rank; NaN if either is constant.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.9, 0.5]))
    0.5
    """
    from scipy.stats import rankdata

    return pearson(rankdata(gold), rankdata(scores))


def pearson(gold: np.ndarray, scores: np.ndarray) -> float:
    """Pearson's correlation of ``[n]`` with ``[n]``; NaN if either is constant."""
    a, b = (side - side.mean() for side in (moderate(gold.astype(np.float64)), moderate(scores.astype(np.float64))))
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread > 0 else float("nan")


def sts(path: str) -> SentenceSimilarity:
    """The task of a JSONL file of ``sentence1``, ``sentence2`` and ``score``. Raises :class:`DataError` for a wrong
    line, fewer than two pairs, or one score for all of them."""
    seen = hashlib.sha256()
    rows = read_rows(
        path, 'pairs, one {"sentence1": …, "sentence2": …, "score": …} a line', seen.update, WITHOUT_NAMES["scored"]
    )
    pairs = cast(list[ScoredPair], list(iterate_records(rows, "scored", path)))
    if len({pair.score for pair in pairs}) < 2:
        problem = f"every score is {pairs[0].score:g}: a correlation with that is undefined"
        raise DataError(named(path), f"{problem}; expected scores that differ")
    task = SentenceSimilarity(short_name(path), pairs)
    task.data_digest = f"sha256:{seen.hexdigest()}"
    return task
