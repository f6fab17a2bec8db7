"""Does the encoder see a minimal edit that changes the meaning? Distributions of scores (COMP, Figure 1; 3.2).

Near-misses of each family are set against pairs that mean the same and against random pairs. Which pairs mean the same:
reference pairs, such as questions with their answers (COMP takes NQ's), or the file's own positives where they are
other texts than their anchors. Without either there are random pairs of anchors alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from retrokit import evaluation, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet, grouped
from retrokit.data.training_rows import Pair
from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.pairs import NearMisses, read_reference
from retrokit.metrics.separation import roc_auc
from retrokit.probing.base import Findings, encoders_of, parse_names
from retrokit.probing.settings import NearMissProbeSettings
from retrokit.ranking.retrieval.embeddings import DistinctTexts, pair_scores
from retrokit.similarities.base import Similarity

BLIND = 0.5  # the AUC of a coin
ALL = "all"  # the row of all families
POSITIVES, RANDOM = "positives", "random pairs"
BINS = 40
SIDE_BY_SIDE = 3  # encoders that fit next to each other in a picture
COLUMNS = 4  # families that do


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
    """How hard the near-misses of ``family`` (``all``: of every family) are to tell from pairs that mean the same.

    Attributes:
        near_misses: how many.
        mean: their mean score; lower is better.
        deviation: population standard deviation of their scores.
        auc: share of (positive, near-miss) couples in which the positive scores higher; 0.5 is blind, below it the
            encoder prefers the near-miss. Of a family its near-misses, and all positives, whatever their family: one
            threshold stands before all families. ``None`` without positives.
        above_paraphrase: share of near-misses that score above the paraphrase of the same text. ``None`` where the
            file has no paraphrases.
        over_random: share of (near-miss, random pair) couples in which the near-miss scores higher. ``None`` without
            random pairs.
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
        """The data as tables, by name; ``scores`` holds every pair's."""
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
        encoder = self.families[0].encoder
        own = [row for row in self.families if row.encoder == encoder]
        of_families = [row for row in own if row.family != ALL] or own
        worst = max(of_families, key=lambda row: row.mean)
        named = f"{worst.family} near-misses" if worst.family != ALL else "near-misses"
        parts = [f"{encoder} is blindest to {named}: mean score {worst.mean:.3f}"]
        if worst.auc is not None:
            parts.append(f"a positive scores higher in {worst.auc:.0%} of couples (50% is blind)")
        if worst.above_paraphrase is not None:
            parts.append(f"{worst.above_paraphrase:.0%} score above the paraphrase")
        if worst.auc is None and worst.over_random is not None:
            parts.append(f"{worst.over_random:.0%} above random pairs")
        overall = [row for row in self.families if row.family == ALL]
        if len(overall) > 1 and overall[0].auc is not None:
            best = max(overall, key=lambda row: row.auc or 0.0)
            if (best.auc or 0.0) > BLIND:
                parts.append(f"of {len(overall)} encoders, {best.encoder} tells them apart best (AUC {best.auc:.3f})")
            else:
                parts.append(f"none of the {len(overall)} encoders tells them from positives (best AUC {best.auc:.3f})")
        return "; ".join(parts) + "."

    def sheets(self) -> list[Sheet]:
        shares = (
            ("AUC", "auc", ".3f"),
            ("above paraphrase", "above_paraphrase", ".1%"),
            ("above random", "over_random", ".1%"),
        )
        known = [share for share in shares if any(getattr(row, share[1]) is not None for row in self.families)]
        spreads = {(row.encoder, row.group): row.summary() for row in self.distributions}
        rows: list[list[str]] = []
        for encoder, own in grouped(self.families, "encoder").items():
            for row in own:
                mean = f"{row.mean:.3f} ± {row.deviation:.3f}"
                values = [(getattr(row, name), form) for _, name, form in known]
                cells = ["" if value is None else f"{value:{form}}" for value, form in values]
                rows.append([encoder, row.similarity, row.family, f"{row.near_misses:,}", mean, *cells])
            for group in (POSITIVES, RANDOM):
                if spread := spreads.get((encoder, group)):
                    mean = f"{spread['mean']:.3f} ± {spread['deviation']:.3f}"
                    rows.append([encoder, own[0].similarity, group, f"{spread['pairs']:,}", mean, *[""] * len(known)])
            rows.append([])
        columns = ["encoder", "similarity", "group", "pairs", "mean ± deviation", *(title for title, _, _ in known)]
        note = "AUC: share of couples in which a positive, of any family, scores above a near-miss of this one"
        missing = "no positives: every positive is its anchor; --reference gives some"
        return [Sheet(f"scores of near-misses: {self.data}", columns, 3, rows, note if "AUC" in columns else missing)]

    def plot(self, folder: str | Path) -> list[Path]:
        """COMP, Figure 1: a panel per family, the encoders' distributions over those of positives and random pairs."""
        from retrokit.core.figures import BLUE, GREY, PANELS, RED, fitting, legend_above, panels, save, shown

        encoders = list(dict.fromkeys(row.encoder for row in self.distributions))
        # of many encoders a row for each, or the picture would be endless
        in_rows = len(encoders) > SIDE_BY_SIDE
        encoders = fitting(encoders, PANELS, "encoders", "near-miss")
        counts = Counter({row.group: len(row.scores) for row in self.distributions if row.encoder == encoders[0]})
        largest = [name for name, _ in counts.most_common() if name not in (POSITIVES, RANDOM)]
        chosen = fitting(largest, COLUMNS if in_rows else PANELS, "families", "near-miss")
        families = [name for name in counts if name in chosen]
        columns = len(families) if in_rows else len(encoders)
        order = [(family, encoder) for family in families for encoder in encoders]
        if in_rows:
            order.sort(key=lambda pair: encoders.index(pair[1]))
        figure, every_axes = panels(len(order), 1.3 if in_rows else 1.75, columns)
        every = np.concatenate([row.scores for row in self.distributions])
        lowest, highest = np.quantile(every, [0.0005, 0.9995]).tolist()
        room = 1e-3 * max(abs(lowest), abs(highest), 1e-3) if highest == lowest else 0.0  # where all scores are equal
        bins = np.linspace(lowest - room, np.nextafter(highest + room, np.inf), BINS)
        for axes, (family, encoder) in zip(every_axes, order, strict=True):
            for group, color, style in ((RANDOM, GREY, ":"), (POSITIVES, BLUE, "--"), (family, RED, "-")):
                row = next((d for d in self.distributions if (d.encoder, d.group) == (encoder, group)), None)
                if row is not None:
                    counted, _ = np.histogram(np.clip(row.scores, bins[0], bins[-1]), bins)
                    heights = counted / counted.max()  # near-misses crowd at the top: a common scale flattens the rest
                    label = "near-misses" if group == family else group
                    axes.stairs(heights, bins, fill=True, color=color, alpha=0.18)
                    axes.stairs(heights, bins, color=color, linestyle=style, linewidth=1.4, label=label)
            axes.set_yticks([])
            if in_rows:
                axes.set_title("" if encoder != encoders[0] or family == ALL else shown(family, 20), fontsize=9)
                axes.set_ylabel(shown(encoder, 14) if family == families[0] else "", fontsize=8)
            else:
                name = "" if family == ALL else f"{shown(family, 20)}, "
                axes.set_title(f"{name}{shown(encoder, 34)}", fontsize=9)
                axes.set_ylabel("pairs, peak = 1", fontsize=9)
        for axes in every_axes[-columns:]:
            axes.set_xlabel(self.families[0].similarity, fontsize=9)
        legend_above(figure, every_axes[0])
        return save(figure, folder, "near-miss")


