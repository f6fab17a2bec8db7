"""Tables of near-misses, and of what rerankers cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from retrokit.core.sheet import Sheet, digits
from retrokit.evaluation.comparison.near_misses import FALSE_ACCEPTS
from retrokit.evaluation.result import Result


def near_miss_sheets(near_misses: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """A table for each task, of the rows of a reranking's near-misses."""
    return [_near_miss_sheet(near_misses, task) for task in dict.fromkeys(row["task"] for row in near_misses)]


def _near_miss_sheet(near_misses: Sequence[Mapping[str, Any]], task: str) -> Sheet:
    rows = []
    for row in near_misses:
        if row["task"] == task:
            area = digits(row["roc_auc"], ".3f")
            if row["roc_auc_low"] is not None:
                area += f" [{row['roc_auc_low']:.3f}, {row['roc_auc_high']:.3f}]"
            words = [row["scorer"], row["similarity"], row["family"]]
            numbers = [f"{row['near_misses']:,}", f"{row['near_miss']:.3f}", digits(row["positive"], ".3f"), area]
            rows.append([*words, *numbers, f"{row[FALSE_ACCEPTS]:.1%}"])
    columns = ["system", "similarity", "family", "pairs", "near-misses", "positives", "ROC-AUC", "false-accept rate"]
    caption = (
        "mean scores of near-misses (COMP, Figure 3) and of positives, each on the system's own scale; ROC-AUC of all "
        "positives against the near-misses, with 95% bootstrap interval; false-accept rate: near-misses that reach the "
        "score of 95% of the positives"
    )
    return Sheet(task, columns, 3, rows, caption)


def cost_sheet(results: Sequence[Result]) -> Sheet:
    """What each reranker took."""
    rows = []
    for result in results:
        cost = result.configuration.get("cost")
        if cost is None:
            continue
        recall = result.metrics.get(f"recall@{result.configuration.get('depth')}")
        rows.append(
            [
                result.task,
                result.encoder,
                result.configuration["reranker"],
                f"{cost['pairs']:,}",
                f"{cost['pairs_computed']:,}",
                f"{cost['seconds']:.1f}",
                _milliseconds(cost.get("milliseconds_per_pair")),
                _milliseconds(cost.get("milliseconds_per_query")),
                digits(recall),
            ]
        )
    columns = [
        "task",
        "first stage",
        "reranker",
        "pairs",
        "computed now",
        "seconds",
        "ms a pair",
        "ms a query",
        "reachable recall",
    ]
    caption = (
        "reachable recall: the share of relevant documents among those that are reranked; seconds: of the second stage"
    )
    return Sheet("cost", columns, 3, rows, caption)


def _milliseconds(duration: float | None) -> str:
    return digits(duration, ".3g" if duration is not None and duration < 100 else ",.0f")
