"""What do the lengths of embeddings say about relevance? (MAG 4.3, N.2 and O; Figures 4 to 6 and 13; Tables 25 and 26)

Cohen's d between the lengths of relevant and irrelevant documents says whether a similarity in which document length
counts (``qnorm``, ``dot``) has something to use; the spread of query lengths says how far ``dnorm`` tells queries
apart.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.errors import DataError, RetrokitError, UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.data.beir import has_judgements, read_unjudged
from retrokit.data.jsonl import read_jsonl, restored
from retrokit.data.runs import RUN_FILE, read_run
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics.effect_size import SIZES, EffectSize, Moments, bootstrapped_d
from retrokit.metrics.significance import paired_bootstrap
from retrokit.probing.base import Findings, parse_names, read_retrieval
from retrokit.probing.settings import DEPTH, MagnitudeOptions, MagnitudeSettings
from retrokit.ranking.retrieval.embeddings import row_norms
from retrokit.similarities.base import Similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "ndcg@10"
LEAST_FOR_CORRELATION = 3
_RANKED = [METRIC, f"recall@{DEPTH}"]
_SAME_LENGTH = 1e-5  # a coefficient of variation below this is rounding


@dataclass(frozen=True)
class Lengths:
    """Lengths of embeddings: how many, mean, population deviation; ``cv`` is deviation / mean (MAG, Eq. 27)."""

    count: int
    mean: float
    deviation: float

    @property
    def cv(self) -> float:
        """Coefficient of variation."""
        return self.deviation / self.mean if self.mean else 0.0

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return {**vars(self), "cv": self.cv}


@dataclass(frozen=True)
class Gain:
    """nDCG@10 of one way to score and of another, ``over`` which it is a gain."""

    of: str
    over: str
    score: float
    baseline: float

    @property
    def percent(self) -> float | None:
        """(score − baseline) / baseline × 100 (MAG, Figure 4); ``None`` where the baseline is 0."""
        return 100 * (self.score - self.baseline) / self.baseline if self.baseline else None


@dataclass(frozen=True)
class CvRatio:
    """Coefficient of variation of the query lengths of one encoder, ``over`` that of another; ``value`` is ``None``
    where the other's are all the same. MAG's ΔCV is that of a ``dnorm`` run over a ``dot`` run (N.2)."""

    of: str
    over: str
    value: float | None


@dataclass(frozen=True)
class LengthFinding:
    """The findings for one encoder on one data set.

    Attributes:
        effect: Cohen's d of relevant against irrelevant documents' lengths, the interval over queries drawn anew.
        gain: of qnorm's scores over cosine's on the same embeddings; with a baseline, of the encoder with its own
            similarity over the baseline with its own; ``None`` without labels.
        cv_ratio: ``None`` without an encoder to compare with.
        step: of a run's checkpoint; 0 is the encoder that it started from.
    """

    encoder: str
    task: str
    queries: Lengths
    relevant: Lengths
    irrelevant: Lengths
    effect: EffectSize
    gain: Gain | None
    cv_ratio: CvRatio | None = None
    step: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        gain = None if self.gain is None else {**vars(self.gain), "percent": self.gain.percent}
        ratio = None if self.cv_ratio is None else dict(vars(self.cv_ratio))
        lengths = {name: getattr(self, name).to_json() for name in ("queries", "relevant", "irrelevant")}
        return {**vars(self), **lengths, "effect": self.effect.to_json(), "gain": gain, "cv_ratio": ratio}

    def row(self) -> dict[str, Any]:
        """One flat row of a table."""
        values: dict[str, Any] = {"encoder": self.encoder, "task": self.task}
        if self.step is not None:
            values["step"] = self.step
        for name in ("queries", "relevant", "irrelevant"):
            values |= {f"{name}_{key}": value for key, value in getattr(self, name).to_json().items()}
        effect = self.effect.to_json()
        values |= {"d": effect["value"], "d_low": effect["low"], "d_high": effect["high"]}
        if self.gain is not None:
            values |= {"gain_of": self.gain.of, "gain_over": self.gain.over, METRIC: self.gain.score}
            values |= {f"{METRIC}_baseline": self.gain.baseline, "gain_percent": self.gain.percent}
        if self.cv_ratio is not None:
            values |= {"cv_ratio": self.cv_ratio.value, "cv_ratio_over": self.cv_ratio.over}
        return values


@dataclass(frozen=True)
class LengthCorrelation:
    """Pearson's r of d with the gain in percent over data sets, its two-sided p, and the regression line (Figure 4)."""

    encoder: str
    datasets: int
    r: float
    p: float
    slope: float
    intercept: float


