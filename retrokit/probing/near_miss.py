"""Does the encoder see a minimal edit that changes the meaning? Distributions of scores (COMP, Figure 1; 3.2).

Near-misses of each family are set against pairs that mean the same and against random pairs. Which pairs mean the same:
reference pairs, such as questions with their answers (COMP takes NQ's), or the file's own positives where they are
other texts than their anchors. Without either there are random pairs of anchors alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.training_rows import Pair
from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.near_misses import NearMisses, read_reference
from retrokit.metrics.separation import roc_auc
from retrokit.probing.findings import Findings
from retrokit.probing.settings import NearMissProbeSettings
from retrokit.ranking.retrieval.embeddings import DistinctTexts, pair_scores
from retrokit.similarities.base import Similarity

BLIND = 0.5  # the AUC of a coin
ALL = "all"  # the row of all families
POSITIVES, RANDOM = "positives", "random pairs"


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


@taking(NearMissProbeSettings)
def probe_near_misses(settings: NearMissProbeSettings) -> NearMissProbe:
    """Score near-misses, pairs that mean the same, and random pairs, with every encoder.

    Raises:
        UsageError: an unknown name, a similarity that does not fit, or a file that holds no near-misses.
        DataError: a wrong line.
    """
    specs = [*((encoder_names.registry, spec) for spec in settings.encoders), (similarities.registry, settings.sim)]
    *_, source = parse_all([*specs, (evaluation.registry, settings.on)])
    task = evaluation.registry.create(source) if source.name == "pairs" else None
    if not isinstance(task, NearMisses):
        raise UsageError(f"{source} holds no near-misses: expected pairs:FILE, which augment negatives writes")
    pairs = read_reference(settings.reference, settings.reference_pairs) if settings.reference is not None else None
    notice(task.describe(None if pairs is None else len(pairs)))
    probe = NearMissProbe(task.name, settings.reference, [], [])
    for spec in settings.encoders:
        encoder: Encoder = encoder_names.registry.create(spec, device=settings.device)
        similarity: Similarity = similarities.registry.create(settings.sim)
        groups, above = _scores(task, encoder, similarity, settings.precision)
        if pairs is not None:
            groups |= _reference_scores(pairs, encoder, similarity, settings.precision)
        probe.families.extend(_families(encoder.spec, similarity.spec, groups, above))
        probe.distributions.extend(
            Distribution(encoder.spec, similarity.spec, name, values)
            for name, values in groups.items()
            if len(values) and not (name == ALL and len(_family_names(groups)) > 1)
        )
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


def _family_names(groups: Mapping[str, np.ndarray]) -> list[str]:
    return [name for name in groups if name not in (ALL, POSITIVES, RANDOM)]


def _families(
    encoder: str, similarity: str, groups: Mapping[str, np.ndarray], above: Mapping[str, float]
) -> list[Blindness]:
    positives, random = groups[POSITIVES], groups[RANDOM]
    families = []
    for family in (ALL, *_family_names(groups)):
        near = groups[family]
        families.append(
            Blindness(
                encoder=encoder,
                similarity=similarity,
                family=family,
                near_misses=len(near),
                mean=float(near.mean()),
                deviation=float(near.std()),
                auc=roc_auc(positives, near) if len(positives) else None,
                above_paraphrase=above.get(family),
                over_random=roc_auc(near, random) if len(random) else None,
            )
        )
    return families


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
