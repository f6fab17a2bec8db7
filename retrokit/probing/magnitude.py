"""What do the lengths of embeddings say about relevance? (MAG 4.3, N.2 and O; Figures 4 to 6 and 13; Tables 25 and 26)

Cohen's d between the lengths of relevant and irrelevant documents says whether a similarity in which document length
counts (``qnorm``, ``dot``) has something to use; the spread of query lengths says how far ``dnorm`` tells queries
apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from retrokit import encoders, evaluation, similarities
from retrokit.data.beir import has_judgements, read_unjudged
from retrokit.data.jsonl import read_jsonl
from retrokit.data.runs import RUN_FILE, read_run
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import MemoizedEncoder
from retrokit.errors import DataError, RetrokitError, UsageError
from retrokit.evaluation.encoding import row_norms
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics.effect_size import EffectSize, Moments, bootstrapped_d
from retrokit.notices import notice
from retrokit.registry import parse_all
from retrokit.similarities.base import Similarity

METRIC = "ndcg@10"
DEPTH = 100  # irrelevant documents are looked for so far down
LEAST_FOR_CORRELATION = 3
_RANKED = [METRIC, f"recall@{DEPTH}"]
_SAME_LENGTH = 1e-5  # a coefficient of variation below this is rounding

IRRELEVANT = ("top", "all")


@dataclass(frozen=True)
class MagnitudeOptions:
    """How the groups are made.

    Attributes:
        irrelevant: ``top``: of a query's best 100 documents by angle those that are not judged relevant; ``all``: of
            all documents.
        proxies: without labels, how many of a query's best documents by angle stand in for relevant ones; ``None``:
            use labels.
    """

    irrelevant: str = "top"
    proxies: int | None = None
    precision: str = "auto"
    device: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.irrelevant not in IRRELEVANT:
            raise UsageError(f"--irrelevant {self.irrelevant} is none of {', '.join(IRRELEVANT)}")
        if self.proxies is not None and not 1 <= self.proxies < DEPTH:
            raise UsageError(f"--proxies {self.proxies} must be from 1 to {DEPTH - 1}")


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
class Magnitude:
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
        found: dict[str, Any] = {"encoder": self.encoder, "task": self.task}
        if self.step is not None:
            found["step"] = self.step
        for name in ("queries", "relevant", "irrelevant"):
            found |= {f"{name}_{key}": value for key, value in getattr(self, name).to_json().items()}
        effect = self.effect.to_json()
        found |= {"d": effect["value"], "d_low": effect["low"], "d_high": effect["high"]}
        if self.gain is not None:
            found |= {"gain_of": self.gain.of, "gain_over": self.gain.over, METRIC: self.gain.score}
            found |= {f"{METRIC}_baseline": self.gain.baseline, "gain_percent": self.gain.percent}
        if self.cv_ratio is not None:
            found |= {"cv_ratio": self.cv_ratio.value, "cv_ratio_over": self.cv_ratio.over}
        return found


@dataclass(frozen=True)
class Correlation:
    """Pearson's r of d with the gain in percent over data sets, its two-sided p, and the regression line (Figure 4)."""

    encoder: str
    datasets: int
    r: float
    p: float
    slope: float
    intercept: float


