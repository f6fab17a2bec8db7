"""``retrokit finetune``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrokit.cli.common import JsonOption, is_first_process, show, show_result
from retrokit.cli.settings import takes
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import importing
from retrokit.training.config import FinetuneConfig, TrainingConfig

if TYPE_CHECKING:  # help is shown without loading what trains
    from retrokit.training.run import Job

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check data and encoder, print the plan, train nothing.")]
TimeOption = Annotated[bool, typer.Option("--time", help="With --dry-run: measure some steps and estimate the total.")]


@takes(FinetuneConfig)
def finetune(
    config: FinetuneConfig,
    dry_run: DryRunOption = False,
    time: TimeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune an encoder with any similarity.

    retrokit finetune minilm --data pairs.jsonl --holdout 0.1 -o runs/mine

    retrokit finetune minilm --data pairs.jsonl --holdout 0.1 --sim qnorm --scale auto -o runs/qnorm

    retrokit finetune static --data texts.jsonl --augment crops --time-budget 4m -o runs/crops
    """
    from retrokit.data.pairs import check_files

    if config.output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    if time and not dry_run:
        raise UsageError("--time needs --dry-run")
    check_files(config.data)
    with importing():
        from retrokit.training.finetune import plan, with_memory
        from retrokit.training.run import timed
    from retrokit.report.tables import preflight_sheets

    def draw(folder: str) -> None:
        from retrokit.report.plots import training_plots

        training_plots(folder)

    if dry_run:
        planned: Job = with_memory(plan(config, dry_run=True))
    else:
        planned = plan(config)
    if time:
        notice("--time: a few steps are timed, at a learning rate of 0")
        planned = timed(planned)
    train_as_planned(planned, preflight_sheets, dry_run, as_json, draw)


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
