"""What do the lengths of embeddings say about relevance? (MAG 4.3, N.2 and O; Figures 4 to 6 and 13; Tables 25 and 26)

Cohen's d between the lengths of relevant and irrelevant documents says whether a similarity in which document length
counts (``qnorm``, ``dot``) has something to use; the spread of query lengths says how far ``dnorm`` tells queries
apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from retrokit import encoders, evaluation, similarities
from retrokit.data.beir import has_judgements, read_unjudged
from retrokit.data.jsonl import read_jsonl
from retrokit.encoders.encoder import Encoder
from retrokit.encoders.opening import RUN_FILE
from retrokit.encoders.views import Kept
from retrokit.errors import DataError, RetrokitError, UsageError
from retrokit.evaluation.result import Result
from retrokit.evaluation.retrieval import Retrieval
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
        irrelevant: ``top``: of a query's best 100 documents those that are not judged relevant; ``all``: of all
            documents.
        proxies: without labels, how many of a query's best documents stand in for relevant ones; ``None``: use labels.
        sim: the similarity that ranks; default: the encoder's own, without labels ``cosine``.
    """

    irrelevant: str = "top"
    proxies: int | None = None
    sim: str | None = None
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
class Magnitude:
    """The findings for one encoder on one data set.

    Attributes:
        similarity: what ranked the documents.
        effect: Cohen's d of relevant against irrelevant documents' lengths, the interval over queries drawn anew.
        gain: of qnorm's scores over cosine's on the same embeddings; with a baseline, of the encoder with its own
            similarity over the baseline with its own; ``None`` without labels.
        cv_ratio: coefficient of variation of query lengths over the baseline's (MAG's ΔCV); ``None`` without one.
        step: of a run's checkpoint; 0 is the encoder that it started from.
    """

    encoder: str
    task: str
    similarity: str
    queries: Lengths
    relevant: Lengths
    irrelevant: Lengths
    effect: EffectSize
    gain: Gain | None
    cv_ratio: float | None = None
    step: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        gain = None if self.gain is None else {**vars(self.gain), "percent": self.gain.percent}
        effect = {**vars(self.effect), "size": self.effect.size}
        lengths = {name: getattr(self, name).to_json() for name in ("queries", "relevant", "irrelevant")}
        return {**vars(self), **lengths, "effect": effect, "gain": gain}

    def row(self) -> dict[str, Any]:
        """One flat row of a table."""
        found: dict[str, Any] = {"encoder": self.encoder, "task": self.task, "similarity": self.similarity}
        if self.step is not None:
            found["step"] = self.step
        for name in ("queries", "relevant", "irrelevant"):
            found |= {f"{name}_{key}": value for key, value in getattr(self, name).to_json().items()}
        found |= {"d": self.effect.value, "d_low": self.effect.low, "d_high": self.effect.high}
        if self.gain is not None:
            found |= {"gain_of": self.gain.of, "gain_over": self.gain.over, METRIC: self.gain.score}
            found |= {f"{METRIC}_baseline": self.gain.baseline, "gain_percent": self.gain.percent}
        return found | {"cv_ratio": self.cv_ratio}


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
    step: int | None = None,
) -> Magnitude:
    """Measure lengths, effect size and gain.

    Raises:
        DataError: no relevant or no irrelevant documents, or embeddings that all have the same length.
        UsageError: a similarity that does not fit the encoder.
    """
    kept = Kept(encoder)
    ranker = _ranker(encoder, options)
    results = _evaluated(kept, task, [ranker], options)
    gain = None
    if options.proxies is None:
        gain = _gain(kept, task, options) if baseline is None else _gain_over(baseline, kept, task, options)
    lengths = np.linalg.norm(kept.embed(task.data.documents, "document", options.precision), axis=1)
    _check_lengths(encoder, lengths)
    groups = _groups(task, results[0].run, lengths.astype(np.float64), options)
    query_lengths = _query_lengths(kept, task, options)
    ratio = None
    if baseline is not None:
        ratio = query_lengths.cv / max(_query_lengths(baseline, task, options).cv, 1e-12)
    return Magnitude(
        encoder=encoder.spec,
        task=task.spec,
        similarity=ranker.spec,
        queries=query_lengths,
        relevant=_lengths_of(groups[0]),
        irrelevant=_lengths_of(groups[1]),
        effect=bootstrapped_d(*groups, options.seed),
        gain=gain,
        cv_ratio=ratio,
        step=step,
    )


def _ranker(encoder: Encoder, options: MagnitudeOptions) -> Similarity:
    """What ranks. Without labels the top of the ranking stands in for the relevant documents: a ranking to which
    length contributes would find them longer by construction, so it is by angle alone."""
    if options.sim is not None:
        made: Similarity = similarities.registry.create(options.sim)
        return encoder.similarity if encoder.similarity.spec == made.spec else made
    return encoder.similarity if options.proxies is None else similarities.registry.create("cosine")


def _evaluated(
    encoder: Encoder, task: Retrieval, scored_with: list[Similarity], options: MagnitudeOptions
) -> list[Result]:
    return task.evaluate(encoder, scored_with, list(_RANKED), options.precision)


def _gain(encoder: Encoder, task: Retrieval, options: MagnitudeOptions) -> Gain:
    """Of scoring the same embeddings with qnorm over scoring them with cosine."""
    pair = [similarities.registry.create(name) for name in ("qnorm", "cosine")]
    of, over = _evaluated(encoder, task, pair, options)
    return Gain(of.similarity, over.similarity, of.metrics[METRIC], over.metrics[METRIC])


