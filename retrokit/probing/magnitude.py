"""What do the norms of embeddings say about relevance? (MAG 4.3, N.2 and O; Figures 4 to 6 and 13; Tables 25 and 26)

Cohen's d between the norms of relevant and irrelevant documents shows whether a similarity in which the document's norm
counts (``qnorm``, ``dot``) has something to use; the spread of query norms shows how far ``dnorm`` separates queries.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.errors import DataError, RetrokitError, UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Column, Sheet, digits, grouped, record_sheet
from retrokit.data.beir import has_judgements, read_unjudged
from retrokit.data.records import plain
from retrokit.data.runs import RUN_FILE, checkpoints_in, is_run, read_metrics, read_run
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics.effect_size import SIZES, EffectSize, Moments, bootstrapped_d
from retrokit.metrics.significance import paired_bootstrap
from retrokit.probing.base import Findings, encoders_of, parse_names, read_retrieval
from retrokit.probing.settings import DEPTH, MagnitudeSettings
from retrokit.ranking.retrieval.embeddings import row_norms
from retrokit.similarities.base import Similarity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRIC = "ndcg@10"
LEAST_FOR_CORRELATION = 3
_RANKED = [METRIC, f"recall@{DEPTH}"]
_SAME_NORM = 1e-5  # a coefficient of variation below this is rounding


@dataclass(frozen=True)
class Lengths:
    """Norms of embeddings: how many, mean, population SD; ``cv`` is SD / mean (MAG, Eq. 27)."""

    derived: ClassVar = ("cv",)

    count: int
    mean: float
    deviation: float

    @property
    def cv(self) -> float:
        """Deviation over mean."""
        return self.deviation / self.mean if self.mean else 0.0


@dataclass(frozen=True)
class Gain:
    """nDCG@10 of one way to score and of another, ``over`` which it is a gain."""

    derived: ClassVar = ("percent",)

    of: str
    over: str
    score: float
    baseline: float

    @property
    def percent(self) -> float | None:
        """Percent of the baseline.

        ``None`` if the baseline is 0 (MAG, Figure 4).
        """
        return 100 * (self.score - self.baseline) / self.baseline if self.baseline else None


@dataclass(frozen=True)
class CvRatio:
    """Coefficient of variation of the query norms of one encoder, ``over`` that of another; ``value`` is ``None``
    if the other's are all equal. MAG's ΔCV is that of a ``dnorm`` encoder over a ``dot`` one (N.2)."""

    of: str
    over: str
    value: float | None


def _effect_cell(result: LengthFinding) -> str:
    effect = result.effect
    if math.isfinite(effect.value) and math.isfinite(effect.low):
        return f"{effect.value:+.2f} ({effect.low:+.2f} to {effect.high:+.2f})"
    return digits(effect.value, "+.2f")


def _scores_cell(result: LengthFinding) -> str:
    return "" if result.gain is None else f"{result.gain.baseline:.4f} → {result.gain.score:.4f}"


def _gain_cell(result: LengthFinding) -> str:
    return "" if result.gain is None or result.gain.percent is None else f"{result.gain.percent:+.1f}%"


@dataclass(frozen=True)
class LengthFinding:
    """The findings for one encoder on one data set.

    Attributes:
        step: of a model folder's checkpoint; 0 is the encoder that it started from.
        cv_ratio: ``None`` without an encoder to compare with.
        effect: Cohen's d of relevant against irrelevant documents' norms, with the interval over resampled queries.
        gain: of qnorm's scores over cosine's on the same embeddings; with a reference, of the encoder with its own
            similarity over the reference with its own; ``None`` without labels.
    """

    encoder: Annotated[str, Column("encoder")]
    task: Annotated[str, Column("data set")]
    step: Annotated[int | None, Column("step", absent="")]
    queries: Annotated[Lengths, Column("queries", ".4g", "mean"), Column("CV", ".1%", "cv")]
    cv_ratio: Annotated[CvRatio | None, Column("CV ratio", ".2f", "value", absent="")]
    relevant: Annotated[Lengths, Column("relevant", ".4g", "mean")]
    irrelevant: Annotated[Lengths, Column("irrelevant", ".4g", "mean")]
    effect: Annotated[EffectSize, Column("d (95%)", _effect_cell), Column("effect", attribute="size")]
    gain: Annotated[Gain | None, Column(METRIC, _scores_cell), Column("gain", _gain_cell)]

    def row(self) -> dict[str, Any]:
        """One flat row of a table."""
        values: dict[str, Any] = {"encoder": self.encoder, "task": self.task}
        if self.step is not None:
            values["step"] = self.step
        for name in ("queries", "relevant", "irrelevant"):
            values |= {f"{name}_{key}": value for key, value in plain(getattr(self, name)).items()}
        effect = plain(self.effect)
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

    encoder: Annotated[str, Column("encoder")]
    datasets: Annotated[int, Column("data sets")]
    r: Annotated[float, Column("r", "+.2f")]
    p: Annotated[float, Column("p", ".2g")]
    slope: Annotated[float, Column("gain in % of a d higher by 1", "+.1f")]
    intercept: float


@dataclass(frozen=True)
class EffectChange:
    """How d of one data set changed from a training's start to its end, over the same resampled queries."""

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
    """All findings; ``notes`` describe the groups; ``gamma`` is γ by step of a model folder."""

    pictures: ClassVar = {
        "effect": "Cohen's d of the norms of relevant documents",
        "correlation": "Effect size and gain over data sets",
        "training": "Norms and their effect through training",
        "gamma": "γ through training",
    }

    derived: ClassVar = ("changes", "conclusion")

    results: list[LengthFinding]
    correlations: list[LengthCorrelation]
    notes: list[str]
    gamma: list[dict[str, float]] = field(default_factory=list)

    @property
    def changes(self) -> list[EffectChange]:
        """The change of d through training on every data set that has its interval at both ends."""
        trained = grouped((result for result in self.results if result.step is not None), "task")
        changes = (change_of(stages[0], stages[-1]) for stages in trained.values())
        return [change for change in changes if change is not None]

    @property
    def conclusion(self) -> str:
        if any(result.step is not None for result in self.results):
            text = _through_training(self)
        else:
            text = _single(self.results[0]) if len(self.results) == 1 else _several(self.results)
        for line in self.correlations:
            text += f"; {line.encoder}: r of d and the gain = {line.r:+.2f} (p = {line.p:.2g})"
        return f"{text}."

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        tables = {
            "magnitude": [result.row() for result in self.results],
            "correlation": plain(self.correlations),
            "change": plain(self.changes),
            "gamma": self.gamma,
        }
        return {name: rows for name, rows in tables.items() if rows}

    def sheets(self) -> list[Sheet]:
        ratios = dict.fromkeys((r.cv_ratio.of, r.cv_ratio.over) for r in self.results if r.cv_ratio is not None)
        gains = dict.fromkeys((r.gain.over, r.gain.of) for r in self.results if r.gain is not None)
        notes = [
            *self.notes,
            *(f"CV ratio: {encoder} over {other}" for encoder, other in ratios),
            *(f"{METRIC}: {before} → {after}" for before, after in gains),
        ]
        title = "norms of embeddings: mean, and Cohen's d of relevant documents"
        sheets = [record_sheet(title, self.results, notes)]
        if self.correlations:
            sheets.append(record_sheet("d and the gain over data sets", self.correlations))
        return sheets

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw d by data set and its correlation with the gain, or both through training; returns the files."""
        if any(result.step is not None for result in self.results):
            return [*_plot_training(self, folder), *_plot_gamma(self, folder)]
        return [*_plot_effects(self, folder), *(_plot_correlations(self, folder) if self.correlations else [])]


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


def _single(result: LengthFinding) -> str:
    effect, gain = result.effect, result.gain
    if math.isnan(effect.low):
        text = "there are too few queries and documents to tell whether relevant documents have larger norms"
    elif not effect.is_clear or effect.size == "negligible":
        text = f"document norms carry little about relevance (d = {effect.value:+.2f})"
    elif effect.value > 0:
        text = f"relevant documents have larger norms ({effect.size} effect), which qnorm or dot can use"
    else:
        text = f"relevant documents have smaller norms ({effect.size} effect), so norms mislead a ranking"
    if gain is not None and gain.percent is not None:
        text += f"; {gain.of}: {gain.percent:+.1f}% {METRIC} against {gain.over}"
    return f"{result.encoder} on {result.task}: {text}"


def _several(results: Sequence[LengthFinding]) -> str:
    clear = [result.effect.value for result in results if result.effect.is_clear and result.effect.size != "negligible"]
    larger = sum(value > 0 for value in clear)
    return (
        f"relevant documents have clearly larger norms in {larger}, clearly smaller norms in {len(clear) - larger} of "
        f"{len(results)} pairs of encoder and data set"
    )


def _through_training(probe: MagnitudeProbe) -> str:
    if not probe.changes:
        text = "there are too few queries and documents to tell how d changed"
    else:
        change = probe.changes[0]
        text = f"from step {change.first_step} to {change.last_step}, d on {change.task} changed by "
        text += f"{change.difference:+.2f} (95%: {change.low:+.2f} to {change.high:+.2f}), "
        text += "a clear change" if change.is_clear else "within the sampling error"
    if probe.gamma:
        ends = probe.gamma[-1]
        text += f"; γq ends at {ends['gamma_query']:.4f} and γd at {ends['gamma_document']:.4f}"
    return text


# --- pictures


def _shade(axes: Axes) -> None:
    """Shade the effect sizes of MAG, Figure 4: the darker, the larger; white is negligible."""
    from retrokit.core.figures import GREY

    edges = [*(least for least, _ in reversed(SIZES)), 100.0]
    for (low, high), alpha in zip(itertools.pairwise(edges), (0.08, 0.16, 0.24), strict=True):
        for sign in (-1, 1):
            axes.axvspan(*sorted((sign * low, sign * high)), color=GREY, alpha=alpha, linewidth=0)


def _plot_effects(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    from retrokit.core.figures import BLUE, ROWS, WIDTH, fitting, plt, save, shown

    results = fitting(probe.results, ROWS, "rows", "effect")
    labels = [f"{shown(result.encoder, 34)}\n{shown(result.task, 34)}" for result in results]
    heights = np.arange(len(results))[::-1]  # the first on top
    values = np.array([(r.effect.value, r.effect.low, r.effect.high) for r in results])
    d, low, high = values.T
    figure, axes = plt.subplots(figsize=(WIDTH, max(2.4, 1.2 + 0.5 * len(results))), layout="constrained")
    axes.set_yticks(heights, labels, fontsize=8)
    axes.set_ylim(-0.7, len(results) - 0.3)
    axes.axvline(0, color="black", linewidth=0.8)
    # where there is no interval, there is no whisker
    errors = np.nan_to_num(np.maximum(0, [d - low, high - d]))
    axes.errorbar(d, heights, xerr=errors, fmt="o", color=BLUE, capsize=3)
    reach = max(0.5, 1.15 * np.abs(values[np.isfinite(values)]).max(initial=0.0))
    axes.set_xlim(-reach, reach)
    _shade(axes)
    axes.set_xlabel("Cohen's d of document norms, 95% interval\n(above 0: relevant documents have larger ones)")
    return save(figure, folder, "effect")


def _plot_correlations(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    from retrokit.core.figures import CURVES, MARKERS, color_of, fitting, legend_above, panels, save, shown

    figure, (axes,) = panels(1, 4.4)
    for index, line in enumerate(fitting(probe.correlations, CURVES, "encoders", "correlation")):
        points = points_of([result for result in probe.results if result.encoder == line.encoder])
        effects, gains = np.array(points).T
        color = color_of(index)
        label = f"{shown(line.encoder, 34)}: r = {line.r:+.2f}, p = {line.p:.2g}"
        axes.scatter(effects, gains, color=color, marker=MARKERS[index % 3], label=label, zorder=3)
        ends = np.array([effects.min(), effects.max()])
        axes.plot(ends, line.intercept + line.slope * ends, color=color, linewidth=1.5)
    limits = axes.get_xlim()
    _shade(axes)
    axes.set_xlim(limits)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlabel("Cohen's d of document norms (shaded: small, medium, large)")
    axes.set_ylabel(f"gain in {METRIC} (%)")
    legend_above(figure, axes, columns=1)
    return save(figure, folder, "correlation")


def _plot_training(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """MAG, Figures 5 and 13: mean norms of both groups on the left, d on the right."""
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
    tasks = fitting(list(grouped(probe.results, "task").items()), PANELS, "data sets", "training")
    for index, (task, results) in enumerate(tasks):
        steps = [result.step for result in results]
        ending = f", {shown(task, 34)}" if len(tasks) > 1 else ""
        line, color = LINES[index % len(LINES)], color_of(index)
        relevant = [result.relevant.mean for result in results]
        irrelevant = [result.irrelevant.mean for result in results]
        left.plot(steps, relevant, line, marker=".", color=GREEN, label=f"relevant{ending}")
        left.plot(steps, irrelevant, line, marker=".", color=RED, label=f"irrelevant{ending}")
        d, low, high = np.array([(r.effect.value, r.effect.low, r.effect.high) for r in results]).T
        right.plot(steps, d, line, marker=".", color=color, label=f"d{ending}")
        right.fill_between(steps, low, high, color=color, alpha=0.2, linewidth=0)
    right.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("mean norm of documents' embeddings")
    right.set_ylabel("Cohen's d (band: 95% interval)")
    steps_axis(left)
    steps_axis(right)
    legend_above(figure, *((left, right) if len(tasks) > 1 else (left,)))
    return save(figure, folder, "training")


def _plot_gamma(probe: MagnitudeProbe, folder: str | Path) -> list[Path]:
    """MAG, Figure 6; nothing for a run that learns no γ."""
    from retrokit.core.figures import BLUE, LEAST_GAMMA_RANGE, RED, Curve, curves_figure, save, steps_axis, widen

    if not probe.gamma:
        return []
    curves = []
    for key, label, color, line in (("gamma_query", "γq", BLUE, "-"), ("gamma_document", "γd", RED, "--")):
        points = [(row["step"], row[key]) for row in probe.gamma]
        curves.append(Curve(label, points, color, line, "."))
    figure, axes = curves_figure(curves, "", "γ (0: the norm counts in full, 1: not at all)")
    widen(axes, LEAST_GAMMA_RANGE)
    steps_axis(axes)
    return save(figure, folder, "gamma")


# --- one encoder on one data set


def measure(
    encoder: Encoder,
    task: Retrieval,
    settings: MagnitudeSettings,
    reference: Encoder | None = None,
    cv_reference: Encoder | None = None,
    step: int | None = None,
) -> LengthFinding:
    """Measure norms, effect size and gain: of ``qnorm`` over ``cosine``, or over the ``reference``, each as trained.

    Documents are ranked by angle, not by the encoder's own similarity: a ranking to which the norm contributes
    returns documents of large norm, so its own best, relevant or not, would have larger norms by construction.

    Raises:
        DataError: documents whose norms are all equal, or a group without documents.
    """
    memoized, precision = MemoizedEncoder(encoder), settings.precision
    cosine: Similarity = similarities.registry.create("cosine")
    compared = [cosine]
    if not settings.without_labels:
        scored = similarities.registry.create("qnorm") if reference is None else encoder.similarity
        if scored.spec != cosine.spec:
            compared.append(scored)
    results = task.evaluate(Request(memoized, compared, _RANKED, precision))
    norms = row_norms(memoized.embed(task.data.documents, "document", precision))
    if len(norms) and norms.std() <= _SAME_NORM * norms.mean():
        problem = f"all documents' embeddings have the norm {norms.mean():.4g}: there is nothing to probe"
        raise DataError(encoder.spec, problem)
    groups = _groups(task, results[0].run, norms, settings)
    relevant, irrelevant = (Lengths(group.count, group.mean, group.deviation) for group in groups)
    queries = _query_norms(memoized, task, precision)
    gain = None if settings.without_labels else _gain(results, encoder, task, reference, precision)
    ratio = None
    if cv_reference is not None:
        cv = _query_norms(cv_reference, task, precision).cv
        ratio = CvRatio(_named(encoder), _named(cv_reference), queries.cv / cv if cv > _SAME_NORM else None)
    effect = bootstrapped_d(*groups, settings.seed)
    return LengthFinding(
        encoder=encoder.name,
        task=task.spec,
        step=step,
        queries=queries,
        cv_ratio=ratio,
        relevant=relevant,
        irrelevant=irrelevant,
        effect=effect,
        gain=gain,
    )


def _gain(
    results: Sequence[Result], encoder: Encoder, task: Retrieval, reference: Encoder | None, precision: str
) -> Gain:
    """Of the last result over the first; with a reference, over it, both as they were trained (MAG, Figure 4)."""
    first, last = results[0], results[-1]
    if reference is None:
        return Gain(last.similarity, first.similarity, last.metrics[METRIC], first.metrics[METRIC])
    (other,) = task.evaluate(Request(reference, [reference.similarity], _RANKED, precision))
    return Gain(_named(encoder), _named(reference), last.metrics[METRIC], other.metrics[METRIC])


def _named(encoder: Encoder) -> str:
    """An encoder as it was trained."""
    return f"{encoder.name} {encoder.similarity.spec}"


def _query_norms(encoder: Encoder, task: Retrieval, precision: str) -> Lengths:
    norms = row_norms(encoder.embed(task.data.queries, "query", precision))
    return Lengths(len(norms), float(norms.mean()), float(norms.std()))


def _rows_of_groups(
    task: Retrieval, run: Mapping[str, Mapping[str, float]], stand_ins: int | None
) -> tuple[list[list[int]], list[list[int]]]:
    """For each query, the rows of its relevant documents, and those of the others in its ranking."""
    rows = {document: row for row, document in enumerate(task.data.document_ids)}
    judged: defaultdict[str, list[str]] = defaultdict(list)
    for query, document in task.data.pairs():
        judged[query].append(document)
    relevant, others = [], []
    for query in task.data.query_ids:
        ranking = list(run[query])  # best first
        chosen = dict.fromkeys(judged[query] if stand_ins is None else ranking[:stand_ins])
        relevant.append([rows[document] for document in chosen])
        others.append([rows[document] for document in ranking if document not in chosen])
    return relevant, others


def _groups(
    task: Retrieval, run: Mapping[str, Mapping[str, float]], norms: np.ndarray, settings: MagnitudeSettings
) -> tuple[Moments, Moments]:
    """The norms of relevant and of irrelevant documents, a cluster per query; a document counts for each query."""
    relevant, others = _rows_of_groups(task, run, settings.stand_ins)
    origin = float(norms.mean())
    first = Moments.of((norms[clustered] for clustered in relevant), origin)
    if settings.irrelevant == "all":
        second = Moments(Moments.of([norms], origin).table - first.table, origin)
    else:
        second = Moments.of((norms[clustered] for clustered in others), origin)
    for group, name in ((first, "relevant"), (second, "irrelevant")):
        if not group.count:
            problem = f"no {name} documents: it takes judged ones and others in a query's best {DEPTH}"
            raise DataError(task.spec, problem)
    return first, second


# --- several encoders and data sets, or the stages of a training


@taking(MagnitudeSettings)
def probe_magnitude(settings: MagnitudeSettings) -> MagnitudeProbe:
    """Probe every encoder on every data set; over three data sets or more, correlate d with the gain. With
    ``checkpoints``, probe the start, the checkpoints and the end of one model folder (MAG, Figures 5, 6).

    Raises:
        UsageError: wrong names (all of them in one message), a task that is no retrieval, or a model folder that is
            not finished or has no checkpoints.
        DataError: a task's files, or groups that cannot be compared.
    """
    references = [spec for spec in (settings.reference_encoder, settings.cv_reference) if spec is not None]
    parse_names([*settings.encoders, *references], *((evaluation.registry, spec) for spec in settings.on))
    stages = _stages(settings.encoders[0]) if settings.checkpoints else []
    tasks, notes = _read_tasks(settings), [_method(settings)]
    if settings.checkpoints:
        results = _measure_stages(stages, tasks, settings, notes)
        return MagnitudeProbe(results, [], notes, _gamma_curve(settings.encoders[0]))
    loaded: dict[str | None, Encoder] = {}
    for spec in dict.fromkeys(references):
        loaded[spec] = MemoizedEncoder(encoder_names.registry.create(spec, device=settings.device))
    reference, cv_reference = loaded.get(settings.reference_encoder), loaded.get(settings.cv_reference)
    results = []
    for encoder in encoders_of(settings):
        results += [measure(encoder, task, settings, reference, cv_reference) for task in tasks]
    return MagnitudeProbe(results, [] if settings.without_labels else _correlations(results), notes)


def _measure_stages(
    stages: Sequence[tuple[int, str]], tasks: Sequence[Retrieval], settings: MagnitudeSettings, notes: list[str]
) -> list[LengthFinding]:
    """The findings at every stage of a training. If its start cannot be loaded, one of the ``notes`` says so."""
    results = []
    for step, spec in stages:
        try:
            encoder = encoder_names.registry.create(spec, device=settings.device)
        except RetrokitError as error:
            if step:
                raise
            notes.append(f"step 0 is left out: {error}")
            continue
        results += [measure(encoder, task, settings, step=step) for task in tasks]
    return results


def probe_training(run: str, on: Sequence[str], **options: Any) -> MagnitudeProbe:
    """:func:`probe_magnitude` of a finished model folder's start, checkpoints and end."""
    return probe_magnitude([run], on, checkpoints=True, **options)


