"""Does the encoder see a minimal edit that changes the meaning? Distributions of scores (COMP, Figure 1; 3.2).

Near-misses of each family are compared with pairs that mean the same and with random pairs. Pairs that mean the same
are paraphrases, such as questions with their answers (COMP takes NQ's), or the file's own positives if they differ from
their anchors. Without either there are only random pairs of anchors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from retrokit import evaluation, similarities
from retrokit.augmentation.edits.family import Edit
from retrokit.augmentation.edits.generator import EditCase
from retrokit.augmentation.edits.subject import Passage
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Column, Sheet, columns_of, grouped
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.pairs import NearMisses, read_reference
from retrokit.metrics.separation import roc_auc
from retrokit.probing.base import Findings, encoders_of, parse_names
from retrokit.probing.edits import ScoredEdit, Scores, score_edits, score_pairs
from retrokit.probing.settings import NearMissProbeSettings
from retrokit.ranking.reranking.dense import DenseReranker
from retrokit.ranking.retrieval.embeddings import pair_scores
from retrokit.similarities.base import Similarity

ALL = "all"  # the row of all families
POSITIVES, RANDOM = "positives", "random pairs"
BINS = 40
Pairs = list[tuple[str, str]]
SIDE_BY_SIDE = 3  # encoders that fit next to each other in a picture
COMPARED = 3
"""The last columns compare near-misses with other pairs."""


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

    def as_row(self) -> "Blindness":
        """The group as a row next to the families'."""
        mean, deviation = float(self.scores.mean()), float(self.scores.std())
        return Blindness(self.encoder, self.similarity, self.group, len(self.scores), mean, deviation)


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

    encoder: Annotated[str, Column("encoder")]
    similarity: Annotated[str, Column("similarity")]
    family: Annotated[str, Column("group")]
    near_misses: Annotated[int, Column("pairs", ",")]
    mean: Annotated[float, Column("mean ± SD", lambda row: f"{row.mean:.3f} ± {row.deviation:.3f}")]
    deviation: float
    auc: Annotated[float | None, Column("ROC-AUC", ".3f", absent="")] = None
    above_paraphrase: Annotated[float | None, Column("above paraphrase", ".1%", absent="")] = None
    over_random: Annotated[float | None, Column("above random", ".1%", absent="")] = None


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
        compared = columns_of(Blindness)[-COMPARED:]
        for encoder, rows in grouped(self.families, "encoder").items():
            worst = max([row for row in rows if row.family != ALL] or rows, key=lambda row: row.mean)
            part = f"{encoder}: hardest near-misses {worst.family}, mean score {worst.mean:.3f}"
            for name, column in compared:
                if share := column.cell(worst, name):
                    part += f", {column.heading} {share}"
            parts.append(part)
        return "; ".join(parts) + ". ROC-AUC 0.5 is blind."

    def sheets(self) -> list[Sheet]:
        references = [row.as_row() for row in self.distributions if row.group in (POSITIVES, RANDOM)]
        every_row = [*self.families, *references]
        columns = []
        for name, column in columns_of(Blindness):
            if any(column.cell(row, name) for row in every_row):
                columns.append((name, column))
        cells: list[list[str]] = []
        for rows in grouped(every_row, "encoder").values():
            for row in rows:
                cells.append([column.cell(row, name) for name, column in columns])
            cells.append([])
        headings = [column.heading for _, column in columns]
        notes = []
        if "ROC-AUC" in headings:
            notes.append(
                "ROC-AUC: share of couples in which a positive, of any family, scores above a near-miss of this one"
            )
        return [Sheet(f"scores of near-misses: {self.data}", headings, 3, cells, notes)]

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
        styles = (RANDOM, RANDOM, GREY, ":"), (POSITIVES, POSITIVES, BLUE, "--")
        for axes, (family, encoder) in zip(every_axes, product(families, encoders), strict=True):
            for group, label, color, style in (*styles, (family, "near-misses", RED, "-")):
                if (encoder, group) in scores:
                    counted, _ = np.histogram(np.clip(scores[encoder, group], bins[0], bins[-1]), bins)
                    heights = counted / counted.max()  # near-misses crowd at the top: a common scale flattens the rest
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


