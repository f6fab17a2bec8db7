"""``retrokit rerank train``, ``calibrate`` and ``verify``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from retrokit.cli.common import DeviceOption, JsonOption, PrecisionOption, show, with_names
from retrokit.cli.finetune import DryRunOption, train_as_planned
from retrokit.cli.rerank import group
from retrokit.cli.settings import takes
from retrokit.errors import GateFailed, UsageError
from retrokit.reranking.training.config import VerifierConfig

FolderArgument = Annotated[str, typer.Argument(metavar="RUN", help="Folder that rerank train has made.")]


@group.command(cls=with_names("verifiers", "encoders", "data"))
@takes(VerifierConfig)
def train(
    config: VerifierConfig,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train a verifier on token maps (COMP C, D.3).

    retrokit rerank train transformer minilm --data triplets.jsonl -o runs/verifier
    """
    from retrokit.report.tables import verifier_preflight_tables
    from retrokit.reranking.training.plan import plan_verifier

    if config.output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    train_as_planned(plan_verifier(config), verifier_preflight_tables, dry_run, as_json)


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
    show(tables.to_json(asdict(found)) if as_json else tables.calibration_table(found))


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
