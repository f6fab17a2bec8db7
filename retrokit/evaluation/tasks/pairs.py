"""Do scores tell pairs that mean the same from pairs that do not? Score distributions, ROC-AUC, best threshold.

``pairs:PATH`` reads near-misses (:mod:`retrokit.evaluation.tasks.near_misses`) or, here, pairs labelled 1 (duplicates,
paraphrases) and 0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.data.labelled import short_name
from retrokit.data.labelled_pairs import LabelledNearMiss, LabelledPair, read_labelled_pairs
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask
from retrokit.evaluation.tasks.near_misses import NearMisses, resampled_groups
from retrokit.metrics.separation import best_threshold, roc_auc
from retrokit.ranking.retrieval.embeddings import DistinctTexts, pair_scores
from retrokit.similarities.base import Similarity


class DuplicatePairs(SymmetricTask):
    """Separation of the pairs labelled 1 from those labelled 0 by their score, and the scores of both."""

    main_metric = "roc_auc"
    shown_metrics = ("roc_auc", "average_precision", "accuracy", "threshold", "positive", "negative", "cosine_roc_auc")
    default_metrics = (*shown_metrics, "positive_std", "negative_std")
    query_side = "sentence1"

    def __init__(self, name: str, pairs: Sequence[LabelledPair]) -> None:
        self.name = name
        distinct = DistinctTexts()
        self._first = distinct.add(pair.first for pair in pairs)
        self._second = distinct.add(pair.second for pair in pairs)
        self._ids = [pair.id for pair in pairs]
        self._same = np.array([pair.same for pair in pairs])
        super().__init__(
            distinct.texts,
            {"pairs": len(pairs), "positive_pairs": int(self._same.sum()), "texts": len(distinct.texts)},
        )

    def describe(self) -> str:
        return f"{self.name}: {self.counts['pairs']:,} pairs, {self.counts['positive_pairs']:,} of them positive"

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """Areas that can be computed anew on pairs drawn, the threshold, and the scores of both groups."""
        (rows,) = embeddings
        from sklearn.metrics import average_precision_score

        first, second = rows[self._first], rows[self._second]
        scores = pair_scores(similarity, first, second).astype(np.float64)
        cosines = pair_scores(similarity_functions.registry.create("cosine"), first, second)
        groups = {"positive": self._same, "negative": ~self._same}
        per_pair = {
            group: {self._ids[i]: float(scores[i]) for i in np.flatnonzero(chosen)} for group, chosen in groups.items()
        }
        threshold = best_threshold(scores[self._same], scores[~self._same])
        metrics = {
            "average_precision": float(average_precision_score(self._same, scores)),
            "accuracy": threshold.accuracy,
            "threshold": threshold.value,
            **{f"{group}_std": float(scores[chosen].std()) for group, chosen in groups.items()},
        }
        again = {
            "roc_auc": resampled_groups(roc_auc, scores[self._same], scores[~self._same]),
            "cosine_roc_auc": resampled_groups(roc_auc, cosines[self._same], cosines[~self._same]),
        }
        own_scale = ("threshold", *groups, *(f"{group}_std" for group in groups))
        return Measured(metrics, per_pair, again, own_scale=own_scale)


def pairs(path: str, family: str) -> NearMisses | DuplicatePairs:
    """The task of a file of near-misses or of labelled pairs. Raises :class:`UsageError` or :class:`DataError` as for
    :func:`retrokit.data.labelled_pairs.read_labelled_pairs`."""
    seen = hashlib.sha256()
    examples = read_labelled_pairs(path, seen.update, family)
    labelled = [example for example in examples if isinstance(example, LabelledPair)]
    task: NearMisses | DuplicatePairs
    if labelled:
        task = DuplicatePairs(short_name(path), labelled)
    else:
        task = NearMisses(short_name(path), [example for example in examples if isinstance(example, LabelledNearMiss)])
    task.data_digest = f"sha256:{seen.hexdigest()}"
    return task