@taking(NearMissProbeSettings)
def probe_near_misses(settings: NearMissProbeSettings) -> NearMissProbe:
    """Score near-misses, pairs that mean the same, and random pairs, with every encoder.

    Raises:
        UsageError: an unknown name, a similarity that does not fit, or a file without near-misses.
        DataError: a wrong line.
    """
    task, references = _read(settings)
    cases = list(_cases(task))
    probe = NearMissProbe(task.name, settings.paraphrases, [], [])
    for encoder in encoders_of(settings):
        similarity: Similarity = similarities.registry.create(settings.sim)
        score = _scores(task, Request(encoder, [similarity], precision=settings.precision))
        families = _families(score_edits(score, cases, encoder.spec))
        groups = {family: np.array([edit.edited for edit in edits]) for family, edits in families.items()}
        if settings.paraphrases is not None:
            score = DenseReranker(encoder, similarity, settings.precision).score_pairs
        for group, pairs in references.items():
            groups[group] = score_pairs(score, pairs, encoder.spec)
        for group, scores in groups.items():
            distribution = Distribution(encoder.name, similarity.spec, group, scores)
            if group in families:
                probe.families.append(_blindness(distribution, families[group], groups))
            if group != ALL or len(families) <= 2:  # all near-misses are the sum of several families
                probe.distributions.append(distribution)
    return probe


def _read(settings: NearMissProbeSettings) -> tuple[NearMisses, dict[str, Pairs]]:
    """The near-misses, and the groups of pairs that they are compared with."""
    others = (similarities.registry, settings.sim), (evaluation.registry, settings.on)
    _, source = parse_names(settings.encoders, *others)
    task = evaluation.registry.create(source) if source.name == "pairs" else None
    if not isinstance(task, NearMisses):
        raise UsageError(f"{source} contains no near-misses: expected pairs:FILE, which augment near-misses writes")
    if settings.paraphrases is None:
        notice(task.describe())
        positives, random = (_pairs_at(task, positions) for positions in (task.paraphrases, task.random_pairs))
    else:
        reference = read_reference(settings.paraphrases, settings.max_paraphrases)
        notice(task.describe(len(reference)))
        positives = [(pair.anchor, pair.positive) for pair in reference]
        random = _turned(positives)
    groups = {POSITIVES: positives, RANDOM: random}
    return task, {group: pairs for group, pairs in groups.items() if pairs}


def _pairs_at(task: NearMisses, positions: np.ndarray) -> Pairs:
    return [(task.texts[first], task.texts[second]) for first, second in positions.T]


def _turned(pairs: Pairs) -> Pairs:
    """Each first text with the second one of the next pair, unless that is one of its own as well."""
    given_pairs = set(pairs)
    turned = [(first, pairs[index - 1][1]) for index, (first, _) in enumerate(pairs)]
    return [pair for pair in turned if pair not in given_pairs]


def _cases(task: NearMisses) -> Iterator[EditCase]:
    """The near-misses as edits of their positives, of which the anchors are the queries."""
    for index, example in enumerate(task.examples):
        edit = Edit(
            family=example.family,
            name="",
            passage=Passage("", example.positive, ""),
            after=example.near_miss,
            query=None,
            changes_meaning=True,
        )
        yield EditCase(example.id, index, example.anchor, edit, harmless=(), unrelated=())


def _scores(task: NearMisses, request: Request) -> Scores:
    """The scores of the task's texts, each of which is embedded once, in one role."""
    embedded, (similarity,) = request.embeddings(task)
    embeddings = embedded.of(task.texts, "document")
    row_of = {text: row for row, text in enumerate(task.texts)}

    def scores(queries: Sequence[str], texts: Sequence[str]) -> np.ndarray:
        rows = np.array([row_of[query] for query in queries])
        columns = np.array([row_of[text] for text in texts])
        return pair_scores(similarity, embeddings, embeddings, rows, columns)

    return scores


def _families(edits: list[ScoredEdit]) -> dict[str, list[ScoredEdit]]:
    """All near-misses, and those of each family by their group."""
    families = {ALL: edits}
    for edit in sorted(edits, key=lambda edit: edit.case.edit.family):
        family = edit.case.edit.family
        if family in (ALL, POSITIVES, RANDOM):
            family = f"{family} (family)"
        if family:
            families.setdefault(family, []).append(edit)
    return families


def _blindness(distribution: Distribution, edits: Sequence[ScoredEdit], groups: Mapping[str, np.ndarray]) -> Blindness:
    """How hard the edits are to separate from the other groups."""
    scores, positives, random = distribution.scores, groups.get(POSITIVES), groups.get(RANDOM)
    rises = [edit.fall < 0 for edit in edits if edit.case.edit.before != edit.case.query]
    return replace(
        distribution.as_row(),
        auc=None if positives is None else roc_auc(positives, scores),
        above_paraphrase=float(np.mean(rises)) if rises else None,
        over_random=None if random is None else roc_auc(scores, random),
    )
