"""Sources of a report: results folders, model folders, and ``--json`` output, recognised by their content."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from retrokit.core.errors import DataError
from retrokit.core.notices import heard
from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import COUNT, read_json, restored
from retrokit.data.overlap import Overlap
from retrokit.data.runs import Run, is_run, read_metrics, read_run
from retrokit.evaluation.checking.check import DataCheck
from retrokit.evaluation.comparison.comparison import (
    BaselineChange,
    Comparison,
    Evaluation,
    Explanation,
    Gate,
    OverTasks,
)
from retrokit.evaluation.comparison.correlations import Correlation
from retrokit.evaluation.comparison.systems import systems_of
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.result import Result
from retrokit.evaluation.tasks.pairs import FALSE_ACCEPTS
from retrokit.probing import ProbeEntry
from retrokit.probing import registry as probes
from retrokit.probing.base import Findings
from retrokit.report.evaluation import evaluation_sheets
from retrokit.report.tables import build_sheets
from retrokit.sure.build import Built

EXPECTED = (
    "a results folder (`results=` of an evaluation), a run's folder, or what --json of eval, rerank, probe, check or "
    "build-sure has printed"
)


class EvaluationSource(NamedTuple):
    """An evaluation, where it was read, and of a reranking its rows of near-misses."""

    path: str
    found: Evaluation
    near_misses: list[dict[str, Any]] | None = None


class RunSource(NamedTuple):
    """A run's folder, its description, and the lines of its ``metrics.jsonl``."""

    path: str
    run: Run
    rows: list[dict[str, Any]]


class ProbeSource(NamedTuple):
    """The result of the probe of that name."""

    path: str
    name: str
    found: Findings


@dataclass
class Sources:
    """All sources of a report; ``notices`` are from reading them."""

    evaluations: list[EvaluationSource] = field(default_factory=list)
    rerankings: list[EvaluationSource] = field(default_factory=list)
    runs: list[RunSource] = field(default_factory=list)
    probes: list[ProbeSource] = field(default_factory=list)
    builds: list[tuple[str, list[Sheet]]] = field(default_factory=list)
    checks: list[tuple[str, list[Sheet]]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def read_sources(paths: Sequence[str]) -> Sources:
    """The sources at the ``paths``. Raises :class:`DataError` for a path that a report cannot show."""
    sources = Sources()
    with heard() as sources.notices:
        for path in paths:
            if os.path.isdir(path):
                _read_folder(path, sources)
                continue
            content = read_json(path, EXPECTED, Any)
            with whole(path):
                _sort(path, content, sources)
    return sources


@contextmanager
def whole(path: str) -> Iterator[None]:
    """Raise :class:`DataError` for a file whose values do not fit each other, where they are read or drawn."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        problem = f"looks like a result, but is not whole ({type(error).__name__}: {error})"
        raise DataError(path, problem) from error


def _read_folder(path: str, sources: Sources) -> None:
    if is_run(path):
        sources.runs.append(RunSource(path, read_run(path), list(read_metrics(path))))
        return
    try:
        sources.evaluations.append(EvaluationSource(path, evaluate(results=path)))
    except DataError as error:
        raise DataError(path, f"contains nothing to report; expected {EXPECTED}") from error


def _sort(path: str, content: Any, sources: Sources) -> None:
    entries = content if isinstance(content, list) else [content]
    first = entries[0] if entries and isinstance(entries[0], dict) else {}
    kind = first.get("kind")
    own = {f"probe-{entry.name}": entry for entry in probes.entries() if isinstance(entry, ProbeEntry)}
    if kind in ("evaluation", "reranking"):
        near_misses = restored({"near_misses?": [_NEAR_MISSES]}, first).get("near_misses")
        source = EvaluationSource(path, evaluation_from(first), near_misses)
        if not evaluation_sheets(source.found):  # which also finds what does not fit together
            raise ValueError("there is no result")
        (sources.evaluations if source.near_misses is None else sources.rerankings).append(source)
    elif kind == "build-sure":
        record = {name: value for name, value in first.items() if name != "calls"}
        built: Built = restored(Built, {"folder": Path(path), "record": record, "counts": first.get("calls")})
        sources.builds.append((path, build_sheets(built)))
    elif kind == "check":
        sources.checks.append((path, restored(DataCheck, first).sheets()))
    elif kind in own:
        restored({"conclusion": str}, first)
        probe = own[kind].load_findings().from_json(first)
        if not any(probe.rows().values()):
            raise ValueError("there is no result")
        probe.sheets()  # which also finds what does not fit together
        sources.probes.append(ProbeSource(path, own[kind].name, probe))
    else:
        raise DataError(path, f"is JSON of something else; expected {EXPECTED}")


_EVALUATION = {
    "results": list[dict[str, Any]],
    "seeds": [{"encoders": list[str], "similarities": list[str], "seeds": list[str]}],
    "trained_with": dict[str, str | None],
    "comparisons": list[Comparison],
    "over_tasks": list[OverTasks],
    "shown": dict[str, list[str]],
    "cross": list,
    "correlations": list[Correlation],
    "data": dict[str, str | None],
    "changes": list[BaselineChange],
    "overlaps": list[Overlap],
    "explanations": list[Explanation],
    "gates": list[Gate],
}
_NEAR_MISSES = {
    **dict.fromkeys(("task", "scorer", "similarity", "family"), str),
    **{"near_misses": COUNT, "positive": float | None},
    **dict.fromkeys(("near_miss", "roc_auc", "roc_auc_low", "roc_auc_high", FALSE_ACCEPTS), float),
}
"""What is read of the output of an evaluation, and of a reranking's rows of near-misses."""


def evaluation_from(plain: Mapping[str, Any]) -> Evaluation:
    """An evaluation from the output of :func:`~retrokit.report.evaluation.evaluation_json`: its tests are taken as
    they are."""
    plain = restored(_EVALUATION, plain)
    results = [restored(Result, {"per_query": {}, **result}) for result in plain["results"]]
    main_metrics: dict[str, str] = {}
    for result in results:
        metric = main_metrics.setdefault(result.task, result.main_metric)
        if metric not in result.metrics:
            raise ValueError(f"{result.name} on {result.task} has no {metric}, its main metric")
    trainings = {
        f"{encoder} {similarity}": Training(None, " ".join([*group["encoders"], *group["similarities"]]), seed)
        for group in plain["seeds"]
        for encoder, similarity, seed in zip(group["encoders"], group["similarities"], group["seeds"], strict=True)
    }
    trained = plain["trained_with"]
    systems = [
        replace(system, trained_with=trained.get(system.first.encoder)) for system in systems_of(results, trainings)
    ]
    return Evaluation(
        results,
        systems,
        plain["comparisons"],
        plain["over_tasks"],
        plain["shown"],
        bool(plain["cross"]),
        plain["correlations"],
        {task: partial(str, digest) for task, digest in plain["data"].items() if digest},
        changes=plain["changes"],
        overlaps=plain["overlaps"],
        explanations=plain["explanations"],
        gates=plain["gates"],
    )