@dataclass(frozen=True)
class EffectChange:
    """How d of one data set changed from a run's start to its end, over the same queries drawn anew for both."""

    task: str
    first_step: int
    last_step: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def is_clear(self) -> bool:
        """Whether the 95% interval leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class MagnitudeProbe(Findings):
    """All findings; ``notes`` say what was used and what could not be computed; ``curve`` is γ by step of a run."""

    pictures: ClassVar = {
        "effect": "Cohen's d of the lengths of relevant documents",
        "lengths": "Lengths of queries, relevant and irrelevant documents",
        "correlation": "Effect size and gain over data sets",
        "training": "Lengths and their effect through training",
        "gamma": "γ through training",
    }

    results: list[LengthFinding]
    correlations: list[LengthCorrelation]
    notes: list[str]
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def changes(self) -> list[EffectChange]:
        """Of a run, the change of d on every data set that has its interval at both ends."""
        ends = [(own[0], own[-1]) for own in self.by_task() if own[0].step is not None]
        return [change for first, last in ends if (change := change_of(first, last)) is not None]

    def by_task(self) -> list[list[LengthFinding]]:
        """The results on each data set."""
        tasks = dict.fromkeys(result.task for result in self.results)
        return [[result for result in self.results if result.task == task] for task in tasks]

    @property
    def conclusion(self) -> str:
        if any(result.step is not None for result in self.results):
            return _through_training(self)
        text = _single(self.results[0]) if len(self.results) == 1 else _several(self.results)
        strong = [line for line in self.correlations if line.p < 0.05]
        if self.correlations and not strong:
            text += "; d does not predict the gain here (p ≥ 0.05)"
        elif strong:
            direction = "larger" if strong[0].r > 0 else "smaller"
            text += f"; where d is higher, the gain is {direction} (r = {strong[0].r:.2f}, p = {strong[0].p:.2g})"
        return text + "."

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> MagnitudeProbe:
        return restored(cls, {**plain, "curve": plain.get("gamma", [])})

    def to_json(self) -> dict[str, Any]:
        return {
            "results": [result.to_json() for result in self.results],
            "correlations": [dict(vars(correlation)) for correlation in self.correlations],
            "changes": [dict(vars(change)) for change in self.changes],
            "gamma": self.curve,
            "notes": self.notes,
            "conclusion": self.conclusion,
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        tables = {
            "magnitude": [result.row() for result in self.results],
            "correlation": [dict(vars(correlation)) for correlation in self.correlations],
            "change": [dict(vars(change)) for change in self.changes],
            "gamma": [dict(row) for row in self.curve],
        }
        return {name: rows for name, rows in tables.items() if rows}

    def sheets(self) -> list[Sheet]:
        results = self.results
        ratios = [result.cv_ratio for result in results if result.cv_ratio is not None]
        gains = [result.gain for result in results if result.gain is not None]
        has_steps = any(result.step is not None for result in results)
        columns = ["encoder", "data set", *["step"][:has_steps], "queries", "CV", *(["CV ratio"] if ratios else [])]
        columns += ["relevant", "irrelevant", "d (95%)", "effect", *([METRIC, "gain"] if gains else [])]
        notes = list(self.notes)
        notes += [
            f"CV ratio: {of} over {over}" for of, over in dict.fromkeys((ratio.of, ratio.over) for ratio in ratios)
        ]
        if ratios:
            notes.append("MAG's ΔCV (N.2) is the CV ratio of a dnorm run over a dot run")
        if any(ratio.value is None for ratio in ratios):
            notes.append("–: the queries of the encoder to compare with are all of one length")
        notes += [f"{METRIC}: {over} → {of}" for over, of in dict.fromkeys((gain.over, gain.of) for gain in gains)]
        title = "lengths of embeddings: mean, and Cohen's d of relevant documents"
        rows = [_cells(result, has_steps, bool(ratios), bool(gains)) for result in results]
        lengths = Sheet(title, columns, 2, rows, notes)
        if not self.correlations:
            return [lengths]
        lines = [
            [line.encoder, str(line.datasets), f"{line.r:+.2f}", f"{line.p:.2g}", f"{line.slope:+.1f}"]
            for line in self.correlations
        ]
        names = ["encoder", "data sets", "r", "p", "gain in % of a d higher by 1"]
        return [lengths, Sheet("d and the gain over data sets", names, 1, lines)]

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw what a magnitude probe found: by data set, or through training; returns the files written."""
        if any(result.step is not None for result in self.results):
            return [*_plot_training(self, folder), *_plot_gamma(self, folder)]
        files = [*_plot_effects(self, folder), *_plot_lengths(self, folder)]
        return [*files, *_plot_correlations(self, folder)] if self.correlations else files