@dataclass(frozen=True)
class MagnitudeProbe:
    """All findings; ``notes`` say what was used and what could not be computed; ``curve`` is γ by step of a run."""

    results: list[Magnitude]
    correlations: list[Correlation]
    notes: list[str]
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def conclusion(self) -> str:
        """One plain sentence: what the numbers mean for the user."""
        return _conclusion(self)

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return {
            "results": [result.to_json() for result in self.results],
            "correlations": [dict(vars(found)) for found in self.correlations],
            "gamma": self.curve,
            "notes": self.notes,
            "conclusion": self.conclusion,
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """The tables to keep, each a list of flat rows, by name."""
        tables = {
            "magnitude": [result.row() for result in self.results],
            "correlation": [dict(vars(found)) for found in self.correlations],
            "gamma": [dict(row) for row in self.curve],
        }
        return {name: rows for name, rows in tables.items() if rows}


# --- one encoder on one data set


def measure(
    encoder: Encoder,
    task: Retrieval,
    options: MagnitudeOptions,
    baseline: Encoder | None = None,
    cv_baseline: Encoder | None = None,
    step: int | None = None,
) -> Magnitude:
    """Measure lengths, effect size and gain: of ``qnorm`` over ``cosine``, or over the ``baseline``, each as trained.

    Documents are ranked by angle alone, whatever the encoder's own similarity: a ranking to which length contributes
    finds long documents, so its own best, relevant or not, would be longer by construction.

    Raises:
        DataError: no relevant or no irrelevant documents, or embeddings that all have the same length.
        UsageError: a similarity that does not fit the encoder.
    """
    kept = MemoizedEncoder(encoder)
    cosine: Similarity = similarities.registry.create("cosine")
    scored = similarities.registry.create("qnorm") if baseline is None else encoder.similarity
    has_labels = options.proxies is None
    wanted = [cosine, scored] if has_labels and scored.spec != cosine.spec else [cosine]
    results = task.evaluate(Request(kept, wanted, _RANKED, options.precision))
    gain = None
    if has_labels:
        gain = _gain(results, kept, baseline, task, options)
    lengths = row_norms(kept.embed(task.data.documents, "document", options.precision))
    _check_lengths(encoder, lengths)
    groups = _groups(task, results[0].run, lengths, options)
    query_lengths = _query_lengths(kept, task, options)
    return Magnitude(
        encoder=encoder.spec,
        task=task.spec,
        queries=query_lengths,
        relevant=_lengths_of(groups[0]),
        irrelevant=_lengths_of(groups[1]),
        effect=bootstrapped_d(*groups, options.seed),
        gain=gain,
        cv_ratio=None if cv_baseline is None else _cv_ratio(encoder, query_lengths, cv_baseline, task, options),
        step=step,
    )


def _named(encoder: Encoder) -> str:
    """An encoder as it was trained."""
    return f"{encoder.spec} {encoder.similarity.spec}"


def _gain(
    results: Sequence[Result], encoder: Encoder, baseline: Encoder | None, task: Retrieval, options: MagnitudeOptions
) -> Gain:
    """Of the last result over the first, ``cosine``; or over the baseline as it was trained (MAG, Figure 4)."""
    cosine, of = results[0], results[-1]
    if baseline is None:
        return Gain(of.similarity, cosine.similarity, of.metrics[METRIC], cosine.metrics[METRIC])
    (over,) = task.evaluate(Request(baseline, [baseline.similarity], _RANKED, options.precision))
    return Gain(_named(encoder), _named(baseline), of.metrics[METRIC], over.metrics[METRIC])


def _query_lengths(encoder: Encoder, task: Retrieval, options: MagnitudeOptions) -> Lengths:
    lengths = row_norms(encoder.embed(task.data.queries, "query", options.precision))
    return Lengths(len(lengths), float(lengths.mean()), float(lengths.std()))


def _cv_ratio(encoder: Encoder, own: Lengths, baseline: Encoder, task: Retrieval, options: MagnitudeOptions) -> CvRatio:
    cv = _query_lengths(baseline, task, options).cv
    return CvRatio(_named(encoder), _named(baseline), own.cv / cv if cv > _SAME_LENGTH else None)


def _lengths_of(group: Moments) -> Lengths:
    return Lengths(group.count, group.mean, group.deviation)


def _check_lengths(encoder: Encoder, lengths: np.ndarray) -> None:
    if len(lengths) and lengths.std() <= _SAME_LENGTH * lengths.mean():
        raise DataError(
            encoder.spec, f"all documents' embeddings have the length {lengths.mean():.4g}: there is nothing to probe"
        )


def _groups(
    task: Retrieval, run: Mapping[str, Mapping[str, float]], lengths: np.ndarray, options: MagnitudeOptions
) -> tuple[Moments, Moments]:
    """The lengths of relevant and of irrelevant documents, a cluster per query; a document counts for each query."""
    at = {document: position for position, document in enumerate(task.data.document_ids)}
    relevant, others = [], []
    for query in task.data.query_ids:
        found = list(run[query])  # best first
        if options.proxies is None:
            chosen = {document for document, grade in task.data.qrels[query].items() if grade > 0 and document in at}
        else:
            chosen = set(found[: options.proxies])
        relevant.append([at[document] for document in chosen])
        others.append([at[document] for document in found if document not in chosen])
    origin = float(lengths.mean())
    first = Moments.of((lengths[rows] for rows in relevant), origin)
    if options.irrelevant == "all":
        whole = Moments.of([lengths], origin).table
        second = Moments(whole - first.table, origin)
    else:
        second = Moments.of((lengths[rows] for rows in others), origin)
    for group, name in ((first, "relevant"), (second, "irrelevant")):
        if not group.count:
            raise DataError(task.spec, f"no {name} documents: {_WHY_NONE[name]}")
    return first, second


_WHY_NONE = {
    "relevant": "no judgement has a grade above 0",
    "irrelevant": "all that was found for each query counts as relevant; give --irrelevant all, or more documents",
}


# --- several encoders and data sets


def probe_magnitude(
    encoder_specs: Sequence[str],
    task_specs: Sequence[str],
    options: MagnitudeOptions = MagnitudeOptions(),
    baseline: str | None = None,
    cv_baseline: str | None = None,
) -> MagnitudeProbe:
    """Probe every encoder on every data set; over three data sets or more, correlate d with the gain.

    Args:
        encoder_specs: encoders to probe.
        task_specs: retrieval tasks.
        options: how the groups are made.
        baseline: an encoder that gains are measured against, such as a run trained with ``cosine``.
        cv_baseline: an encoder whose spread of query lengths is compared with, such as a run trained with ``dot``.

    Raises:
        UsageError: wrong names (all of them in one message), a task that is no retrieval, or a baseline for gains
            where there are no labels to measure them by.
        DataError: a task's files, or groups that cannot be compared.
    """
    if baseline is not None and options.proxies is not None:
        raise UsageError("--baseline is for the gain, which takes labels: leave out --without-labels or --baseline")
    others = [spec for spec in dict.fromkeys((baseline, cv_baseline)) if spec is not None]
    _check_names([*encoder_specs, *others], task_specs)
    tasks = [_task(spec, options) for spec in task_specs]
    for task in tasks:
        notice(task.describe())
    made = {spec: MemoizedEncoder(encoders.registry.create(spec, device=options.device)) for spec in others}
    gain_over, cv_over = (None if spec is None else made[spec] for spec in (baseline, cv_baseline))
    results = []
    for spec in encoder_specs:
        encoder = encoders.registry.create(spec, device=options.device)
        results += [measure(encoder, task, options, gain_over, cv_over) for task in tasks]
    correlations, notes = _correlations(results) if options.proxies is None else ([], [])
    return MagnitudeProbe(results, correlations, [_how(options), *notes])


def _check_names(encoder_specs: Sequence[str], task_specs: Sequence[str]) -> None:
    requests = [(encoders.registry, spec) for spec in encoder_specs]
    parse_all([*requests, *((evaluation.registry, spec) for spec in task_specs)])


def _task(spec: str, options: MagnitudeOptions) -> Retrieval:
    """The retrieval task; without labels also that of a BEIR folder that holds none."""
    parsed = evaluation.registry.parse(spec)
    path = str(parsed.params.get("path", ""))
    if options.proxies is not None and parsed.name == "beir" and Path(path).is_dir() and not has_judgements(path):
        task = Retrieval(read_unjudged(path))
        task.spec = str(parsed)
        return task
    made = evaluation.registry.create(parsed)
    if not isinstance(made, Retrieval):
        raise UsageError(f"--on {spec}: this probe needs queries and documents, as in beir:PATH")
    return made


def _how(options: MagnitudeOptions) -> str:
    if options.proxies is not None:
        relevant = f"relevant: a query's best {options.proxies} documents by angle, in place of labels"
        rest = f"irrelevant: the rest of its best {DEPTH}" if options.irrelevant == "top" else "irrelevant: all others"
    else:
        relevant = "relevant: judged with a grade above 0"
        top = f"irrelevant: of a query's best {DEPTH} by angle those that are not judged relevant"
        rest = top if options.irrelevant == "top" else "irrelevant: all documents that are not judged relevant"
    return f"{relevant}; {rest}; d with its 95% interval over queries drawn anew, of which it takes two or more"


def _correlations(results: Sequence[Magnitude]) -> tuple[list[Correlation], list[str]]:
    """Correlate d with the gain over each encoder's data sets, or say why not."""
    found, notes = [], []
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
            found.append(correlate(encoder, points))
    return found, notes


def points_of(results: Sequence[Magnitude]) -> list[tuple[float, float]]:
    """(d, gain in percent) of the data sets that have both."""
    found = [(r.effect.value, r.gain.percent) for r in results if r.gain is not None]
    return [(d, percent) for d, percent in found if percent is not None and not math.isnan(d)]


def correlate(encoder: str, points: Sequence[tuple[float, float]]) -> Correlation:
    """The regression of gains on d; ``points`` are (d, gain in percent) of three data sets or more."""
    from scipy.stats import linregress

    line = linregress(*zip(*points, strict=True))
    return Correlation(encoder, len(points), *map(float, (line.rvalue, line.pvalue, line.slope, line.intercept)))


# --- through training


def probe_training(
    run: str, task_specs: Sequence[str], options: MagnitudeOptions = MagnitudeOptions()
) -> MagnitudeProbe:
    """Probe a finished run's checkpoints, the encoder that it started from, and its end.

    How many there are is ``--save-every`` and ``--keep-checkpoints`` of the training.

    Raises:
        UsageError: no finished run, or one that kept no checkpoints; otherwise as for :func:`probe_magnitude`.
    """
    _check_names([run], task_specs)
    stages = _stages(run)
    tasks = [_task(spec, options) for spec in task_specs]
    for task in tasks:
        notice(task.describe())
    results, notes = [], [_how(options)]
    for step, spec in stages:
        try:
            encoder = encoders.registry.create(spec, device=options.device)
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
    kept = sorted((Path(folder) / "checkpoints").glob(f"*/{RUN_FILE}"))
    stages = {read_run(path.parent, "step").step or 0: str(path.parent) for path in kept}
    if not stages:
        raise UsageError(f"{folder} kept no checkpoints; train with --save-every N --keep-checkpoints MANY")
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


# --- in words


def _conclusion(probe: MagnitudeProbe) -> str:
    results = probe.results
    if any(result.step is not None for result in results):
        return _through_training(results, probe.curve)
    told = _one(results[0]) if len(results) == 1 else _several(results)
    strong = [found for found in probe.correlations if found.p < 0.05]
    if probe.correlations and not strong:
        told += "; d does not predict the gain here (p ≥ 0.05)"
    elif strong:
        direction = "larger" if strong[0].r > 0 else "smaller"
        told += f"; where d is higher, the gain is {direction} (r = {strong[0].r:.2f}, p = {strong[0].p:.2g})"
    return told + "."


def _one(result: Magnitude) -> str:
    effect = result.effect
    way = "longer" if effect.value > 0 else "shorter"
    if math.isnan(effect.value) or math.isnan(effect.low):
        told = "there are too few queries and documents to tell whether relevant documents are longer"
        return f"{result.encoder} on {result.task}: {told}{_gain_told(result.gain)}"
    if not effect.is_clear:
        told = "relevant documents are neither clearly longer nor clearly shorter"
        meaning = "document length says nothing about relevance"
    elif effect.size == "negligible":
        told = f"relevant documents are {way}, but negligibly so"
        meaning = "document length says next to nothing about relevance"
    else:
        told = f"relevant documents are clearly {way} (a {effect.size} effect)"
        meaning = "qnorm or dot can use document length" if effect.value > 0 else "document length misleads a ranking"
    return f"{result.encoder} on {result.task}: {told}, so {meaning}{_gain_told(result.gain)}"


def _gain_told(gain: Gain | None) -> str:
    if gain is None or gain.percent is None:
        return ""
    what = "gains" if gain.percent >= 0 else "loses"
    return f"; {gain.of} {what} {abs(gain.percent):.1f}% {METRIC} against {gain.over}"


def _several(results: Sequence[Magnitude]) -> str:
    longer = sum(result.effect.low > 0 and result.effect.size != "negligible" for result in results)
    shorter = sum(result.effect.high < 0 and result.effect.size != "negligible" for result in results)
    told = (
        f"of {len(results)} pairs of encoder and data set, relevant documents are clearly longer in {longer} "
        f"and clearly shorter in {shorter}"
    )
    if longer > shorter:
        return f"{told}: where they are longer, qnorm or dot can use document length"
    if shorter > longer:
        return f"{told}: where they are shorter, leave document length out of the scores (cosine, dnorm)"
    return f"{told}: document length says little about relevance on the whole"


def _through_training(results: Sequence[Magnitude], curve: Sequence[dict[str, float]]) -> str:
    first_task = [result for result in results if result.task == results[0].task]
    first, last = first_task[0], first_task[-1]
    told = f"from step {first.step} to {last.step}, d on {first.task} went from {first.effect.value:+.2f} to "
    told += f"{last.effect.value:+.2f}"
    if math.isnan(first.effect.low) or math.isnan(last.effect.low):
        told = f"there are too few queries and documents in {first.task} to tell how d went through training"
        return told + _gammas_told(curve) + "."
    apart = last.effect.low > first.effect.high or last.effect.high < first.effect.low
    told += (
        ": training changed what document length says about relevance"
        if apart
        else ", within the sampling error: training left what document length says about relevance as it was"
    )
    return told + _gammas_told(curve) + "."


def _gammas_told(curve: Sequence[dict[str, float]]) -> str:
    if not curve:
        return ""
    return f"; γq ends at {curve[-1]['gamma_query']:.4f} and γd at {curve[-1]['gamma_document']:.4f}"
