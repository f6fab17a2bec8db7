"""Do scores tell pairs that mean the same from pairs that do not? Score distributions, ROC-AUC, best threshold.

``pairs:PATH`` reads near-misses (:mod:`retrokit.evaluation.tasks.near_misses`) or, here, pairs labelled 1 (duplicates,
paraphrases) and 0.
"""

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
        counts = {"pairs": len(pairs), "positive_pairs": int(self._same.sum()), "texts": len(distinct.texts)}
        super().__init__(distinct.texts, counts)

    def describe(self) -> str:
        return f"{self.name}: {self.counts['pairs']:,} pairs, {self.counts['positive_pairs']:,} of them positive"

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """Areas that can be resampled over pairs, the threshold, and the scores of both groups."""
        from sklearn.metrics import average_precision_score

        first, second = embeddings[0][self._first], embeddings[0][self._second]
        scores = pair_scores(similarity, first, second).astype(np.float64)
        cosines = pair_scores(similarity_functions.registry.create("cosine"), first, second)
        same, other = np.flatnonzero(self._same), np.flatnonzero(~self._same)
        metrics = {"average_precision": float(average_precision_score(self._same, scores))}
        metrics["threshold"], metrics["accuracy"] = best_threshold(scores[same], scores[other])
        per_pair = {}
        for group, rows in {"positive": same, "negative": other}.items():
            per_pair[group] = {self._ids[row]: float(scores[row]) for row in rows}
            metrics[f"{group}_std"] = float(scores[rows].std())
        areas = {
            "roc_auc": resampled_groups(roc_auc, scores[same], scores[other]),
            "cosine_roc_auc": resampled_groups(roc_auc, cosines[same], cosines[other]),
        }
        own_scale = ("threshold", "positive", "negative", "positive_std", "negative_std")
        return Measured(metrics, per_pair, areas, own_scale=own_scale)


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