def _gain_over(baseline: Encoder, encoder: Encoder, task: Retrieval, options: MagnitudeOptions) -> Gain:
    """Of the encoder over another, each scored with its own similarity, as trained (MAG, Figure 4)."""
    of, over = (_evaluated(one, task, [one.similarity], options)[0] for one in (encoder, baseline))
    return Gain(of.name, over.name, of.metrics[METRIC], over.metrics[METRIC])


def _query_lengths(encoder: Encoder, task: Retrieval, options: MagnitudeOptions) -> Lengths:
    embeddings = encoder.embed(task.data.queries, "query", options.precision).astype(np.float64)
    lengths = np.linalg.norm(embeddings, axis=1)
    return Lengths(len(lengths), float(lengths.mean()), float(lengths.std()))


def _lengths_of(group: Moments) -> Lengths:
    return Lengths(group.count, group.mean, group.deviation)


def _check_lengths(encoder: Encoder, lengths: np.ndarray) -> None:
    if len(lengths) and lengths.std() <= _SAME_LENGTH * lengths.mean():
        raise DataError(
            encoder.spec, f"all documents' embeddings have the length {lengths.mean():.4g}: there is nothing to probe"
        )


def _groups(
    task: Retrieval, run: dict[str, dict[str, float]], lengths: np.ndarray, options: MagnitudeOptions
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
) -> MagnitudeProbe:
    """Probe every encoder on every data set; over three data sets or more, correlate d with the gain.

    Args:
        encoder_specs: encoders to probe.
        task_specs: retrieval tasks.
        options: how the groups are made.
        baseline: an encoder that gains and ΔCV are measured against, such as a run trained with cosine.

    Raises:
        UsageError: wrong names (all of them in one message), or a task that is no retrieval.
        DataError: a task's files, or groups that cannot be compared.
    """
    _check_names([*encoder_specs, *([baseline] if baseline else [])], task_specs, options)
    tasks = [_task(spec, options) for spec in task_specs]
    for task in tasks:
        notice(task.describe())
    against = None
    if baseline is not None:
        against = Kept(encoders.registry.create(baseline, device=options.device))
    results = []
    for spec in encoder_specs:
        encoder = encoders.registry.create(spec, device=options.device)
        results += [measure(encoder, task, options, against) for task in tasks]
    correlations, notes = _correlations(results) if options.proxies is None else ([], [])
    return MagnitudeProbe(results, correlations, [_how(options), *notes])


def _check_names(encoder_specs: Sequence[str], task_specs: Sequence[str], options: MagnitudeOptions) -> None:
    requests = [(encoders.registry, spec) for spec in encoder_specs]
    requests += [(evaluation.registry, spec) for spec in task_specs]
    parse_all([*requests, *([(similarities.registry, options.sim)] if options.sim else [])])


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
        relevant = f"relevant: a query's best {options.proxies} documents, in place of labels"
        rest = f"irrelevant: the rest of its best {DEPTH}" if options.irrelevant == "top" else "irrelevant: all others"
    else:
        relevant = "relevant: judged with a grade above 0"
        top = f"irrelevant: a query's best {DEPTH} that are not judged relevant"
        rest = top if options.irrelevant == "top" else "irrelevant: all documents that are not judged relevant"
    return f"{relevant}; {rest}; d with its 95% interval over queries drawn anew"


def _correlations(results: Sequence[Magnitude]) -> tuple[list[Correlation], list[str]]:
    """Correlate d with the gain over each encoder's data sets, or say why not."""
    found, notes = [], []
    for encoder in dict.fromkeys(result.encoder for result in results):
        own = [result for result in results if result.encoder == encoder]
        points = [(r.effect.value, r.gain.percent) for r in own if r.gain and r.gain.percent is not None]
        if len(points) < LEAST_FOR_CORRELATION:
            notes.append(
                f"{encoder}: no correlation of d with the gain: it takes {LEAST_FOR_CORRELATION} data sets with a "
                f"gain, not {len(points)}"
            )
        elif any(np.ptp(side) < 1e-12 for side in zip(*points, strict=True)):
            notes.append(f"{encoder}: no correlation of d with the gain: one of them is the same on all data sets")
        else:
            found.append(correlate(encoder, points))
    return found, notes


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
    _check_names([run], task_specs, options)
    described = _description(Path(run))
    stages = _stages(run, described)
    if options.sim is None and options.proxies is None:  # the encoder that it started from ranks with the same
        options = replace(options, sim=described["similarity"])
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


def _stages(run: str, described: dict[str, Any]) -> list[tuple[int, str]]:
    """(step, encoder spec) of the start, of each checkpoint and of the end, in order."""
    if described.get("status") != "finished":
        raise UsageError(f"{run}: its training is not finished; go on with the same command and --resume")
    kept = sorted((Path(run) / "checkpoints").glob(f"*/{RUN_FILE}"))
    stages = {int(_description(path.parent)["step"]): str(path.parent) for path in kept}
    if not stages:
        raise UsageError(f"{run} kept no checkpoints; train with --save-every N --keep-checkpoints MANY")
    outcome = described["outcome"]
    stages.setdefault(int(outcome["best_step"] or outcome["steps"]), run)
    return sorted({0: described["encoder"], **stages}.items())


def _description(folder: Path) -> dict[str, Any]:
    path = folder / RUN_FILE
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise UsageError(f"{folder} is no retrokit run: it has no {RUN_FILE}") from None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(path, f"is no description of a run: {type(error).__name__} {error}") from None


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
    apart = last.effect.low > first.effect.high or last.effect.high < first.effect.low
    told += (
        ": training changed what document length says about relevance"
        if apart
        else ", within the sampling error: training left what document length says about relevance as it was"
    )
    if curve:
        told += f"; γq ends at {curve[-1]['gamma_query']:.4f} and γd at {curve[-1]['gamma_document']:.4f}"
    return told + "."