def _cells(result: LengthFinding, has_steps: bool, has_ratios: bool, has_gains: bool) -> list[str]:
    queries, effect, gain, ratio = result.queries, result.effect, result.gain, result.cv_ratio
    cells = [result.encoder, result.task, *[str(result.step)][:has_steps], f"{queries.mean:.4g}", f"{queries.cv:.1%}"]
    if has_ratios:
        cells.append("" if ratio is None else "–" if ratio.value is None else f"{ratio.value:.2f}")
    cells += [f"{group.mean:.4g}" for group in (result.relevant, result.irrelevant)]
    interval = "" if math.isnan(effect.low) else f" ({effect.low:+.2f} to {effect.high:+.2f})"
    cells += ["–" if math.isnan(effect.value) else f"{effect.value:+.2f}{interval}", effect.size]
    if has_gains:
        cells.append("" if gain is None else f"{gain.baseline:.4f} → {gain.score:.4f}")
        cells.append("" if gain is None or gain.percent is None else f"{gain.percent:+.1f}%")
    return cells


def points_of(results: Sequence[LengthFinding]) -> list[tuple[float, float]]:
    """(d, gain in percent) of the data sets that have both."""
    points = [(r.effect.value, r.gain.percent) for r in results if r.gain is not None]
    return [(d, percent) for d, percent in points if percent is not None and not math.isnan(d)]


def correlate(encoder: str, points: Sequence[tuple[float, float]]) -> LengthCorrelation:
    """The regression of gains on d; ``points`` are (d, gain in percent) of three data sets or more."""
    from scipy.stats import linregress

    line = linregress(*zip(*points, strict=True))
    return LengthCorrelation(encoder, len(points), *map(float, (line.rvalue, line.pvalue, line.slope, line.intercept)))


def change_of(first: LengthFinding, last: LengthFinding) -> EffectChange | None:
    """The change of d between two steps on one data set, whose queries are drawn together; ``None`` where a d or its
    interval is undefined."""
    before, after = first.effect, last.effect
    if before.draws is None or after.draws is None or not all(map(math.isfinite, (before.low, after.low))):
        return None
    test = paired_bootstrap(before.draws, after.draws)
    return EffectChange(first.task, first.step or 0, last.step or 0, test.difference, test.low, test.high, test.p)


# --- in words


