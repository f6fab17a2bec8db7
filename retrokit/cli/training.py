"""What commands that train share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from retrokit.cli.common import show, show_record, show_result
from retrokit.cli.streams import is_first_process
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import imported
from retrokit.core.settings import setting

if TYPE_CHECKING:  # help is shown without loading what trains
    from retrokit.training.config import TrainingConfig
    from retrokit.training.run import Job

DRY_RUN = setting(False, "Check data and encoder, print the plan, train nothing.")
TIME = setting(False, "With `dry_run=`: measure some steps and estimate the total.", needs=("dry_run",))


def train_encoder(planner: str, config: TrainingConfig, dry_run: bool, time: bool, as_json: bool) -> None:
    """Check the options of a command that trains an encoder, plan by the function that ``planner`` names as
    ``"module:function"``, and train."""
    check_files_of(config, dry_run)
    planned: Job = imported(planner)(config, dry_run=dry_run)
    from retrokit.report.tables import preflight_sheets

    if time:
        from retrokit.training.run import timed

        notice("--time: a few steps are timed, at a learning rate of 0")
        planned = timed(planned)

    def draw(folder: str) -> None:
        from retrokit.report.plots import training_plots

        training_plots(folder)

    train_as_planned(planned, preflight_sheets, dry_run, as_json, draw)


def check_files_of(config: TrainingConfig, dry_run: bool) -> None:
    """Raise :class:`UsageError` if no model folder is named, and :class:`DataError` for data that are not there."""
    from retrokit.data.pairs import check_files

    if config.output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    check_files(config.data)


def train_as_planned(
    plan: Job,
    tables_of: Callable[[Any, type[TrainingConfig]], Sequence[Any]],
    dry_run: bool,
    as_json: bool,
    draw: Callable[[str], None] = lambda folder: None,
) -> None:
    """Print the plan, train, and print the outcome; ``draw`` draws the figures of a model folder."""
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
        show_record(as_json, "training", outcome)
