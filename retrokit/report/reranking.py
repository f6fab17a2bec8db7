"""What ``retrokit rerank`` measured: tables, JSON and CSV of both stages, of near-misses, and of what it cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from retrokit.core.sheet import Sheet, digits
from retrokit.data.jsonl import to_json
from retrokit.evaluation.result import Result
from retrokit.evaluation.tasks.pairs import FALSE_ACCEPTS
from retrokit.evaluation.two_stage import Reranking
from retrokit.report.evaluation import evaluation_csv, evaluation_sheets, form, gate_sheets
from retrokit.report.sheets import SHEETS


def reranking_parts(reranking: Reranking, format: str, with_queries: bool = False) -> list[Any]:
    """What to print, part by part, in one of the formats of ``retrokit eval``. Raises :class:`UsageError` for an
    unknown format."""
    form(format)  # raises for an unknown one
    if format == "json":
        return [to_json(reranking.to_json(with_queries), kind="reranking")]
    if format == "csv":
        return [evaluation_csv(reranking.whole)]
    return [SHEETS[format](sheet) for sheet in reranking_sheets(reranking)]


def reranking_sheets(reranking: Reranking) -> list[Sheet]:
    """The comparison on rankings, a table of near-misses a task, and what each reranker cost."""
    sheets = [] if reranking.rankings is None else evaluation_sheets(reranking.rankings)
    sheets += near_miss_sheets(reranking.near_miss_rows())
    return [*sheets, *gate_sheets(reranking.whole), cost_sheet(reranking.whole.results)]


def near_miss_sheets(near_misses: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """A table for each task, of the rows of a reranking's near-misses."""
    return [_near_miss_sheet(near_misses, task) for task in dict.fromkeys(row["task"] for row in near_misses)]


def _near_miss_sheet(near_misses: Sequence[Mapping[str, Any]], task: str) -> Sheet:
    rows = []
    for row in near_misses:
        if row["task"] == task:
            area = f"{row['roc_auc']:.3f} [{row['roc_auc_low']:.3f}, {row['roc_auc_high']:.3f}]"
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
