"""The sheet of a deployment as a table, as JSON, and its fronts as a picture."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from retrokit.core.figures import color_of, panels, save, shown, wrapped
from retrokit.core.sheet import Sheet
from retrokit.evaluation.comparison.comparison import SIGNIFICANCE
from retrokit.evaluation.deployment import Deployment
from retrokit.ranking.retrieval.stored import QUERIES_TIMED
from retrokit.report.evaluation import difference_of

COSTS = {"row_bytes": "bytes per document", "milliseconds": "milliseconds per query"}
_MARKERS = "os^Dv<>P*Xp"
_SIZES = (64, 30, 14, 8)


def deployment_sheet(deployment: Deployment) -> Sheet:
    """A row for each combination; ← if no row with as few bytes, or as little time, has a higher metric."""
    fronts = {cost: [row.name for row in deployment.front(cost)] for cost in COSTS}
    rows = []
    for row in deployment.rows:
        mark = {cost: " ←" if row.name in names else "  " for cost, names in fronts.items()}
        sizes = [f"{row.row_bytes:,.0f}{mark['row_bytes']}", f"{row.milliseconds:.3f}{mark['milliseconds']}"]
        value, test = [f"{row.result.metrics[deployment.metric]:.4f}"], ["–", "–", "–"]
        if (comparison := row.comparison) is not None:
            interval = f"{comparison.test.low:+.4f} … {comparison.test.high:+.4f}"
            test = [difference_of(comparison), interval, f"{comparison.corrected_p:.2g}"]
        others = [f"{value:.4f}" for name, value in row.result.metrics.items() if name != deployment.metric]
        rows.append([str(row.dims), row.quantize, row.index, *sizes, f"{row.recall:.3f}", *value, *test, *others])
    more = [name for name in deployment.rows[0].result.metrics if name != deployment.metric]
    counts = deployment.rows[0].result.counts
    caption = (
        f"{counts['queries']:,} queries, {counts['documents']:,} documents; bytes: size of the index per document; ms: "
        "CPU time per query, one at a time in one thread (the least of three rounds over "
        f"{min(QUERIES_TIMED, counts['queries'])} queries; faiss searches, NumPy rescores); recall: share of the first "
        f"row's {deployment.depth} documents; difference from the first row, * where p < {SIGNIFICANCE} (the larger of "
        "paired t-test and randomisation test; Holm's correction over the table); ←: best at this cost or less"
    )
    columns = ["dims", "storage dtype", "index", "bytes", "ms", f"recall@{deployment.depth}", deployment.metric]
    columns += ["difference", "95% interval", "Holm p", *more]
    return Sheet(f"{deployment.encoder} {deployment.similarity} on {deployment.task}", columns, 3, rows, caption)


def deployment_json(sheets: Sequence[Deployment]) -> list[dict[str, Any]]:
    """All of it as plain values."""
    plain = []
    for deployment in sheets:
        rows = [
            row.about() | row.result.to_json() | {"comparison": row.comparison and asdict(row.comparison)}
            for row in deployment.rows
        ]
        about = {name: getattr(deployment, name) for name in ("encoder", "similarity", "task", "metric", "depth")}
        fronts = {cost: [row.name for row in deployment.front(cost)] for cost in COSTS}
        plain.append({**about, "rows": rows, "fronts": fronts})
    return plain


def deployment_plot(deployment: Deployment, folder: str | Path, name: str) -> list[Path]:
    """Bytes and time against the metric, a point for each way and a line through those that none beats."""
    colors = {quantize: color_of(place) for place, quantize in enumerate(_in_order(deployment, "quantize"))}
    markers = {index: _MARKERS[place % len(_MARKERS)] for place, index in enumerate(_in_order(deployment, "index"))}
    dims = sorted(_in_order(deployment, "dims"), reverse=True)
    sizes = {dimensions: _SIZES[min(place, len(_SIZES) - 1)] for place, dimensions in enumerate(dims)}
    figure, several = panels(len(COSTS), 3.1)
    for axes, (cost, label) in zip(several, COSTS.items(), strict=True):
        front = deployment.front(cost)
        steps = [(getattr(row, cost), row.result.metrics[deployment.metric]) for row in front]
        axes.plot(*zip(*steps, strict=True), color="black", linewidth=1, drawstyle="steps-post", zorder=1)
        for row in deployment.rows:
            at = getattr(row, cost), row.result.metrics[deployment.metric]
            look: dict[str, Any] = {"color": colors[row.quantize], "marker": markers[row.index], "s": sizes[row.dims]}
            axes.scatter(*at, **look, edgecolor="white", linewidth=0.4, zorder=2)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel(label)
        axes.set_ylabel(shown(deployment.metric))
        axes.grid(alpha=0.3)
    several[0].set_title(
        wrapped(f"{deployment.encoder} {deployment.similarity} on {deployment.task}", 68), fontsize="medium", loc="left"
    )
    plain: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "white"}
    handles = [Line2D([], [], color=colors[quantize], marker="o", label=quantize, **plain) for quantize in colors]
    plain["color"] = "grey"
    handles += [Line2D([], [], marker=markers[index], label=shown(index), **plain) for index in markers]
    for dimensions in dims:
        size = sizes[dimensions] ** 0.5
        handles.append(Line2D([], [], marker="o", markersize=size, label=f"{dimensions} dimensions", **plain))
    handles.append(Line2D([], [], color="black", linewidth=1, label="best at this cost or less"))
    figure.set_figheight(figure.get_figheight() + 0.17 * -(-len(handles) // 3))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8)
    return save(figure, folder, name)


def _in_order(deployment: Deployment, name: str) -> list[Any]:
    return list(dict.fromkeys(getattr(row, name) for row in deployment.rows))
