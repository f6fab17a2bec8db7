"""Does the score fall when the meaning changes and the words hardly do? Near-misses (COMP, 3.2, Figures 1 and 3).

Reported are the mean score and deviation of (anchor, near-miss), of all and per family (negation, binding, spatial…),
their mean cosine, which is COMP's figure (lower is better), and ``margin``, the mean of score(anchor, positive) −
score(anchor, near-miss). Scores of two similarities, or of two encoders under one without bounds, are on scales of
their own: such means are shown and not compared.

The main metric is comparable. Positives that are other texts than their anchors give ROC-AUC, accuracy and threshold,
and the area decides. Where every positive is the anchor itself, as in COMP's triplets (s, s, s̃), its score is trivially
the highest and no threshold is sought; ``cosine_margin`` decides. In any case near-misses are set against pairs of
anchors drawn at random, as in Figure 1: ``over_random`` is the share of (near-miss, random pair) couples in which the
near-miss scores higher. Areas of a family are of its near-misses against all positives, or all random pairs: one
threshold stands before all families.

:class:`Verification` is the same test of a gate (COMP, Evaluation 2), for anything that scores pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.core.errors import DataError
from retrokit.data.labelled_pairs import LabelledNearMiss
from retrokit.data.pairs import read_source
from retrokit.data.training_rows import Pair
from retrokit.evaluation.result import Resampled, Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask
from retrokit.metrics.separation import best_threshold, false_accept_rate, roc_auc
from retrokit.ranking.retrieval.base import OWN_SIMILARITY
from retrokit.ranking.retrieval.embeddings import DistinctTexts, pair_scores
from retrokit.similarities.base import Similarity

SEED = 42
FALSE_ACCEPTS = "false_accept@95"


class NearMisses(SymmetricTask):
    """Scores of near-misses and random pairs, and of positives where they are other texts than their anchors."""

    query_side = "the anchor"

    def __init__(self, name: str, examples: Sequence[LabelledNearMiss]) -> None:
        self.name = name
        self.examples = examples
        distinct = DistinctTexts()
        self._anchor = distinct.add(example.anchor for example in examples)
        self._positive = distinct.add(example.positive for example in examples)
        self._near_miss = distinct.add(example.near_miss for example in examples)
        self._ids = [example.id for example in examples]
        self._families = np.array([example.family for example in examples])
        self._random = _other_anchors(self._anchor)
        self._paraphrases = self._find_paraphrases(distinct)
        counts = {
            "near_misses": len(examples),
            "paraphrases": self._paraphrases.shape[1],
            "random_pairs": self._random.shape[1],
            "texts": len(distinct.texts),
        }
        super().__init__(distinct.texts, counts)
        self._name_metrics([family for family in sorted(set(self._families.tolist())) if family])

    def _find_paraphrases(self, distinct: DistinctTexts) -> np.ndarray:
        """Pairs that mean the same, as positions of their texts: ``[2, n]``."""
        pairs = np.unique(np.stack([self._anchor, self._positive]), axis=1)
        return pairs[:, pairs[0] != pairs[1]]

    def _name_metrics(self, families: Sequence[str]) -> None:
        self.families = list(families)
        named = ["", *(f"/{family}" for family in families)]
        self.main_metric = "roc_auc" if self.counts["paraphrases"] else "cosine_margin"
        shown = [self.main_metric, "margin", *(f"near_miss{family}" for family in named)]
        areas = []
        if self.counts["random_pairs"]:
            shown += ["random", "over_random"]
            areas.append("over_random")
        if self.counts["paraphrases"]:
            shown += ["positive", "accuracy", "threshold"]
            areas.append("roc_auc")
        deviations = [f"{group}_std" for group in ("random", "positive") if group in shown]
        means = ("margin", "near_miss", "near_miss_std", "cosine_margin", "cosine_near_miss", *areas)
        every = [f"{mean}{family}" for mean in means for family in named]
        self.shown_metrics = tuple(shown)
        self.default_metrics = tuple(dict.fromkeys([*shown, *every, *deviations]))

    def describe(self, reference: int | None = None) -> str:
        families, sizes = np.unique(self._families, return_counts=True)
        named = ", ".join(f"{size:,} {family}" for family, size in zip(families, sizes, strict=True) if family)
        line = f"{self.name}: {self.counts['near_misses']:,} near-misses" + (f" ({named})" if named else "")
        if reference is not None:
            return f"{line}, against {reference:,} positives of the reference"
        if self.counts["paraphrases"]:
            return f"{line}, against {self.counts['paraphrases']:,} positives"
        random = self.counts["random_pairs"]
        return f"{line}; every positive is its anchor: no threshold, but {random:,} random pairs (COMP, Figure 1)"

    def staged(self, reference: Sequence[tuple[str, str]] = ()) -> Verification:
        task = Verification(self.name, self.examples, reference)
        task.spec = self.spec
        return task

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """Means with each near-miss's value; areas that can be computed anew on pairs drawn; threshold."""
        (rows,) = embeddings

        def scores(first: np.ndarray, second: np.ndarray, by: Similarity = similarity) -> np.ndarray:
            return pair_scores(by, rows[first], rows[second]).astype(np.float64)

        near = scores(self._anchor, self._near_miss)
        random, paraphrases = scores(*self._random), scores(*self._paraphrases)
        cosine = similarity_functions.registry.create("cosine")
        near_cosine = scores(self._anchor, self._near_miss, cosine)
        scored = {
            **self._by_family("near_miss", near),
            "random": {f"random {i}": value for i, value in enumerate(random.tolist(), 1)},
            "positive": {f"positive {i}": value for i, value in enumerate(paraphrases.tolist(), 1)},
        }
        compared = self._by_family("margin", scores(self._anchor, self._positive) - near)
        of_cosine = {
            **self._by_family("cosine_margin", scores(self._anchor, self._positive, cosine) - near_cosine),
            **self._by_family("cosine_near_miss", near_cosine),
        }
        metrics = {}
        for group, values in scored.items():
            if values:
                name, slash, family = group.partition("/")
                metrics[f"{name}_std{slash}{family}"] = float(np.std(list(values.values())))
        own_scale = (*compared, *scored, *metrics, "threshold")
        again: dict[str, Resampled] = {}
        for slash_family, own in self._near_by_family(near).items():
            if len(random):
                again[f"over_random{slash_family}"] = resampled_groups(roc_auc, own, random)
            if len(paraphrases):
                again[f"roc_auc{slash_family}"] = resampled_groups(roc_auc, paraphrases, own)
        if len(paraphrases):
            metrics["threshold"], metrics["accuracy"] = best_threshold(paraphrases, near)
        return Measured(metrics, {**compared, **scored, **of_cosine}, again, own_scale=own_scale)

    def _near_by_family(self, near: np.ndarray) -> dict[str, np.ndarray]:
        """Scores of all near-misses ``[n]`` under "", and those of each family under "/family"."""
        return {"": near, **{f"/{family}": near[self._families == family] for family in self.families}}

    def _by_family(self, name: str, values: np.ndarray) -> dict[str, dict[str, float]]:
        """``values`` ``[n]`` of all near-misses by id, and of each family as ``name/family``."""
        scores = {name: dict(zip(self._ids, values.tolist(), strict=True))}
        for identifier, family, value in zip(self._ids, self._families.tolist(), values.tolist(), strict=True):
            if family:
                scores.setdefault(f"{name}/{family}", {})[identifier] = value
        return scores


