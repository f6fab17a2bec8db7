"""Tables of a verifier's training and calibration for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrokit.report.sheets import Table
from retrokit.report.tables import length_table, source_table

if TYPE_CHECKING:  # showing what is there takes no trainer
    from retrokit.reranking.calibrate import Calibration, Share
    from retrokit.training.verifier_training import VerifierPreflight


def verifier_preflight_tables(preflight: VerifierPreflight) -> list[Table]:
    """What a run will do, how large the verifier is and how fast."""
    table = Table(title="plan", title_justify="left", show_header=False)
    table.add_column()
    table.add_column()
    parameters, steps = preflight.parameters, preflight.steps
    table.add_row("steps", f"{steps['total']:,} ({steps['per_epoch']:,} an epoch)")
    table.add_row("examples held out", f"{preflight.held_out:,}")
    table.add_row("parameters of the verifier", f"{parameters['verifier']:,}")
    if parameters["trainable"] != parameters["verifier"]:
        table.add_row("trainable parameters", f"{parameters['trainable']:,}")
    table.add_row("time of a pair", f"{preflight.microseconds_per_pair:,.0f} µs from its token embeddings")
    hidden = ("data", "dev", "output", "overwrite", "resume", "steps", "epochs")
    for key, value in preflight.configuration.items():
        if key not in hidden and value is not None:
            table.add_row(key.replace("_", " "), str(value))
    return [source_table(preflight.sources), length_table(preflight.lengths), table]


def calibration_table(found: Calibration) -> Table:
    """The threshold, and what it lets in."""
    table = Table(title=f"{found.pairs['path']}: {found.target:.1%} false accepts asked for", title_justify="left")
    for column in ("", "value", "95% interval", "pairs"):
        table.add_column(column, justify="left" if not column else "right")
    low, high = found.interval
    table.add_row("threshold", f"{found.threshold:.6f}", f"{low:.6f} – {high:.6f}", "")
    table.add_row("false accepts", *_cells(found.false_accepts))
    for family, share in found.families.items():
        table.add_row(f"  {family}", *_cells(share))
    table.add_row("true accepts", *_cells(found.true_accepts))
    if found.identical:
        table.add_row("  of them one text twice", "", "", f"{found.identical:,}")
    return table


def _cells(share: Share) -> list[str]:
    return [f"{share.value:.1%}", f"{share.low:.1%} – {share.high:.1%}", f"{share.pairs:,}"]
