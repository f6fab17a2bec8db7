"""Does the encoder see a minimal edit that changes the meaning? Distributions of scores (COMP, Figure 1; 3.2).

Near-misses of each family are compared with pairs that mean the same and with random pairs. Pairs that mean the same
are paraphrases, such as questions with their answers (COMP takes NQ's), or the file's own positives if they differ from
their anchors. Without either there are only random pairs of anchors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from retrokit import evaluation, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet, grouped
from retrokit.data.training_rows import Pair
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.pairs import NearMisses, read_reference
from retrokit.metrics.separation import roc_auc
from retrokit.probing.base import Findings, encoders_of, parse_names
from retrokit.probing.settings import NearMissProbeSettings
from retrokit.ranking.reranking.base import Reranker
from retrokit.ranking.reranking.dense import DenseReranker
from retrokit.similarities.base import Similarity

ALL = "all"  # the row of all families
POSITIVES, RANDOM = "positives", "random pairs"
BINS = 40
SIDE_BY_SIDE = 3  # encoders that fit next to each other in a picture


@dataclass(frozen=True)
class Distribution:
    """Scores of one group of pairs: a family of near-misses, ``positives``, or ``random pairs``."""

    encoder: str
    similarity: str
    group: str
    scores: np.ndarray = field(repr=False)

    def summary(self) -> dict[str, Any]:
        """Count, mean, population deviation and quartiles."""
        low, middle, high = np.quantile(self.scores, [0.25, 0.5, 0.75]).tolist()
        return {
            "encoder": self.encoder,
            "similarity": self.similarity,
            "group": self.group,
            "pairs": len(self.scores),
            "mean": float(self.scores.mean()),
            "deviation": float(self.scores.std()),
            "lower_quartile": low,
            "median": middle,
            "upper_quartile": high,
        }


@dataclass(frozen=True)
class Blindness:
    """How hard the near-misses of ``family`` (``all``: of every family) are to separate from pairs that mean the same.

    Attributes:
        near_misses, mean, deviation: their number, mean score (lower is better) and population SD.
        auc: ROC-AUC, share of (positive, near-miss) couples in which the positive, of any family, scores higher; 0.5 is
            blind. ``None`` without positives.
        above_paraphrase: share of near-misses that score above the paraphrase of the same text, if there are any.
        over_random: share of (near-miss, random pair) couples in which the near-miss scores higher, if there are any.
    """

    encoder: str
    similarity: str
    family: str
    near_misses: int
    mean: float
    deviation: float
    auc: float | None
    above_paraphrase: float | None
    over_random: float | None


@dataclass(frozen=True)
class NearMissProbe(Findings):
    """What ``probe near-miss`` measured."""

    pictures: ClassVar = {"near-miss": "Distributions of scores: near-misses, positives, random pairs"}

    data: str
    reference: str | None
    families: list[Blindness]
    distributions: list[Distribution]

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"data": self.data, "reference": self.reference, **self._summaries()}
        for row, of in zip(plain["distributions"], self.distributions, strict=True):
            # with all that single precision tells, and no digit more
            row["scores"] = [float(score) for score in of.scores.astype(np.float32).astype(str)]
        return {**plain, "conclusion": self.conclusion}

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The data as tables, by name; ``scores`` has those of every pair."""
        scores = [
            {"encoder": row.encoder, "similarity": row.similarity, "group": row.group, "score": score}
            for row in self.distributions
            for score in row.scores.tolist()
        ]
        return {**self._summaries(), "scores": scores}

    def _summaries(self) -> dict[str, list[dict[str, Any]]]:
        families = [asdict(row) for row in self.families]
        return {"families": families, "distributions": [row.summary() for row in self.distributions]}

    @property
    def conclusion(self) -> str:
        parts = []
        for encoder, rows in grouped(self.families, "encoder").items():
            worst = max([row for row in rows if row.family != ALL] or rows, key=lambda row: row.mean)
            shares = "".join(f", {title} {share}" for title, share in _shares(worst).items() if share)
            parts.append(f"{encoder}: hardest near-misses {worst.family}, mean score {worst.mean:.3f}{shares}")
        return "; ".join(parts) + ". ROC-AUC 0.5 is blind."

    def sheets(self) -> list[Sheet]:
        spreads = {(row.encoder, row.group): row.summary() for row in self.distributions}
        shares = [title for title in _SHARES if any(_shares(row)[title] for row in self.families)]
        no_shares = [""] * len(shares)
        cells: list[list[str]] = []
        for encoder, rows in grouped(self.families, "encoder").items():
            for row in rows:
                mean = f"{row.mean:.3f} ± {row.deviation:.3f}"
                compared = [_shares(row)[title] for title in shares]
                cells.append([encoder, row.similarity, row.family, f"{row.near_misses:,}", mean, *compared])
            for group in (POSITIVES, RANDOM):
                if spread := spreads.get((encoder, group)):
                    mean = f"{spread['mean']:.3f} ± {spread['deviation']:.3f}"
                    cells.append([encoder, rows[0].similarity, group, f"{spread['pairs']:,}", mean, *no_shares])
            cells.append([])
        columns = ["encoder", "similarity", "group", "pairs", "mean ± SD", *shares]
        notes = []
        if "ROC-AUC" in shares:
            notes.append(
                "ROC-AUC: share of couples in which a positive, of any family, scores above a near-miss of this one"
            )
        return [Sheet(f"scores of near-misses: {self.data}", columns, 3, cells, notes)]

    def plot(self, folder: str | Path) -> list[Path]:
        """COMP, Figure 1: a row per family, a column per encoder; near-misses over positives and random pairs."""
        from retrokit.core.figures import BLUE, GREY, PANELS, RED, fitting, legend_above, panels, save, shown

        encoders = list(dict.fromkeys(row.encoder for row in self.distributions))
        encoders = fitting(encoders, SIDE_BY_SIDE, "encoders", "near-miss")
        groups = dict.fromkeys(row.group for row in self.distributions if row.group not in (POSITIVES, RANDOM))
        families = fitting(list(groups), PANELS, "families", "near-miss")
        figure, every_axes = panels(len(families) * len(encoders), 1.75, len(encoders))
        scores = {(row.encoder, row.group): row.scores for row in self.distributions}
        lowest, highest = np.quantile(np.concatenate([*scores.values()]), [0.0005, 0.9995]).tolist()
        room = 1e-3 * max(abs(lowest), abs(highest), 1e-3) if highest == lowest else 0.0  # if all scores are equal
        bins = np.linspace(lowest - room, np.nextafter(highest + room, np.inf), BINS)
        for axes, (family, encoder) in zip(every_axes, product(families, encoders), strict=True):
            for group, color, style in ((RANDOM, GREY, ":"), (POSITIVES, BLUE, "--"), (family, RED, "-")):
                if (encoder, group) in scores:
                    counted, _ = np.histogram(np.clip(scores[encoder, group], bins[0], bins[-1]), bins)
                    heights = counted / counted.max()  # near-misses crowd at the top: a common scale flattens the rest
                    label = "near-misses" if group == family else group
                    axes.stairs(heights, bins, fill=True, color=color, alpha=0.18)
                    axes.stairs(heights, bins, color=color, linestyle=style, linewidth=1.4, label=label)
            axes.set_yticks([])
            name = "" if family == ALL else f"{shown(family, 20)}, "
            axes.set_title(f"{name}{shown(encoder, 34)}", fontsize=9)
            axes.set_ylabel("pairs, peak = 1", fontsize=9)
        for axes in every_axes[-len(encoders) :]:
            axes.set_xlabel(self.families[0].similarity, fontsize=9)
        legend_above(figure, every_axes[0])
        return save(figure, folder, "near-miss")


