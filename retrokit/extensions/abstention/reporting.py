"""What a calibrated searcher answers, on judged queries that did not calibrate it."""

from __future__ import annotations

import numpy as np

from retrokit.core.errors import GateFailed
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.extensions.abstention.calibrating import judged_task
from retrokit.extensions.abstention.calibration import read_calibration
from retrokit.extensions.abstention.results import AbstentionReport
from retrokit.extensions.abstention.searcher import abstain, report_drift
from retrokit.extensions.abstention.settings import ReportSettings
from retrokit.extensions.abstention.signals import DEPTH
from retrokit.metrics.significance import share_of


@taking(ReportSettings)
def report(settings: ReportSettings) -> AbstentionReport:
    """Measure what the calibration in ``file`` answers of the judged queries of the task ``on``, with and without their
    relevant documents. Queries that calibrated it are left out.

    Raises:
        UsageError: wrong names or options, other documents or another system than those of the calibration, or more
            than half of the queries calibrated it.
        DataError: files that cannot be read.
    """
    calibration = read_calibration(settings.file)
    task = judged_task(settings.on, settings.device)
    task.check_metrics(settings.metrics)
    names = list(settings.metrics or task.shown_metrics)
    rows = calibration.unseen(task.queries, task.spec)
    if seen := len(task.queries) - len(rows):
        notice(f"{task.spec}: {seen:,} of {len(task.queries):,} queries calibrated {settings.file} and are left out")
    searcher = abstain(settings.file, settings.error, settings.index_folder, settings.device)
    index = searcher.index(task.documents)
    removed = [out | relevant for out, relevant in zip(task.left_out, task.relevant, strict=True)]
    rankings = index.inner.search_without(task.queries, DEPTH, task.left_out)
    signals = index.signals(task.queries, rankings)[rows]
    nulls = index.signals(task.queries, index.inner.search_without(task.queries, DEPTH, removed))[rows]
    measured = task.measure_index(index.inner, names, task.depth(names), searcher.searcher)
    values = {}
    for name, scores in measured.per_query.items():
        values[name] = np.array([scores[id] for id in task.queries.ids])[rows]
    has_relevant = np.array([bool(positions) for positions in task.relevant])[rows]
    answers = has_relevant & (signals > searcher.threshold)
    error = share_of(nulls > searcher.threshold)
    return AbstentionReport(
        file=settings.file,
        system=calibration.system,
        task=task.spec,
        promised=settings.error,
        signal=calibration.signal,
        threshold=searcher.threshold,
        queries=int(has_relevant.sum()),
        answered=float(answers.sum() / max(1, has_relevant.sum())),
        without=error.pairs,
        error=error.value,
        low=error.low,
        high=error.high,
        metrics={name: _mean(scores[answers]) for name, scores in values.items()},
        baseline={name: _mean(scores[has_relevant]) for name, scores in values.items()},
        drift_p=report_drift(searcher, nulls, calibration.nulls),
    )


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def check_error(report: AbstentionReport, max_error: float | None) -> None:
    """Raise :class:`GateFailed` if the measured error is above ``max_error``."""
    if max_error is not None and report.error > max_error:
        measured = f"answers {report.error:.1%} of {report.without:,} queries with nothing relevant on {report.task}"
        raise GateFailed(f"{report.file}: {measured}; `max_error=` {max_error:g} allows {max_error:.1%}")
