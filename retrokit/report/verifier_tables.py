"""Tables of a verifier's training and calibration for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrokit.report.sheets import Table, facts, table
from retrokit.report.tables import length_table, source_table, steps_of

if TYPE_CHECKING:  # showing what is there takes no trainer
    from retrokit.reranking.calibrate import Calibration, Share
    from retrokit.reranking.training.plan import VerifierPreflight


def verifier_preflight_tables(preflight: VerifierPreflight) -> list[Table]:
    """What a run will do, how large the verifier is and how fast."""
    parameters, steps = preflight.parameters, preflight.steps
    rows = {
        "steps": steps_of(steps),
        "examples held out": f"{preflight.held_out:,}",
        "parameters of the verifier": f"{parameters['verifier']:,}",
    }
    if parameters["trainable"] != parameters["verifier"]:
        rows["trainable parameters"] = f"{parameters['trainable']:,}"
    rows["time of a pair"] = f"{preflight.microseconds_per_pair:,.0f} µs from its token embeddings"
    hidden = ("data", "dev", "output", "overwrite", "resume", "steps", "epochs")
    shown = {key: value for key, value in preflight.configuration.items() if key not in hidden and value is not None}
    rows |= {key.replace("_", " "): str(value) for key, value in shown.items()}
    return [source_table(preflight.sources), length_table(preflight.lengths), facts("plan", rows)]


def calibration_table(found: Calibration) -> Table:
    """The threshold, and what it lets in."""
    title = f"{found.pairs['path']}: {found.target:.1%} false accepts asked for"
    made = table(title, [""], ["value", "95% interval", "pairs"])
    low, high = found.interval
    made.add_row("threshold", f"{found.threshold:.6f}", f"{low:.6f} – {high:.6f}", "")
    made.add_row("false accepts", *_cells(found.false_accepts))
    for family, share in found.families.items():
        made.add_row(f"  {family}", *_cells(share))
    made.add_row("true accepts", *_cells(found.true_accepts))
    if found.identical:
        made.add_row("  of them one text twice", "", "", f"{found.identical:,}")
    return made


def _cells(share: Share) -> list[str]:
    return [f"{share.value:.1%}", f"{share.low:.1%} – {share.high:.1%}", f"{share.pairs:,}"]
