"""What commands that train share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrokit.cli.common import is_first_process, show, show_result
from retrokit.core.notices import notice

if TYPE_CHECKING:  # help is shown without loading what trains
    from retrokit.training.config import TrainingConfig
    from retrokit.training.run import Job

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check data and encoder, print the plan, train nothing.")]


def train_as_planned(
    plan: Job,
    tables_of: Callable[[Any, type[TrainingConfig]], Sequence[Any]],
    dry_run: bool,
    as_json: bool,
    draw: Callable[[str], None] = lambda folder: None,
) -> None:
    """Print the plan, train, and print the outcome; ``draw`` draws the figures of a model folder."""
    from retrokit.report.tables import outcome_sheet
    from retrokit.training.run import carry_out

    shown = tables_of(plan.preflight, type(plan.config))
    if dry_run:
        show_result(as_json, "preflight", plan.preflight.to_json(), *shown)
        done = f"read all data, loaded {plan.config.encoder}, measured samples of texts"
        return notice(f"dry run: {done}; nothing was trained, evaluated or written")
    if is_first_process():
        show(*shown, error=True)
    outcome = carry_out(plan)
    if is_first_process():
        draw(outcome.folder)
        show_result(as_json, "training", outcome.to_json(), outcome_sheet(outcome))
