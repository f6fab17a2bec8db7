"""Tables of a calibration, and of what it answers."""

from __future__ import annotations

from retrokit.core.sheet import Sheet
from retrokit.extensions.abstention.results import AbstentionReport, CalibrationReport, Spread

ERROR = "error: share of queries with nothing relevant in the corpus that are answered, promised to be at most"


def calibration_sheet(report: CalibrationReport) -> Sheet:
    """The threshold, and what it gives on held-out queries."""

    def row(name: str, spread: Spread) -> list[str]:
        return [name, f"{spread.mean:.1%}", f"{spread.low:.1%} – {spread.high:.1%}"]

    rows = [
        [f"threshold of the {report.signal}", f"{report.threshold:.6g}", ""],
        row("expected error", report.expected),
        row("realised error", report.error),
        row("answered, of queries with relevant documents", report.answered),
    ]
    if report.wrong is not None:
        rows.append(row("  first document not relevant", report.wrong))
    rows.append(["  the same if all are answered", f"{report.wrong_without:.1%}", ""])
    chosen = ", ".join(f"{name} {count:,}" for name, count in report.chosen.items())
    caption = (
        f"{ERROR} {report.promised:g} on average; {report.calibrated:,} of {report.queries:,} queries set the "
        f"threshold; the other figures: mean and 95% of {report.splits:,} splits (signals: {chosen})"
    )
    title = f"{report.system}, {report.task}: {report.file}"
    return Sheet(title, ["", "value", "95% interval"], 1, rows, caption)


def report_sheet(report: AbstentionReport) -> Sheet:
    """The error, the share answered, and the metrics of all and of the answered queries."""
    rows = [
        [f"threshold of the {report.signal}", f"{report.threshold:.6g}", ""],
        ["error", f"{report.error:.1%}", f"{report.low:.1%} – {report.high:.1%}"],
        ["answered, of queries with relevant documents", f"{report.answered:.1%}", ""],
        *([f"  {name}, of all → of the answered", _change(report, name), ""] for name in report.metrics),
        ["p of a drift from the calibration", f"{report.drift_p:.2g}", ""],
    ]
    caption = (
        f"{ERROR} {report.promised:g} on average; {report.queries:,} queries with and {report.without:,} without "
        "relevant documents; drift: Kolmogorov-Smirnov test"
    )
    title = f"{report.system}, {report.task}: {report.file}"
    return Sheet(title, ["", "value", "95% interval"], 1, rows, caption)


def _change(report: AbstentionReport, name: str) -> str:
    values = report.baseline[name], report.metrics[name]
    return " → ".join("–" if value is None else f"{value:.4f}" for value in values)