_SHARES = {
    "ROC-AUC": ("auc", ".3f"),
    "above paraphrase": ("above_paraphrase", ".1%"),
    "above random": ("over_random", ".1%"),
}
"""The columns that compare near-misses with others, each with its field and format."""


def _shares(row: Blindness) -> dict[str, str]:
    """The cells of those columns."""
    shares = {title: (getattr(row, name), form) for title, (name, form) in _SHARES.items()}
    return {title: "" if share is None else f"{share:{form}}" for title, (share, form) in shares.items()}


@taking(NearMissProbeSettings)
def probe_near_misses(settings: NearMissProbeSettings) -> NearMissProbe:
    """Score near-misses, pairs that mean the same, and random pairs, with every encoder.

    Raises:
        UsageError: an unknown name, a similarity that does not fit, or a file without near-misses.
        DataError: a wrong line.
    """
    others = (similarities.registry, settings.sim), (evaluation.registry, settings.on)
    _, source = parse_names(settings.encoders, *others)
    task = evaluation.registry.create(source) if source.name == "pairs" else None
    if not isinstance(task, NearMisses):
        raise UsageError(f"{source} contains no near-misses: expected pairs:FILE, which augment near-misses writes")
    pairs = read_reference(settings.paraphrases, settings.max_paraphrases) if settings.paraphrases is not None else None
    notice(task.describe(None if pairs is None else len(pairs)))
    probe = NearMissProbe(task.name, settings.paraphrases, [], [])
    for encoder in encoders_of(settings):
        similarity: Similarity = similarities.registry.create(settings.sim)
        (result,) = task.evaluate(Request(encoder, [similarity], precision=settings.precision))
        groups = _groups(result.per_query)
        if pairs is not None:
            groups |= _reference_scores(pairs, DenseReranker(encoder, similarity, settings.precision))
        above = _above_paraphrase(task, result.per_query["margin"])
        families = [name for name in groups if name not in (POSITIVES, RANDOM)]  # all of them together first
        for family in families:
            probe.families.append(_blindness(encoder.spec, similarity.spec, family, groups, above.get(family)))
        for name, scores in groups.items():
            if len(scores) and (name != ALL or len(families) <= 2):
                probe.distributions.append(Distribution(encoder.spec, similarity.spec, name, scores))
    return probe