def _single(result: LengthFinding) -> str:
    effect = result.effect
    way = "longer" if effect.value > 0 else "shorter"
    if math.isnan(effect.value) or math.isnan(effect.low):
        text = "there are too few queries and documents to tell whether relevant documents are longer"
        return f"{result.encoder} on {result.task}: {text}{_gain_told(result.gain)}"
    if not effect.is_clear:
        text = "relevant documents are neither clearly longer nor clearly shorter"
        meaning = "document length says nothing about relevance"
    elif effect.size == "negligible":
        text = f"relevant documents are {way}, but negligibly so"
        meaning = "document length says next to nothing about relevance"
    else:
        text = f"relevant documents are clearly {way} (a {effect.size} effect)"
        meaning = "qnorm or dot can use document length" if effect.value > 0 else "document length misleads a ranking"
    return f"{result.encoder} on {result.task}: {text}, so {meaning}{_gain_told(result.gain)}"


def _gain_told(gain: Gain | None) -> str:
    if gain is None or gain.percent is None:
        return ""
    what = "gains" if gain.percent >= 0 else "loses"
    return f"; {gain.of} {what} {abs(gain.percent):.1f}% {METRIC} against {gain.over}"


def _several(results: Sequence[LengthFinding]) -> str:
    longer = sum(result.effect.low > 0 and result.effect.size != "negligible" for result in results)
    shorter = sum(result.effect.high < 0 and result.effect.size != "negligible" for result in results)
    text = (
        f"of {len(results)} pairs of encoder and data set, relevant documents are clearly longer in {longer} "
        f"and clearly shorter in {shorter}"
    )
    if longer > shorter:
        return f"{text}: where they are longer, qnorm or dot can use document length"
    if shorter > longer:
        return f"{text}: where they are shorter, leave document length out of the scores (cosine, dnorm)"
    return f"{text}: document length says little about relevance on the whole"


def _through_training(probe: MagnitudeProbe) -> str:
    first, *_, last = probe.by_task()[0]
    change = next((change for change in probe.changes if change.task == first.task), None)
    gammas = ""
    if probe.curve:
        ends = probe.curve[-1]
        gammas = f"; γq ends at {ends['gamma_query']:.4f} and γd at {ends['gamma_document']:.4f}"
    if change is None:
        return f"there are too few queries and documents in {first.task} to tell how d went through training{gammas}."
    text = f"from step {first.step} to {last.step}, d on {first.task} went from {first.effect.value:+.2f} to "
    text += f"{last.effect.value:+.2f}, by {change.difference:+.2f} (95%: {change.low:+.2f} to {change.high:+.2f})"
    text += (
        ": training changed what document length says about relevance"
        if change.is_clear
        else ", within the sampling error: training left what document length says about relevance as it was"
    )
    return f"{text}{gammas}."


# --- pictures


def _label(result: LengthFinding) -> str:
    """Encoder and data set in two short lines."""
    from retrokit.core.figures import shown

    return f"{shown(result.encoder, 34)}\n{shown(result.task, 34)}"


def _shade(axes: Axes, horizontal: bool = False) -> None:
    """Shade the effect sizes of MAG, Figure 4: the darker, the larger; white is negligible."""
    from retrokit.core.figures import GREY

    span = axes.axhspan if horizontal else axes.axvspan
    edges = [*(least for least, _ in reversed(SIZES)), 100.0]
    for (low, high), alpha in zip(itertools.pairwise(edges), (0.08, 0.16, 0.24), strict=True):
        for sign in (-1, 1):
            span(*sorted((sign * low, sign * high)), color=GREY, alpha=alpha, linewidth=0)


