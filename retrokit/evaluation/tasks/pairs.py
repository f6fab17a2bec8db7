"""Tasks of pairs of texts: near-misses, duplicates, and semantic textual similarity.

Near-misses (COMP, 3.2, Figures 1 and 3): mean score and SD of (anchor, near-miss), of all and per family, their mean
cosine, which is COMP's figure (lower is better), and ``margin``, the mean of score(anchor, positive) − score(anchor,
near-miss). Such means are on the scale of the scores: they are shown and not compared. The main metric is comparable:
ROC-AUC, if positives are other texts than their anchors; ``cosine_margin``, if every positive is the anchor itself, as
in COMP's triplets (s, s, s̃). ``over_random`` (Figure 1) is the share of (near-miss, random pair of anchors)
couples in which the near-miss scores higher. :class:`Verification` is the same test of a gate (COMP, Evaluation 2), for
anything that scores pairs.

Duplicates: pairs labelled 1 and 0. STS: Spearman's and Pearson's correlation with people's scores under the encoder's
own similarity, and under cosine, as MTEB reports (SFS, Table 2; MAG, Table 5).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.core.errors import DataError, UsageError
from retrokit.data.labelled import LabelledNearMiss, LabelledPair, read_labelled_pairs, short_name
from retrokit.data.overlap import JudgedTexts
from retrokit.data.pairs import read_source
from retrokit.data.tables import read_rows
from retrokit.data.training_rows import WITHOUT_NAMES, Pair, ScoredPair, iterate_records
from retrokit.evaluation.comparison.near_misses import FALSE_ACCEPTS
from retrokit.evaluation.result import Resampled, Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask, moderate
from retrokit.metrics.separation import best_threshold, false_accept_rate, roc_auc
from retrokit.ranking.retrieval.base import OWN_SIMILARITY
from retrokit.ranking.retrieval.embeddings import DistinctTexts, pair_scores
from retrokit.similarities.base import Similarity

SEED = 42


class NearMisses(SymmetricTask):
    """Scores of near-misses and random pairs, and of positives if they are other texts than their anchors.

    Attributes:
        paraphrases: the pairs that mean the same, as positions of their texts: ``[2, n]``.
        random_pairs: each distinct anchor with another, likewise.
    """

    def __init__(self, name: str, examples: Sequence[LabelledNearMiss]) -> None:
        self.name = name
        self.examples = examples
        distinct = DistinctTexts()
        self._anchor = distinct.add(example.anchor for example in examples)
        self._positive = distinct.add(example.positive for example in examples)
        self._near_miss = distinct.add(example.near_miss for example in examples)
        self._ids = [example.id for example in examples]
        families = np.array([example.family for example in examples])
        self.families = [family for family in sorted(set(families.tolist())) if family]
        self._rows = {"": np.arange(len(examples))}  # of all near-misses, and of each family
        self._rows |= {f"/{family}": np.flatnonzero(families == family) for family in self.families}
        # each distinct anchor with another one, at random by a fixed seed: [2, n], or [2, 0] of a single one
        order = np.random.default_rng(SEED).permutation(np.unique(self._anchor))
        self.random_pairs = np.stack([order, np.roll(order, 1)])[:, : len(order) if len(order) > 1 else 0]
        self.paraphrases = self._find_paraphrases(distinct)
        counts = {
            "near_misses": len(examples),
            "paraphrases": self.paraphrases.shape[1],
            "random_pairs": self.random_pairs.shape[1],
            "texts": len(distinct.texts),
        }
        super().__init__(distinct.texts, counts)
        self._name_metrics()

    def _find_paraphrases(self, distinct: DistinctTexts) -> np.ndarray:
        """Pairs that mean the same, as positions of their texts: ``[2, n]``."""
        pairs = np.unique(np.stack([self._anchor, self._positive]), axis=1)
        return pairs[:, pairs[0] != pairs[1]]

    def _name_metrics(self) -> None:
        self.main_metric = "roc_auc" if self.counts["paraphrases"] else "cosine_margin"
        shown = [self.main_metric, "margin", *(f"near_miss{family}" for family in self._rows)]
        means, deviations = ["margin", "near_miss", "near_miss_std", "cosine_margin", "cosine_near_miss"], []
        if self.counts["random_pairs"]:
            shown += ["random", "over_random"]
            means.append("over_random")
            deviations.append("random_std")
        if self.counts["paraphrases"]:
            shown += ["positive", "accuracy", "threshold"]
            means.append("roc_auc")
            deviations.append("positive_std")
        every = [f"{mean}{family}" for mean in means for family in self._rows]
        self.shown_metrics = tuple(shown)
        self.default_metrics = tuple(dict.fromkeys([*shown, *every, *deviations]))

    def describe(self, reference: int | None = None) -> str:
        named = ", ".join(f"{len(self._rows[f'/{family}']):,} {family}" for family in self.families)
        line = f"{self.name}: {self.counts['near_misses']:,} near-misses" + (f" ({named})" if named else "")
        if reference is not None:
            return f"{line}, against {reference:,} paraphrases"
        if self.counts["paraphrases"]:
            return f"{line}, against {self.counts['paraphrases']:,} positives"
        random = self.counts["random_pairs"]
        return f"{line}; every positive is its anchor: no threshold, but {random:,} random pairs (COMP, Figure 1)"

    def measure(
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """Means with each near-miss's value; ROC-AUC, resampled over pairs; threshold."""

        def scores(first: np.ndarray, second: np.ndarray, by: Similarity = similarity) -> np.ndarray:
            return pair_scores(by, embeddings, embeddings, first, second).astype(np.float64)

        near = scores(self._anchor, self._near_miss)
        random, paraphrases = scores(*self.random_pairs), scores(*self.paraphrases)
        cosine = similarity_functions.registry.create("cosine")
        near_cosine = scores(self._anchor, self._near_miss, cosine)
        scored = self._by_family("near_miss", near) | _numbered("random", random) | _numbered("positive", paraphrases)
        compared = self._by_family("margin", scores(self._anchor, self._positive) - near)
        of_cosine = self._by_family("cosine_margin", scores(self._anchor, self._positive, cosine) - near_cosine)
        of_cosine |= self._by_family("cosine_near_miss", near_cosine)
        metrics = {}
        for group, values in scored.items():
            if values:
                name, slash, family = group.partition("/")
                metrics[f"{name}_std{slash}{family}"] = float(np.std(list(values.values())))
        own_scale = (*compared, *scored, *metrics, "threshold")
        areas: dict[str, Resampled] = {}
        for family, of_family in self._rows.items():
            if len(random):
                areas[f"over_random{family}"] = resampled_groups(roc_auc, near[of_family], random)
            if len(paraphrases):
                areas[f"roc_auc{family}"] = resampled_groups(roc_auc, paraphrases, near[of_family])
        if len(paraphrases):
            metrics["threshold"], metrics["accuracy"] = best_threshold(paraphrases, near)
        return Measured(metrics, compared | scored | of_cosine, areas, own_scale=own_scale)

    def _by_family(self, name: str, values: np.ndarray) -> dict[str, dict[str, float]]:
        """``values`` ``[n]`` of all near-misses by id, and of each family as ``name/family``."""
        return {
            f"{name}{family}": {self._ids[row]: value for row, value in zip(rows, values[rows].tolist(), strict=True)}
            for family, rows in self._rows.items()
        }


