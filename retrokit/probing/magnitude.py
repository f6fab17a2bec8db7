"""What do the lengths of embeddings say about relevance? (MAG 4.3, N.2 and O; Figures 4 to 6 and 13; Tables 25 and 26)

Cohen's d between the lengths of relevant and irrelevant documents says whether a similarity in which document length
counts (``qnorm``, ``dot``) has something to use; the spread of query lengths says how far ``dnorm`` tells queries
apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.errors import DataError, RetrokitError, UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import parse_all
from retrokit.data.beir import has_judgements, read_unjudged
from retrokit.data.jsonl import read_jsonl
from retrokit.data.runs import RUN_FILE, read_run
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.metrics.effect_size import Moments, bootstrapped_d
from retrokit.probing.magnitude_findings import (
    METRIC,
    CvRatio,
    Gain,
    LengthCorrelation,
    LengthFinding,
    Lengths,
    MagnitudeProbe,
    correlate,
    points_of,
)
from retrokit.probing.quality import read_retrieval
from retrokit.probing.settings import DEPTH, MagnitudeOptions
from retrokit.ranking.retrieval.embeddings import row_norms
from retrokit.similarities.base import Similarity

LEAST_FOR_CORRELATION = 3
_RANKED = [METRIC, f"recall@{DEPTH}"]
_SAME_LENGTH = 1e-5  # a coefficient of variation below this is rounding


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
    query_lengths = _query_lengths(memoized, task, options)
    return LengthFinding(
        encoder=encoder.spec,
        task=task.spec,
        queries=query_lengths,
        relevant=relevant,
        irrelevant=irrelevant,
        effect=bootstrapped_d(*groups, options.seed),
        gain=_gain(results, memoized, baseline, task, options) if has_labels else None,
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
        if options.proxies is None:
            chosen = judged[query]
        else:
            chosen = ranking[: options.proxies]
        those = set(chosen)
        relevant.append([at[document] for document in chosen])
        others.append([at[document] for document in ranking if document not in those])
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
    "irrelevant": "all that was found for each query counts as relevant: take all others, or more documents",
}


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
    check_names([*encoders, *others], on)
    tasks = read_tasks(on, options)
    baselines = {spec: MemoizedEncoder(encoder_names.registry.create(spec, device=options.device)) for spec in others}
    gain_over, cv_over = (None if spec is None else baselines[spec] for spec in (baseline, cv_baseline))
    results = []
    for spec in encoders:
        encoder = encoder_names.registry.create(spec, device=options.device)
        results += [measure(encoder, task, options, gain_over, cv_over) for task in tasks]
    correlations, notes = _correlations(results) if options.proxies is None else ([], [])
    return MagnitudeProbe(results, correlations, [how(options), *notes])


def check_names(encoders: Sequence[str], on: Sequence[str]) -> None:
    """Raise :class:`UsageError` for wrong names, all of them in one message."""
    requests = [(encoder_names.registry, spec) for spec in encoders]
    parse_all([*requests, *((evaluation.registry, spec) for spec in on)])


def read_tasks(specs: Sequence[str], options: MagnitudeOptions) -> list[Retrieval]:
    """The retrieval tasks; without labels also those of BEIR folders that hold none. A notice says what is in each."""
    tasks = [_task(spec, options) for spec in specs]
    for task in tasks:
        notice(task.describe())
    return tasks


def _task(spec: str, options: MagnitudeOptions) -> Retrieval:
    parsed = evaluation.registry.parse(spec)
    path = str(parsed.params.get("path", ""))
    if options.proxies is None or parsed.name != "beir" or not Path(path).is_dir() or has_judgements(path):
        return read_retrieval(spec)
    task = Retrieval(read_unjudged(path))
    task.spec = str(parsed)
    return task


def how(options: MagnitudeOptions) -> str:
    """How the groups are made, and d: to be said beside every figure."""
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


# --- through a training


def probe_training(run: str, on: Sequence[str], options: MagnitudeOptions = MagnitudeOptions()) -> MagnitudeProbe:
    """Probe a finished run's checkpoints, the encoder that it started from, and its end (MAG, Figures 5, 6).

    How many there are is ``--save-every`` and ``--keep-checkpoints`` of the training.

    Raises:
        UsageError: no finished run, or one that kept no checkpoints; otherwise as for :func:`probe_magnitude`.
    """
    check_names([run], on)
    stages = _stages(run)
    tasks = read_tasks(on, options)
    results, notes = [], [how(options)]
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