class Verification(NearMisses):
    """The same pairs as the test of a gate that should let positives through and stop near-misses (COMP, Evaluation 2).

    Reported are the mean scores of near-misses and of positives, the area under the ROC curve of all positives against
    the near-misses, and ``false_accept@95``: the share of near-misses at or above the score that 95% of all positives
    reach; each also per family, for one gate stands before all families. Lower is better of ``near_miss`` and
    ``false_accept@95``.

    Positives are the ``reference`` pairs, if there are any, else the file's positives that are other texts than their
    anchors, else the anchors themselves (COMP's triplets): these last ask only whether identity is told from
    near-misses, which cosine does by being 1.
    """

    def __init__(
        self, name: str, examples: Sequence[LabelledNearMiss], reference: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._reference = reference
        super().__init__(name, examples)

    def _find_paraphrases(self, distinct: DistinctTexts) -> np.ndarray:
        if self._reference:
            first, second = zip(*self._reference, strict=True)
            return np.stack([distinct.add(first), distinct.add(second)])
        pairs = super()._find_paraphrases(distinct)
        anchors = np.unique(self._anchor)
        self._identical = not pairs.shape[1]
        return np.stack([anchors, anchors]) if self._identical else pairs

    def _name_metrics(self, families: Sequence[str]) -> None:
        self.main_metric = "roc_auc"
        self.families = list(families)
        named = ["", *(f"/{family}" for family in families)]
        every = [f"{name}{family}" for family in named for name in ("roc_auc", FALSE_ACCEPTS, "near_miss")]
        every += [f"positive{family}" for family in (named[:1] if self._reference else named)]
        self.shown_metrics = self.default_metrics = tuple(every)

    def describe(self, reference: int | None = None) -> str:
        line = super().describe(len(self._reference) if self._reference else reference)
        if self._reference:
            return line
        return f"{line}: the anchors themselves; `reference=` gives other texts" if self._identical else line

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """The measures of the pooled score."""
        (rows,) = embeddings
        return self._measured(lambda first, second: pair_scores(similarity, rows[first], rows[second]))

    def evaluate(self, request: Request) -> list[Result]:
        """The result of the encoder, or of whatever scores pairs; a text of each pair is the query then."""
        scorer = request.reranker
        if scorer is None:
            return super().evaluate(request)

        def scores(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return scorer.score_pairs([self.texts[i] for i in first], [self.texts[i] for i in second])

        return [self.result(scorer.spec, OWN_SIMILARITY, request.names(self), self._measured(scores))]

    def _measured(self, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Measured:
        """All measures, given the scores float32 ``[n]`` of the texts at one side's positions with the other's."""
        groups = [np.stack([self._anchor, self._near_miss]), self._paraphrases]
        groups += [] if self._reference else [np.stack([self._anchor, self._positive])]
        pairs, place = np.unique(np.concatenate(groups, axis=1), axis=1, return_inverse=True)
        scores = score(*pairs).astype(np.float64)[place.reshape(-1)]
        near, positive, *own = np.split(scores, np.cumsum([group.shape[1] for group in groups])[:-1])
        per_pair = self._by_family("near_miss", near)
        if own:
            per_pair |= self._by_family("positive", own[0])
        per_pair["positive"] = {f"positive {i}": value for i, value in enumerate(positive.tolist(), 1)}
        again = {
            f"{name}{slash_family}": resampled_groups(statistic, positive, own_near)
            for slash_family, own_near in self._near_by_family(near).items()
            for name, statistic in (("roc_auc", roc_auc), (FALSE_ACCEPTS, false_accept_rate))
        }
        return Measured({}, per_pair, again, own_scale=tuple(per_pair))


def read_reference(spec: str, count: int) -> list[Pair]:
    """Pairs that mean the same, in the grammar of training data: at most ``count``, at random with a fixed seed. Raises
    :class:`DataError` for fewer than two."""
    pairs = [record for record in read_source(spec, "pairs").records if isinstance(record, Pair)]
    if len(pairs) < 2:
        raise DataError(spec, f"{len(pairs)} pairs of an anchor and a positive; expected two or more")
    rows = np.random.default_rng(SEED).permutation(len(pairs))[:count]
    return [pairs[i] for i in rows]


def _other_anchors(anchors: np.ndarray) -> np.ndarray:
    """Each distinct anchor with another one, at random by a fixed seed: ``[2, n]``, or ``[2, 0]`` of a single one."""
    order = np.random.default_rng(SEED).permutation(np.unique(anchors))
    couples = np.stack([order, np.roll(order, 1)])
    return couples if len(order) > 1 else couples[:, :0]


def resampled_groups(
    statistic: Callable[[np.ndarray, np.ndarray], float], positive: np.ndarray, negative: np.ndarray
) -> Resampled:
    """``statistic(positive, negative)`` over the items of both groups, so that it can be computed anew on items
    drawn."""

    def value(rows: np.ndarray) -> float:
        drawn = rows < len(positive)
        return statistic(positive[rows[drawn]], negative[rows[~drawn] - len(positive)])

    return Resampled(len(positive) + len(negative), value)