class Verification(NearMisses):
    """The same pairs as the test of a gate that should accept positives and reject near-misses (COMP, Evaluation 2).

    Reported are the mean scores of near-misses and of positives, the ROC-AUC of all positives against the near-misses,
    and ``false_accept@95``: the share of near-misses at or above the score that 95% of all positives reach; each also
    per family, because one gate serves all families. Lower is better for ``near_miss`` and ``false_accept@95``.

    Positives are the ``reference`` pairs, if there are any, else the file's positives that are other texts than their
    anchors, else the anchors themselves (COMP's triplets): these only test identity against near-misses.
    """

    takes_rerankers = True

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

    def _name_metrics(self) -> None:
        self.main_metric = "roc_auc"
        every = [f"{name}{family}" for family in self._rows for name in ("roc_auc", FALSE_ACCEPTS, "near_miss")]
        every += ["positive"] if self._reference else [f"positive{family}" for family in self._rows]
        self.shown_metrics = self.default_metrics = tuple(every)

    def describe(self, reference: int | None = None) -> str:
        line = super().describe(len(self._reference) if self._reference else reference)
        if self._reference or not self._identical:
            return line
        return f"{line}: the anchors themselves; paraphrases= gives other texts"

    def measure(
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """The measures of the pooled score."""
        return self._measured(lambda first, second: pair_scores(similarity, embeddings, embeddings, first, second))

    def evaluate(self, request: Request) -> list[Result]:
        """The result of the encoder, or of a reranker; the first text of each pair is the query then."""
        reranker = request.reranker
        if reranker is None:
            return super().evaluate(request)

        def scores(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            return reranker.score_pairs([self.texts[i] for i in first], [self.texts[i] for i in second])

        measured = self._measured(scores)
        about = reranker.configuration()
        return [self.result(reranker.spec, OWN_SIMILARITY, request.names(self), measured, configuration=about)]

    def _measured(self, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Measured:
        """All measures, given a function of the positions of two texts each: scores float32 ``[n]``."""
        groups = [np.stack([self._anchor, self._near_miss]), self.paraphrases]
        groups += [] if self._reference else [np.stack([self._anchor, self._positive])]
        pairs, place = np.unique(np.concatenate(groups, axis=1), axis=1, return_inverse=True)
        scores = score(*pairs).astype(np.float64)[place.reshape(-1)]
        near, positive, *own = np.split(scores, np.cumsum([group.shape[1] for group in groups])[:-1])
        per_pair = self._by_family("near_miss", near) | (self._by_family("positive", own[0]) if own else {})
        per_pair |= _numbered("positive", positive)
        areas = {
            f"{name}{family}": resampled_groups(statistic, positive, near[rows])
            for family, rows in self._rows.items()
            for name, statistic in (("roc_auc", roc_auc), (FALSE_ACCEPTS, false_accept_rate))
        }
        return Measured({}, per_pair, areas, own_scale=tuple(per_pair))


def read_reference(spec: str, count: int) -> list[Pair]:
    """Pairs that mean the same, in the grammar of training data: at most ``count``, at random with a fixed seed. Raises
    :class:`DataError` for fewer than two."""
    pairs = [record for record in read_source(spec, "pairs").records if isinstance(record, Pair)]
    if len(pairs) < 2:
        raise DataError(spec, f"{len(pairs)} pairs of an anchor and a positive; expected two or more")
    rows = np.random.default_rng(SEED).permutation(len(pairs))[:count]
    return [pairs[i] for i in rows]


def _numbered(name: str, values: np.ndarray) -> dict[str, dict[str, float]]:
    return {name: {f"{name} {number}": value for number, value in enumerate(values.tolist(), 1)}}


def resampled_groups(
    statistic: Callable[[np.ndarray, np.ndarray], float], positive: np.ndarray, negative: np.ndarray
) -> Resampled:
    """``statistic(positive, negative)``, resampled over the items of both groups."""

    def value(rows: np.ndarray) -> float:
        drawn = rows < len(positive)
        return statistic(positive[rows[drawn]], negative[rows[~drawn] - len(positive)])

    return Resampled(len(positive) + len(negative), value)


class DuplicatePairs(SymmetricTask):
    """Separation of the pairs labelled 1 from those labelled 0 by their score, and the scores of both."""

    main_metric = "roc_auc"
    shown_metrics = ("roc_auc", "average_precision", "accuracy", "threshold", "positive", "negative", "cosine_roc_auc")
    default_metrics = (*shown_metrics, "positive_std", "negative_std")

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
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """ROC-AUC, resampled over pairs, the threshold, and the scores of both groups."""
        from sklearn.metrics import average_precision_score

        cosine = similarity_functions.registry.create("cosine")
        scores = pair_scores(similarity, embeddings, embeddings, self._first, self._second).astype(np.float64)
        cosines = pair_scores(cosine, embeddings, embeddings, self._first, self._second)
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


def pairs(
    path: str, family: str, gate: bool = False, paraphrases: str | None = None, max_paraphrases: int = 10_000
) -> NearMisses | DuplicatePairs:
    """The task of a file of near-misses or of labelled pairs; with ``gate`` or ``paraphrases``, of near-misses as the
    test of a gate.

    Raises:
        UsageError, DataError: as for :func:`retrokit.data.labelled.read_labelled_pairs`, for a gate on labelled pairs,
            or for fewer than two paraphrases.
    """
    seen = hashlib.sha256()
    examples = read_labelled_pairs(path, seen.update, family)
    name = short_name(path)
    task: NearMisses | DuplicatePairs
    if isinstance(examples[0], LabelledPair):
        if gate or paraphrases is not None:
            raise UsageError(f"pairs:{path}: has labelled pairs; a gate is tested with near-misses")
        task = DuplicatePairs(name, examples)
    elif paraphrases is not None:
        reference = [(pair.anchor, pair.positive) for pair in read_reference(paraphrases, max_paraphrases)]
        seen.update(json.dumps(reference).encode())
        task = Verification(name, examples, reference)
    elif gate:
        task = Verification(name, examples)
    else:
        task = NearMisses(name, examples)
    task.data_digest = f"sha256:{seen.hexdigest()}"
    return task


class SentenceSimilarity(SymmetricTask):
    """Correlation of scores with people's, over pairs of sentences."""

    main_metric = "spearman"
    shown_metrics = ("spearman", "pearson", "cosine_spearman", "cosine_pearson")
    default_metrics = shown_metrics

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
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """The correlations. Raises :class:`DataError` if all pairs score alike, which leaves them undefined."""
        gold = self._gold
        correlations: dict[str, Resampled] = {}
        for name in names:
            by_cosine = name.startswith("cosine_")
            used = similarity_functions.registry.create("cosine") if by_cosine else similarity
            scores = pair_scores(used, embeddings, embeddings, self._first, self._second)
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
        raise DataError(path, f"{problem}; expected scores that differ")
    task = SentenceSimilarity(short_name(path), pairs)
    task.data_digest = f"sha256:{seen.hexdigest()}"
    return task
