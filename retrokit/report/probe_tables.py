"""What the probes found, as tables for people and as CSV."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from retrokit.core.errors import disk_errors
from retrokit.core.files import writing
from retrokit.core.frames import frame, to_csv
from retrokit.core.sheet import Sheet
from retrokit.probing.fisher import CANDIDATES, FisherProbe, log10
from retrokit.probing.magnitude_findings import METRIC, LengthFinding, MagnitudeProbe


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


def magnitude_sheets(probe: MagnitudeProbe) -> list[Sheet]:
    """Lengths and effect of every encoder on every data set, or of every step; then the correlations."""
    results = probe.results
    ratios = [result.cv_ratio for result in results if result.cv_ratio is not None]
    gains = [result.gain for result in results if result.gain is not None]
    has_steps = any(result.step is not None for result in results)
    columns = ["encoder", "data set", *["step"][:has_steps], "queries", "CV", *(["CV ratio"] if ratios else [])]
    columns += ["relevant", "irrelevant", "d (95%)", "effect", *([METRIC, "gain"] if gains else [])]
    notes = list(probe.notes)
    notes += [f"CV ratio: {of} over {over}" for of, over in dict.fromkeys((ratio.of, ratio.over) for ratio in ratios)]
    if ratios:
        notes.append("MAG's ΔCV (N.2) is the CV ratio of a dnorm run over a dot run")
    if any(ratio.value is None for ratio in ratios):
        notes.append("–: the queries of the encoder to compare with are all of one length")
    notes += [f"{METRIC}: {over} → {of}" for over, of in dict.fromkeys((gain.over, gain.of) for gain in gains)]
    title = "lengths of embeddings: mean, and Cohen's d of relevant documents"
    rows = [_cells(result, has_steps, bool(ratios), bool(gains)) for result in results]
    lengths = Sheet(title, columns, 2, rows, notes)
    if not probe.correlations:
        return [lengths]
    lines = [
        [line.encoder, str(line.datasets), f"{line.r:+.2f}", f"{line.p:.2g}", f"{line.slope:+.1f}"]
        for line in probe.correlations
    ]
    names = ["encoder", "data sets", "r", "p", "gain in % of a d higher by 1"]
    return [lengths, Sheet("d and the gain over data sets", names, 1, lines)]


def _cells(result: LengthFinding, has_steps: bool, has_ratios: bool, has_gains: bool) -> list[str]:
    queries, effect, gain, ratio = result.queries, result.effect, result.gain, result.cv_ratio
    cells = [result.encoder, result.task, *[str(result.step)][:has_steps], f"{queries.mean:.4g}", f"{queries.cv:.1%}"]
    if has_ratios:
        cells.append("" if ratio is None else "–" if ratio.value is None else f"{ratio.value:.2f}")
    cells += [f"{group.mean:.4g}" for group in (result.relevant, result.irrelevant)]
    interval = "" if math.isnan(effect.low) else f" ({effect.low:+.2f} to {effect.high:+.2f})"
    cells += ["–" if math.isnan(effect.value) else f"{effect.value:+.2f}{interval}", effect.size]
    if has_gains:
        cells.append("" if gain is None else f"{gain.baseline:.4f} → {gain.score:.4f}")
        cells.append("" if gain is None or gain.percent is None else f"{gain.percent:+.1f}%")
    return cells


# --- fisher


def fisher_sheets(probe: FisherProbe) -> list[Sheet]:
    """MAG, Table 2 and Table 3: information by similarity, and κ with the prediction."""
    information, kappa = [], []
    for result in probe.results:
        for name, label in (("document", "document length"), ("query", "query length"), ("angle", "angle")):
            values = [log10(getattr(entry, name)) for entry in result.information]
            information.append([result.encoder, label, *("none" if v is None else f"{v:.2f}" for v in values)])
        of = result.prediction
        logs = [f"{of.log_kappa[name]:.3f}" for name in CANDIDATES]
        difference = f"{of.difference:+.3f} ({of.low:+.3f} to {of.high:+.3f})"
        kappa.append([result.encoder, *logs, difference, of.lower, of.choice])
    scored = [entry.similarity for entry in probe.results[0].information]
    pairs = [f"{result.encoder}: {result.pairs:,} pairs of {result.data}" for result in probe.results]
    notes = [*pairs, "none: exactly 0, by the closed form"]
    columns = ["encoder", *CANDIDATES, "difference (95%)", "lower", "choice"]
    return [
        Sheet("Fisher information, log₁₀ of E[(∂s/∂·)²]", ["encoder", "of", *scored], 2, information, notes),
        Sheet("condition number, log₁₀ κ", columns, 1, kappa, probe.notes),
    ]