@taking(NearMissProbeSettings)
def probe_near_misses(settings: NearMissProbeSettings) -> NearMissProbe:
    """Score near-misses, pairs that mean the same, and random pairs, with every encoder.

    Raises:
        UsageError: an unknown name, a similarity that does not fit, or a file that holds no near-misses.
        DataError: a wrong line.
    """
    others = (similarities.registry, settings.sim), (evaluation.registry, settings.on)
    _, source = parse_names(settings.encoders, *others)
    task = evaluation.registry.create(source) if source.name == "pairs" else None
    if not isinstance(task, NearMisses):
        raise UsageError(f"{source} holds no near-misses: expected pairs:FILE, which augment near-misses writes")
    pairs = read_reference(settings.reference, settings.reference_pairs) if settings.reference is not None else None
    notice(task.describe(None if pairs is None else len(pairs)))
    probe = NearMissProbe(task.name, settings.reference, [], [])
    for encoder in encoders_of(settings):
        similarity: Similarity = similarities.registry.create(settings.sim)
        groups, above = _scores(task, encoder, similarity, settings.precision)
        if pairs is not None:
            groups |= _reference_scores(pairs, encoder, similarity, settings.precision)
        positives, random = groups[POSITIVES], groups[RANDOM]
        families = [name for name in groups if name not in (POSITIVES, RANDOM)]  # all of them together first
        for family in families:
            near = groups[family]
            numbers = len(near), float(near.mean()), float(near.std())
            auc = roc_auc(positives, near) if len(positives) else None
            over_random = roc_auc(near, random) if len(random) else None
            names = encoder.spec, similarity.spec, family
            probe.families.append(Blindness(*names, *numbers, auc, above.get(family), over_random))
        shown = {name: values for name, values in groups.items() if len(values) and (name != ALL or len(families) <= 2)}
        probe.distributions.extend(Distribution(encoder.spec, similarity.spec, *group) for group in shown.items())
    return probe