def _groups(per_query: Mapping[str, Mapping[str, float]]) -> dict[str, np.ndarray]:
    """Scores by group: all near-misses, those of each family, positives, random pairs."""
    groups = {ALL: _array(per_query["near_miss"])}
    for name, scores in per_query.items():
        if name.startswith("near_miss/") and scores:
            groups[_group_of(name.partition("/")[2])] = _array(scores)
    return groups | {POSITIVES: _array(per_query.get("positive", {})), RANDOM: _array(per_query.get("random", {}))}


def _group_of(family: str) -> str:
    """A family's name next to the other groups."""
    return f"{family} (family)" if family in (ALL, POSITIVES, RANDOM) else family


def _array(scores: Mapping[str, float]) -> np.ndarray:
    return np.array(list(scores.values()), dtype=np.float64)


def _above_paraphrase(task: NearMisses, margins: Mapping[str, float]) -> dict[str, float]:
    """The share of each family's near-misses that score above the paraphrase, where there are paraphrases."""
    above: dict[str, list[bool]] = {}
    for example in task.examples:
        if example.positive != example.anchor:
            for group in {ALL, _group_of(example.family) if example.family else ALL}:
                above.setdefault(group, []).append(margins[example.id] < 0)
    return {group: float(np.mean(shares)) for group, shares in above.items()}


def _blindness(
    encoder: str, similarity: str, family: str, groups: Mapping[str, np.ndarray], above: float | None
) -> Blindness:
    scores, positives, random = groups[family], groups[POSITIVES], groups[RANDOM]
    return Blindness(
        encoder=encoder,
        similarity=similarity,
        family=family,
        near_misses=len(scores),
        mean=float(scores.mean()),
        deviation=float(scores.std()),
        auc=roc_auc(positives, scores) if len(positives) else None,
        above_paraphrase=above,
        over_random=roc_auc(scores, random) if len(random) else None,
    )


def _reference_scores(pairs: Sequence[Pair], reranker: Reranker) -> dict[str, np.ndarray]:
    """Scores of each anchor (a query) with its positive (a document), and with that of the next pair, unless that is
    one of its own as well."""
    couples = [(pair.anchor, pair.positive) for pair in pairs]
    anchors, positives = zip(*couples, strict=True)
    turned = zip(anchors, (*positives[-1:], *positives[:-1]), strict=True)
    own = set(couples)
    foreign = [couple for couple in turned if couple not in own]
    return {POSITIVES: _couple_scores(reranker, couples), RANDOM: _couple_scores(reranker, foreign)}


def _couple_scores(reranker: Reranker, couples: Sequence[tuple[str, str]]) -> np.ndarray:
    queries, documents = [query for query, _ in couples], [document for _, document in couples]
    return reranker.score_pairs(queries, documents).astype(np.float64)
