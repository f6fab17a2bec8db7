"""``retrokit rerank train``, ``calibrate`` and ``verify``."""

from __future__ import annotations

from typing import Annotated

import typer

from retrokit.cli.common import DeviceOption, JsonOption, PrecisionOption, is_first_process, show, with_names
from retrokit.cli.rerank import group
from retrokit.cli.settings import takes
from retrokit.errors import GateFailed, UsageError
from retrokit.reranking.training.config import VerifierConfig
from retrokit.training.config import RUN

FolderArgument = Annotated[str, typer.Argument(metavar="RUN", help="Folder that rerank train has made.")]


@group.command(cls=with_names("verifiers", "encoders", "data"))
@takes(VerifierConfig)
def train(
    config: VerifierConfig,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check everything, print the plan, stop.", rich_help_panel=RUN
    ),
    as_json: JsonOption = False,
) -> None:
    """Train a verifier on token maps (COMP C, D.3).

    retrokit rerank train transformer minilm --data triplets.jsonl -o runs/verifier
    """
    from retrokit.report import tables
    from retrokit.report.terminal import console
    from retrokit.reranking.training.plan import plan_verifier
    from retrokit.training.run import carry_out

    if config.output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    plan = plan_verifier(config)
    shown = tables.verifier_preflight_tables(plan.preflight)
    if dry_run:
        show(*([tables.to_json(plan.preflight.to_json())] if as_json else shown))
        return
    if is_first_process():
        for table in shown:
            console(error=True).print(table)
    outcome = carry_out(plan)
    if is_first_process():
        show(tables.to_json(outcome.to_json()) if as_json else tables.outcome_table(outcome))


@group.command()
def calibrate(
    run: FolderArgument,
    pairs: str = typer.Argument(
        ..., help="Held-out pairs: what augment negatives writes; text, near_miss, positive; or labels."
    ),
    false_accept_rate: float = typer.Option(0.05, min=0, max=1, help="Share of pairs to reject that may be accepted."),
    precision: PrecisionOption = "fp32",
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the score from which on a pair is accepted, and store it in the verifier's folder.

    retrokit rerank calibrate runs/verifier heldout.jsonl --false-accept-rate 0.05
    """
    from retrokit.report import tables
    from retrokit.reranking.calibrate import calibrate as find

    found = find(run, pairs, false_accept_rate, precision, device)
    show(tables.to_json(found.to_json()) if as_json else tables.calibration_table(found))


@group.command()
def verify(
    run: FolderArgument,
    pairs: str = typer.Argument("-", help="JSON lines with two texts each; - is standard input."),
    output: str = typer.Option("-", "--output", "-o", help="JSON lines to write; - is standard output."),
    threshold: float | None = typer.Option(
        None, help="Score from which on a pair is accepted. Default: the calibrated one."
    ),
    keep: str = typer.Option("all", help="Lines to write: all, accepted, rejected."),
    fail_on_reject: bool = typer.Option(False, "--fail-on-reject", help="Exit with 1 if a pair is rejected."),
    precision: PrecisionOption = "fp32",
    device: DeviceOption = None,
) -> None:
    """Accept or reject pairs of texts: each line again, with its score and verdict.

    retrokit rerank verify runs/verifier pairs.jsonl --keep accepted -o same.jsonl
    """
    from retrokit.cli.streams import readers_may_leave
    from retrokit.notices import notice
    from retrokit.reranking.verify import verify as judge

    with readers_may_leave():
        verdicts = judge(run, pairs, output, threshold, keep, precision, device)
        notice(f"{verdicts.accepted:,} accepted, {verdicts.rejected:,} rejected at {verdicts.threshold:.6g}")
        if fail_on_reject and verdicts.rejected:
            raise GateFailed(f"{verdicts.rejected:,} of {verdicts.accepted + verdicts.rejected:,} pairs are rejected")