def _group_of(family: str) -> str:
    """What a family is called beside the other groups."""
    return f"{family} (family)" if family in (ALL, POSITIVES, RANDOM) else family


def _scores(
    task: NearMisses, encoder: Encoder, similarity: Similarity, precision: str
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Scores by group, and the share of each family's near-misses above the paraphrase, where there are paraphrases."""
    (result,) = task.evaluate(Request(encoder, [similarity], precision=precision))
    by_id = {name: values for name, values in result.per_query.items() if values}
    groups = {ALL: _array(by_id["near_miss"])}
    for name, values in by_id.items():
        if name.startswith("near_miss/"):
            groups[_group_of(name.partition("/")[2])] = _array(values)
    groups |= {POSITIVES: _array(by_id.get("positive", {})), RANDOM: _array(by_id.get("random", {}))}
    margins: dict[str, list[float]] = {}
    for example in task.examples:
        if example.positive != example.anchor:
            for family in dict.fromkeys((ALL, _group_of(example.family) if example.family else ALL)):
                margins.setdefault(family, []).append(by_id["margin"][example.id])
    return groups, {family: float((np.array(values) < 0).mean()) for family, values in margins.items()}


def _array(values: Mapping[str, float]) -> np.ndarray:
    return np.array(list(values.values()), dtype=np.float64)


def _reference_scores(
    pairs: Sequence[Pair], encoder: Encoder, similarity: Similarity, precision: str
) -> dict[str, np.ndarray]:
    """Scores of each anchor (a query) with its positive (a document), and with that of the next pair, unless that is
    one of its own as well."""
    anchors, positives = DistinctTexts(), DistinctTexts()
    first, second = anchors.add(pair.anchor for pair in pairs), positives.add(pair.positive for pair in pairs)
    queries = encoder.embed(anchors.texts, "query", precision)
    documents = encoder.embed(positives.texts, "document", precision)
    own = set(zip(first.tolist(), second.tolist(), strict=True))
    other = np.roll(second, 1)
    foreign = np.array([pair not in own for pair in zip(first.tolist(), other.tolist(), strict=True)], dtype=bool)

    def scores(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return pair_scores(similarity, queries[rows], documents[columns]).astype(np.float64)

    return {POSITIVES: scores(first, second), RANDOM: scores(first[foreign], other[foreign])}