def _read_tasks(settings: MagnitudeSettings) -> list[Retrieval]:
    """The retrieval tasks; without labels also BEIR folders that have no judgements. A notice describes each."""
    tasks = []
    for spec in settings.on:
        parsed = evaluation.registry.parse(spec)
        path = parsed.path
        if settings.without_labels and parsed.name == "beir" and Path(path).is_dir() and not has_judgements(path):
            tasks.append(Retrieval(read_unjudged(path)))
            tasks[-1].spec = str(parsed)
        else:
            tasks.append(read_retrieval(spec))
    for task in tasks:
        notice(task.describe())
    return tasks


def _method(settings: MagnitudeSettings) -> str:
    """How the groups are formed, and d."""
    best = f"a query's best {settings.stand_ins} documents by angle, in place of labels"
    relevant = best if settings.without_labels else "judged with a grade above 0"
    rest = f"the others of a query's best {DEPTH} by angle" if settings.irrelevant == "top" else "all others"
    return f"relevant: {relevant}; irrelevant: {rest}; d: 95% interval over resampled queries, from two queries on"


def _correlations(results: Sequence[LengthFinding]) -> list[LengthCorrelation]:
    """Correlate d with the gain over each encoder's data sets: three or more, which differ in both."""
    correlations = []
    for encoder, findings in grouped(results, "encoder").items():
        points = points_of(findings)
        if len(points) >= LEAST_FOR_CORRELATION and min(np.ptp(points, axis=0)) >= 1e-12:
            correlations.append(correlate(encoder, points))
    return correlations


def _stages(folder: str) -> list[tuple[int, str]]:
    """(step, encoder spec) of the start, of each checkpoint and of the end, in order."""
    run = read_run(folder, "encoder").finished(folder)
    stages: dict[int, str] = {}
    for checkpoint in checkpoints_in(Path(folder) / "checkpoints"):
        if is_run(checkpoint):
            stages[read_run(checkpoint, "step").step or 0] = str(checkpoint)
    if not stages:
        raise UsageError(f"{folder} has no checkpoints; train with `save_every=` N `keep_checkpoints=` MANY")
    if run.outcome is None:
        raise DataError(Path(folder, RUN_FILE), "is not the description of a finished run: no field 'outcome'")
    stages.setdefault(run.outcome.get("best_step") or run.outcome["steps"], folder)
    return sorted({0: run.encoder, **stages}.items())


def _gamma_curve(folder: str) -> list[dict[str, float]]:
    """γq and γd of every logged step of a training whose similarity learns them; empty for others."""
    keys = ("step", "gamma_query", "gamma_document")
    rows = (row for row in read_metrics(folder) if {*keys} <= {*row})
    by_step = {row["step"]: {key: row[key] for key in keys} for row in rows}
    return [by_step[step] for step in sorted(by_step)]
