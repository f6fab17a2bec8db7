"""Does the score fall when the meaning changes and the words hardly do? Near-misses (COMP, 3.2, Figures 1 and 3).

Reported are the mean score and deviation of (anchor, near-miss), of all and per family (negation, binding, spatial…),
and their mean cosine, which is COMP's figure: lower is better. The main metric is ``margin``, higher is better: the
mean of score(anchor, positive) − score(anchor, near-miss).

Where every positive is the anchor itself, as in COMP's triplets (s, s, s̃), its score is trivially the highest and no
threshold is sought; positives that are other texts give ROC-AUC, accuracy and threshold. In any case near-misses are
set against pairs of anchors drawn at random, as in Figure 1: ``over_random`` is the share of (near-miss, random pair)
couples in which the near-miss scores higher.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.data.labelled_pairs import NearMiss
from retrokit.encoders.encoder import Encoder
from retrokit.evaluation.result import Resampled
from retrokit.evaluation.symmetric import DistinctTexts, Measured, SymmetricTask, pair_scores
from retrokit.metrics.separation import best_threshold, roc_auc
from retrokit.similarities.base import Similarity

SEED = 42


class NearMisses(SymmetricTask):
    """Scores of near-misses and random pairs, and of positives where they are other texts than their anchors."""

    main_metric = "margin"
    query_side = "the anchor"

    def __init__(self, name: str, examples: Sequence[NearMiss]) -> None:
        self.name = name
        distinct = DistinctTexts()
        self._anchor = distinct.add(example.anchor for example in examples)
        self._positive = distinct.add(example.positive for example in examples)
        self._near_miss = distinct.add(example.near_miss for example in examples)
        self._ids = [example.id for example in examples]
        self._families = np.array([example.family for example in examples])
        self._random = _other_anchors(self._anchor)
        paraphrases = np.unique(np.stack([self._anchor, self._positive]), axis=1)
        self._paraphrases = paraphrases[:, paraphrases[0] != paraphrases[1]]
        counts = {
            "near_misses": len(examples),
            "paraphrases": self._paraphrases.shape[1],
            "random_pairs": self._random.shape[1],
            "texts": len(distinct.texts),
        }
        super().__init__(distinct.texts, counts)
        self._name_metrics([family for family in sorted(set(self._families.tolist())) if family])

    def _name_metrics(self, families: Sequence[str]) -> None:
        per_family = [f"/{family}" for family in families]
        shown = ["margin", "near_miss", *(f"near_miss{family}" for family in per_family)]
        if self.counts["random_pairs"]:
            shown += ["random", "over_random"]
        if self.counts["paraphrases"]:
            shown += ["positive", "roc_auc", "accuracy", "threshold"]
        deviations = [f"{group}_std" for group in ("random", "positive") if group in shown]
        means = ("margin", "near_miss", "near_miss_std", "cosine_near_miss")
        every = [f"{mean}{family}" for mean in means for family in ("", *per_family)]
        self.shown_metrics = tuple(shown)
        self.known_metrics = self.default_metrics = tuple(dict.fromkeys([*shown, *every, *deviations]))

    def describe(self) -> str:
        """What is used, and what the near-misses are set against, in a line."""
        families, sizes = np.unique(self._families, return_counts=True)
        named = ", ".join(f"{size:,} {family}" for family, size in zip(families, sizes, strict=True) if family)
        line = f"{self.name}: {self.counts['near_misses']:,} near-misses" + (f" ({named})" if named else "")
        if self.counts["paraphrases"]:
            return f"{line}, against {self.counts['paraphrases']:,} positives"
        random = self.counts["random_pairs"]
        return f"{line}; every positive is its anchor: no threshold, but {random:,} random pairs (COMP, Figure 1)"

    def measure(
        self, encoder: Encoder, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """Means with each near-miss's value; areas that can be computed anew on pairs drawn; threshold."""

        def scores(first: np.ndarray, second: np.ndarray, by: Similarity = similarity) -> np.ndarray:
            return pair_scores(by, embeddings[first], embeddings[second]).astype(np.float64)

        near = scores(self._anchor, self._near_miss)
        random, paraphrases = scores(*self._random), scores(*self._paraphrases)
        cosine = similarity_functions.registry.create("cosine")
        per_pair = {
            **self._by_family("margin", scores(self._anchor, self._positive) - near),
            **self._by_family("near_miss", near),
            **self._by_family("cosine_near_miss", scores(self._anchor, self._near_miss, cosine)),
            "random": {f"random {i}": value for i, value in enumerate(random.tolist(), 1)},
            "positive": {f"positive {i}": value for i, value in enumerate(paraphrases.tolist(), 1)},
        }
        metrics = {name: float(np.mean(list(values.values()))) for name, values in per_pair.items() if values}
        for group in [name for name in metrics if name.startswith(("near_miss", "random", "positive"))]:
            name, slash, family = group.partition("/")
            metrics[f"{name}_std{slash}{family}"] = float(np.std(list(per_pair[group].values())))
        again: dict[str, Resampled] = {}
        if len(random):
            metrics["over_random"], again["over_random"] = roc_auc(near, random), resampled_area(near, random)
        if len(paraphrases):
            metrics["roc_auc"], again["roc_auc"] = roc_auc(paraphrases, near), resampled_area(paraphrases, near)
            metrics["threshold"], metrics["accuracy"] = best_threshold(paraphrases, near)
        return Measured(
            {name: metrics[name] for name in names},
            {name: per_pair[name] for name in names if name in per_pair},
            {name: again[name] for name in names if name in again},
        )

    def _by_family(self, name: str, values: np.ndarray) -> dict[str, dict[str, float]]:
        """``values`` ``[n]`` of all near-misses by id, and of each family as ``name/family``."""
        found = {name: dict(zip(self._ids, values.tolist(), strict=True))}
        for identifier, family, value in zip(self._ids, self._families.tolist(), values.tolist(), strict=True):
            if family:
                found.setdefault(f"{name}/{family}", {})[identifier] = value
        return found


def _other_anchors(anchors: np.ndarray) -> np.ndarray:
    """Each distinct anchor with another one, at random by a fixed seed: ``[2, n]``, or ``[2, 0]`` of a single one."""
    order = np.random.default_rng(SEED).permutation(np.unique(anchors))
    couples = np.stack([order, np.roll(order, 1)])
    return couples if len(order) > 1 else couples[:, :0]


def resampled_area(positive: np.ndarray, negative: np.ndarray) -> Resampled:
    """The area under the ROC curve over the items of both groups, so that it can be computed anew on items drawn."""

    def area(rows: np.ndarray) -> float:
        return roc_auc(positive[rows[rows < len(positive)]], negative[rows[rows >= len(positive)] - len(positive)])

    return Resampled(len(positive) + len(negative), area)
