"""What the probes found, as tables for people and as CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group

from retrokit.core.errors import disk_errors
from retrokit.core.files import writing
from retrokit.core.frames import frame, to_csv
from retrokit.metrics.effect_size import EffectSize
from retrokit.probing.fisher import CANDIDATES, FisherProbe, log10
from retrokit.probing.magnitude_findings import METRIC, CvRatio, LengthFinding, MagnitudeProbe
from retrokit.report.sheets import Table, noted, table


def write_csv(tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: str | Path) -> list[Path]:
    """Write each table as ``NAME.csv`` into the folder; returns the files. A value that there is none of is empty."""
    target = Path(folder)
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
    files = []
    for name, rows in tables.items():
        with writing(target / f"{name}.csv") as stream:
            stream.write(to_csv(frame(rows)))
        files.append(target / f"{name}.csv")
    return files


# --- magnitude


def magnitude_tables(probe: MagnitudeProbe) -> list[Group]:
    """Lengths and effect of every encoder on every data set, or of every step; then the correlations."""
    of_run = any(result.step is not None for result in probe.results)
    with_ratio = any(result.cv_ratio is not None for result in probe.results)
    with_gain = any(result.gain is not None for result in probe.results)
    numbers = [*["step"][:of_run], "queries", "CV", *["CV ratio"][:with_ratio], "relevant", "irrelevant"]
    numbers += ["d (95%)", "effect", *[METRIC, "gain"][: 2 * with_gain]]
    title = "lengths of embeddings: mean, and Cohen's d of relevant documents"
    lengths = table(title, ["encoder", "data set"], numbers)
    for result in probe.results:
        cells = [result.encoder, result.task, *([str(result.step)] if of_run else [])]
        cells += [f"{result.queries.mean:.4g}", f"{result.queries.cv:.1%}"]
        cells += [_ratio_cell(result.cv_ratio)] if with_ratio else []
        cells += [f"{group.mean:.4g}" for group in (result.relevant, result.irrelevant)]
        cells += [_effect_cell(result.effect), result.effect.size]
        lengths.add_row(*cells, *(_gain_cells(result) if with_gain else []))
    notes = [*probe.notes, *_ratio_notes(probe.results), *(_gain_notes(probe.results) if with_gain else [])]
    groups = [noted(lengths, *notes)]
    return [*groups, Group(_correlation_table(probe))] if probe.correlations else groups


def _effect_cell(effect: EffectSize) -> str:
    if math.isnan(effect.value):
        return "–"
    interval = "" if math.isnan(effect.low) else f" ({effect.low:+.2f} to {effect.high:+.2f})"
    return f"{effect.value:+.2f}{interval}"


def _ratio_cell(ratio: CvRatio | None) -> str:
    return "" if ratio is None else "–" if ratio.value is None else f"{ratio.value:.2f}"


def _ratio_notes(results: Sequence[LengthFinding]) -> list[str]:
    """Which encoder's CV is over which one's: MAG's ΔCV is one pair of many."""
    ratios = [result.cv_ratio for result in results if result.cv_ratio is not None]
    notes = [f"CV ratio: {of} over {over}" for of, over in dict.fromkeys((ratio.of, ratio.over) for ratio in ratios)]
    if notes:
        notes.append("MAG's ΔCV (N.2) is the CV ratio of a dnorm run over a dot run")
    if any(ratio.value is None for ratio in ratios):
        notes.append("–: the queries of the encoder to compare with are all of one length")
    return notes


def _gain_cells(result: LengthFinding) -> list[str]:
    if result.gain is None:
        return ["", ""]
    gain = result.gain
    percent = "" if gain.percent is None else f"{gain.percent:+.1f}%"
    return [f"{gain.baseline:.4f} → {gain.score:.4f}", percent]


def _gain_notes(results: Sequence[LengthFinding]) -> list[str]:
    pairs = dict.fromkeys((result.gain.over, result.gain.of) for result in results if result.gain)
    return [f"{METRIC}: {over} → {of}" for over, of in pairs]


def _correlation_table(probe: MagnitudeProbe) -> Table:
    numbers = ["data sets", "r", "p", "gain in % of a d higher by 1"]
    correlations = table("d and the gain over data sets", ["encoder"], numbers)
    for correlation in probe.correlations:
        correlations.add_row(
            correlation.encoder,
            str(correlation.datasets),
            f"{correlation.r:+.2f}",
            f"{correlation.p:.2g}",
            f"{correlation.slope:+.1f}",
        )
    return correlations


# --- fisher


def fisher_tables(probe: FisherProbe) -> list[Group]:
    """MAG, Table 2 and Table 3: information by similarity, and κ with the prediction."""
    scored = [entry.similarity for entry in probe.results[0].information]
    information = table("Fisher information, log₁₀ of E[(∂s/∂·)²]", ["encoder", "of"], scored)
    for result in probe.results:
        for name, label in (("document", "document length"), ("query", "query length"), ("angle", "angle")):
            values = [log10(getattr(entry, name)) for entry in result.information]
            information.add_row(result.encoder, label, *("none" if v is None else f"{v:.2f}" for v in values))
    kappa = table("condition number, log₁₀ κ", ["encoder"], [*CANDIDATES, "difference (95%)", "lower", "choice"])
    for result in probe.results:
        of = result.prediction
        difference = f"{of.difference:+.3f} ({of.low:+.3f} to {of.high:+.3f})"
        kappa.add_row(
            result.encoder, *(f"{of.log_kappa[name]:.3f}" for name in CANDIDATES), difference, of.lower, of.choice
        )
    pairs = [f"{result.encoder}: {result.pairs:,} pairs of {result.data}" for result in probe.results]
    return [noted(information, *pairs, "none: exactly 0, by the closed form"), noted(kappa, *probe.notes)]
