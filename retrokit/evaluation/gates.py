"""Gates on an evaluation, for continuous integration: least values, and not worse than the first."""

from __future__ import annotations

import math
from collections.abc import Sequence

from retrokit.errors import GateFailed, UsageError
from retrokit.evaluation.comparison import Evaluation


def parse_gate(text: str) -> tuple[str, float]:
    """``ndcg@10=0.64`` as a metric and its least value.

    Raises:
        UsageError: another form.
    """
    metric, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not metric or not math.isfinite(least):
        raise UsageError(f"--fail-under {text}: expected METRIC=VALUE, as in ndcg@10=0.64")
    return metric.strip(), least


def check_gates(evaluation: Evaluation, fail_under: Sequence[tuple[str, float]], fail_if_worse: bool) -> None:
    """Raise :class:`GateFailed` if a result lies under a least value, or a system is significantly worse than the
    first, by the corrected p."""
    failures = [
        f"{result.name} on {result.task}: {metric} = {result.metrics[metric]:.4f} is under {least:g}"
        for result in evaluation.results
        for metric, least in fail_under
        if metric in result.metrics and result.metrics[metric] < least
    ]
    if fail_if_worse:
        failures += [
            f"{comparison.result} on {comparison.task}: {comparison.metric} is {-comparison.test.difference:.4f} worse "
            f"than {comparison.baseline} (p = {comparison.corrected_p:.3g})"
            for comparison in evaluation.comparisons
            if comparison.significantly_worse and comparison.metric == evaluation.main_metric(comparison.task)
        ]
    if failures:
        raise GateFailed("\n".join(failures))