def _plot_effects(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    from retrokit.core.figures import ROWS, differences_figure, fitting, save

    results = fitting(probe.results, ROWS, "rows", "effect")
    values = np.array([(r.effect.value, r.effect.low, r.effect.high) for r in results])
    figure, axes = differences_figure([_label(result) for result in results], values, 0.5)
    _shade(axes)
    axes.set_xlabel("Cohen's d of document length, 95% interval\n(above 0: relevant documents are longer)")
    return save(figure, folder, "effect")


def _plot_lengths(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    from retrokit.core.figures import BLUE, GREEN, RED, ROWS, fitting, legend_above, rows_figure, save

    results = fitting(probe.results, ROWS, "rows", "lengths")
    figure, axes, at = rows_figure([_label(result) for result in results], 1)
    sides = (("queries", BLUE, "o", 0.2), ("relevant", GREEN, "s", 0.0), ("irrelevant", RED, "^", -0.2))
    for name, color, marker, shift in sides:
        groups = [getattr(result, name) for result in results]
        label = name if name == "queries" else f"{name} documents"
        axes.errorbar(
            [group.mean for group in groups],
            at + shift,
            xerr=[group.deviation for group in groups],
            fmt=marker,
            color=color,
            capsize=3,
            label=label,
        )
    axes.set_xlim(left=0)
    axes.set_xlabel("length of embeddings: mean ± standard deviation")
    legend_above(figure, axes)
    return save(figure, folder, "lengths")


def _plot_correlations(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    from retrokit.core.figures import CURVES, MARKERS, color_of, fitting, legend_above, panels, save, shown

    figure, (axes,) = panels(1, 4.4)
    for index, line in enumerate(fitting(probe.correlations, CURVES, "encoders", "correlation")):
        own = [result for result in probe.results if result.encoder == line.encoder]
        effects, gains = (np.array(side) for side in zip(*points_of(own), strict=True))
        color = color_of(index)
        label = f"{shown(line.encoder, 34)}: r = {line.r:+.2f}, p = {line.p:.2g}"
        axes.scatter(effects, gains, color=color, marker=MARKERS[index % 3], label=label, zorder=3)
        ends = np.array([effects.min(), effects.max()])
        axes.plot(ends, line.intercept + line.slope * ends, color=color, linewidth=1.5)
    limits = axes.get_xlim()
    _shade(axes)
    axes.set_xlim(limits)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("Cohen's d of document length (shaded: small, medium, large)")
    axes.set_ylabel(f"gain in {METRIC} (%)")
    legend_above(figure, axes, columns=1)
    return save(figure, folder, "correlation")


def _plot_training(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """MAG, Figures 5 and 13: mean lengths of both groups on the left, d on the right."""
    from retrokit.core.figures import (
        GREEN,
        LINES,
        PANELS,
        RED,
        color_of,
        fitting,
        legend_above,
        plt,
        save,
        shown,
        steps_axis,
    )

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
    tasks = fitting(list(dict.fromkeys(result.task for result in probe.results)), PANELS, "data sets", "training")
    for index, task in enumerate(tasks):
        own = [result for result in probe.results if result.task == task]
        steps = [result.step for result in own]
        ending = f", {shown(task, 34)}" if len(tasks) > 1 else ""
        style = LINES[index % len(LINES)]
        for name, color in (("relevant", GREEN), ("irrelevant", RED)):
            means = [getattr(result, name).mean for result in own]
            left.plot(steps, means, style, marker=".", color=color, label=f"{name}{ending}")
        effects = np.array([(r.effect.value, r.effect.low, r.effect.high) for r in own])
        color = color_of(index)
        right.plot(steps, effects[:, 0], style, marker=".", color=color, label=f"d{ending}")
        right.fill_between(steps, effects[:, 1], effects[:, 2], color=color, alpha=0.2, linewidth=0)
    right.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("mean length of documents' embeddings")
    right.set_ylabel("Cohen's d (band: 95% interval)")
    for axes in (left, right):
        steps_axis(axes)
    legend_above(figure, *((left, right) if len(tasks) > 1 else (left,)))
    return save(figure, folder, "training")


def _plot_gamma(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """MAG, Figure 6; nothing for a run that learns no γ."""
    from retrokit.core.figures import BLUE, LEAST_GAMMA_RANGE, RED, legend_above, panels, save, steps_axis, widen

    if not probe.curve:
        return []
    figure, (axes,) = panels(1, 4)
    steps = [row["step"] for row in probe.curve]
    for key, label, color, style in (("gamma_query", "γq", BLUE, "-"), ("gamma_document", "γd", RED, "--")):
        axes.plot(steps, [row[key] for row in probe.curve], style, marker=".", color=color, label=label)
    axes.set_ylabel("γ (0: length counts in full, 1: not at all)")
    widen(axes, LEAST_GAMMA_RANGE)
    steps_axis(axes)
    legend_above(figure, axes)
    return save(figure, folder, "gamma")


# --- one encoder on one data set


def measure(
    encoder: Encoder,
    task: Retrieval,
    options: MagnitudeOptions,
    baseline: Encoder | None = None,
    cv_baseline: Encoder | None = None,
    step: int | None = None,
) -> LengthFinding:
    """Measure lengths, effect size and gain: of ``qnorm`` over ``cosine``, or over the ``baseline``, each as trained.

    Documents are ranked by angle alone, whatever the encoder's own similarity: a ranking to which length contributes
    finds long documents, so its own best, relevant or not, would be longer by construction.
    """
    memoized = MemoizedEncoder(encoder)
    cosine: Similarity = similarities.registry.create("cosine")
    scored = similarities.registry.create("qnorm") if baseline is None else encoder.similarity
    has_labels = options.proxies is None
    wanted = [cosine, scored] if has_labels and scored.spec != cosine.spec else [cosine]
    results = task.evaluate(Request(memoized, wanted, _RANKED, options.precision))
    lengths = row_norms(memoized.embed(task.data.documents, "document", options.precision))
    if len(lengths) and lengths.std() <= _SAME_LENGTH * lengths.mean():
        problem = f"all documents' embeddings have the length {lengths.mean():.4g}: there is nothing to probe"
        raise DataError(encoder.spec, problem)
    groups = _groups(task, results[0].run, lengths, options)
    relevant, irrelevant = (Lengths(group.count, group.mean, group.deviation) for group in groups)
    queries, gain, ratio = _query_lengths(memoized, task, options), None, None
    if has_labels and baseline is None:
        cosine_score, score = results[0].metrics[METRIC], results[-1].metrics[METRIC]
        gain = Gain(results[-1].similarity, results[0].similarity, score, cosine_score)
    elif has_labels and baseline is not None:  # both as they were trained (MAG, Figure 4)
        (over,) = task.evaluate(Request(baseline, [baseline.similarity], _RANKED, options.precision))
        gain = Gain(_named(memoized), _named(baseline), results[-1].metrics[METRIC], over.metrics[METRIC])
    if cv_baseline is not None:
        cv = _query_lengths(cv_baseline, task, options).cv
        ratio = CvRatio(_named(encoder), _named(cv_baseline), queries.cv / cv if cv > _SAME_LENGTH else None)
    return LengthFinding(
        encoder=encoder.spec,
        task=task.spec,
        queries=queries,
        relevant=relevant,
        irrelevant=irrelevant,
        effect=bootstrapped_d(*groups, options.seed),
        gain=gain,
        cv_ratio=ratio,
        step=step,
    )


def _named(encoder: Encoder) -> str:
    """An encoder as it was trained."""
    return f"{encoder.spec} {encoder.similarity.spec}"


def _query_lengths(encoder: Encoder, task: Retrieval, options: MagnitudeOptions) -> Lengths:
    lengths = row_norms(encoder.embed(task.data.queries, "query", options.precision))
    return Lengths(len(lengths), float(lengths.mean()), float(lengths.std()))


def _groups(
    task: Retrieval, run: Mapping[str, Mapping[str, float]], lengths: np.ndarray, options: MagnitudeOptions
) -> tuple[Moments, Moments]:
    """The lengths of relevant and of irrelevant documents, a cluster per query; a document counts for each query."""
    at = {document: position for position, document in enumerate(task.data.document_ids)}
    judged: defaultdict[str, list[str]] = defaultdict(list)
    for query, document in task.data.pairs():
        judged[query].append(document)
    relevant, others = [], []
    for query in task.data.query_ids:
        ranking = list(run[query])  # best first
        chosen = dict.fromkeys(judged[query] if options.proxies is None else ranking[: options.proxies])
        relevant.append([at[document] for document in chosen])
        others.append([at[document] for document in ranking if document not in chosen])
    origin = float(lengths.mean())
    first = Moments.of((lengths[rows] for rows in relevant), origin)
    if options.irrelevant == "all":
        whole = Moments.of([lengths], origin).table
        second = Moments(whole - first.table, origin)
    else:
        second = Moments.of((lengths[rows] for rows in others), origin)
    for group, name in ((first, "relevant"), (second, "irrelevant")):
        if not group.count:
            why = "all that was found for each query counts as relevant: take all others, or more documents"
            why = "no judgement has a grade above 0" if name == "relevant" else why
            raise DataError(task.spec, f"no {name} documents: {why}")
    return first, second


# --- several encoders and data sets


def probe_magnitude(
    encoders: Sequence[str],
    on: Sequence[str],
    options: MagnitudeOptions = MagnitudeOptions(),
    baseline: str | None = None,
    cv_baseline: str | None = None,
) -> MagnitudeProbe:
    """Probe every encoder on every data set; over three data sets or more, correlate d with the gain.

    Args:
        baseline: an encoder that gains are measured against, such as a run trained with ``cosine``.
        cv_baseline: an encoder whose spread of query lengths is compared with, such as a run trained with ``dot``.

    Raises:
        UsageError: wrong names (all of them in one message), a task that is no retrieval, or a baseline for gains
            where there are no labels to measure them by.
        DataError: a task's files, or groups that cannot be compared.
    """
    if baseline is not None and options.proxies is not None:
        raise UsageError("`baseline=` is for the gain, which takes labels: leave out `without_labels=` or `baseline=`")
    others = [spec for spec in dict.fromkeys((baseline, cv_baseline)) if spec is not None]
    parse_names([*encoders, *others], *((evaluation.registry, spec) for spec in on))
    tasks = _read_tasks(on, options)
    baselines = {spec: MemoizedEncoder(encoder_names.registry.create(spec, device=options.device)) for spec in others}
    gain_over, cv_over = (None if spec is None else baselines[spec] for spec in (baseline, cv_baseline))
    results = []
    for spec in encoders:
        encoder = encoder_names.registry.create(spec, device=options.device)
        results += [measure(encoder, task, options, gain_over, cv_over) for task in tasks]
    correlations, notes = _correlations(results) if options.proxies is None else ([], [])
    return MagnitudeProbe(results, correlations, [_method(options), *notes])


def _read_tasks(specs: Sequence[str], options: MagnitudeOptions) -> list[Retrieval]:
    """The retrieval tasks; without labels also those of BEIR folders that hold none. A notice says what is in each."""
    tasks = []
    for spec in specs:
        parsed = evaluation.registry.parse(spec)
        path = str(parsed.params.get("path", ""))
        if options.proxies is None or parsed.name != "beir" or not Path(path).is_dir() or has_judgements(path):
            tasks.append(read_retrieval(spec))
        else:
            tasks.append(Retrieval(read_unjudged(path)))
            tasks[-1].spec = str(parsed)
    for task in tasks:
        notice(task.describe())
    return tasks


def _method(options: MagnitudeOptions) -> str:
    """How the groups are formed, and d."""
    if options.proxies is not None:
        relevant = f"relevant: a query's best {options.proxies} documents by angle, in place of labels"
        rest = f"irrelevant: the rest of its best {DEPTH}" if options.irrelevant == "top" else "irrelevant: all others"
    else:
        relevant = "relevant: judged with a grade above 0"
        top = f"irrelevant: of a query's best {DEPTH} by angle those that are not judged relevant"
        rest = top if options.irrelevant == "top" else "irrelevant: all documents that are not judged relevant"
    return f"{relevant}; {rest}; d with its 95% interval over queries drawn anew, of which it takes two or more"


def _correlations(results: Sequence[LengthFinding]) -> tuple[list[LengthCorrelation], list[str]]:
    """Correlate d with the gain over each encoder's data sets, or say why not."""
    correlations, notes = [], []
    for encoder in dict.fromkeys(result.encoder for result in results):
        own = [result for result in results if result.encoder == encoder]
        points = points_of(own)
        if len(points) < LEAST_FOR_CORRELATION:
            notes.append(
                f"{encoder}: no correlation of d with the gain: it takes {LEAST_FOR_CORRELATION} data sets with both, "
                f"not {len(points)}"
            )
        elif any(np.ptp(side) < 1e-12 for side in zip(*points, strict=True)):
            notes.append(f"{encoder}: no correlation of d with the gain: one of them is the same on all data sets")
        else:
            correlations.append(correlate(encoder, points))
    return correlations, notes


@taking(MagnitudeSettings)
def probe_lengths(settings: MagnitudeSettings) -> MagnitudeProbe:
    """Call :func:`probe_magnitude` or, for ``checkpoints``, :func:`probe_training`."""
    proxies = (settings.proxies or 10) if settings.without_labels else None
    options = MagnitudeOptions(settings.irrelevant, proxies, settings.precision, settings.device, settings.seed)
    if settings.checkpoints:
        return probe_training(settings.encoders[0], settings.on, options)
    return probe_magnitude(settings.encoders, settings.on, options, settings.baseline, settings.cv_baseline)


# --- through a training


def probe_training(run: str, on: Sequence[str], options: MagnitudeOptions = MagnitudeOptions()) -> MagnitudeProbe:
    """Probe a finished run's checkpoints, the encoder that it started from, and its end (MAG, Figures 5, 6).

    How many there are is ``--save-every`` and ``--keep-checkpoints`` of the training.

    Raises:
        UsageError: no finished run, or one that kept no checkpoints; otherwise as for :func:`probe_magnitude`.
    """
    parse_names([run], *((evaluation.registry, spec) for spec in on))
    stages = _stages(run)
    tasks = _read_tasks(on, options)
    results, notes = [], [_method(options)]
    for step, spec in stages:
        try:
            encoder = encoder_names.registry.create(spec, device=options.device)
        except RetrokitError as error:
            if step:
                raise
            notes.append(f"step 0 is left out: {error}")
            continue
        results += [measure(encoder, task, options, step=step) for task in tasks]
    return MagnitudeProbe(results, [], notes, _gamma_curve(Path(run) / "metrics.jsonl"))


def _stages(folder: str) -> list[tuple[int, str]]:
    """(step, encoder spec) of the start, of each checkpoint and of the end, in order."""
    run = read_run(folder, "encoder").finished(folder)
    checkpoints = sorted((Path(folder) / "checkpoints").glob(f"*/{RUN_FILE}"))
    stages = {read_run(path.parent, "step").step or 0: str(path.parent) for path in checkpoints}
    if not stages:
        raise UsageError(f"{folder} kept no checkpoints; train with `save_every=` N `keep_checkpoints=` MANY")
    outcome = run.outcome or {}
    stages.setdefault(outcome.get("best_step") or outcome["steps"], folder)
    return sorted({0: run.encoder, **stages}.items())


def _gamma_curve(metrics: Path) -> list[dict[str, float]]:
    """γq and γd of every logged step of a run whose similarity learns them; empty for others."""
    if not metrics.is_file():
        return []
    keys = ("step", "gamma_query", "gamma_document")
    rows = (row for _, row in read_jsonl(metrics))
    by_step = {row["step"]: {key: row[key] for key in keys} for row in rows if "gamma_query" in row}
    return [by_step[step] for step in sorted(by_step)]
