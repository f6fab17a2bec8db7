"""The rows of near-misses: what each scorer makes of each family, where the test of a gate was measured."""

from collections.abc import Sequence
from typing import Any

from retrokit.data.jsonl import COUNT
from retrokit.evaluation.comparison.systems import System

FALSE_ACCEPTS = "false_accept@95"
"""The metric that only the test of a gate has."""
ALL = "all"
"""The family of a row that is about all families."""
ROW = {
    **dict.fromkeys(("task", "scorer", "similarity", "family"), str),
    **{"near_misses": COUNT, "positive": float | None},
    **dict.fromkeys(("near_miss", "roc_auc", "roc_auc_low", "roc_auc_high", FALSE_ACCEPTS), float),
}
"""What is read of a row of near-misses."""


def tests_gate(system: System) -> bool:
    """Whether the system was measured on near-misses as a gate."""
    return FALSE_ACCEPTS in system.metrics


def near_miss_rows(systems: Sequence[System]) -> list[dict[str, Any]]:
    """A row per scorer and family of near-misses, and one of all families; ``None`` where there is no value."""
    rows = []
    for system in systems:
        if tests_gate(system):
            rows += [_row(system, name) for name in system.metrics if name.startswith("near_miss")]
    return rows


def _row(system: System, name: str) -> dict[str, Any]:
    _, slash, family = name.partition("/")
    area = f"roc_auc{slash}{family}"
    drawn = system.draws(area)
    low, high = drawn.interval if drawn is not None else (None, None)
    return {
        "task": system.task,
        "scorer": system.encoder,
        "similarity": system.similarity,
        "family": family or ALL,
        "near_misses": len(system.per_item(name) or {}),
        "near_miss": system.metrics[name],
        "positive": system.metrics.get(f"positive{slash}{family}"),
        "roc_auc": system.metrics[area],
        "roc_auc_low": low,
        "roc_auc_high": high,
        FALSE_ACCEPTS: system.metrics[f"{FALSE_ACCEPTS}{slash}{family}"],
    }
