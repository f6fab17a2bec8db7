"""``retrokit finetune``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from retrokit.cli.common import JsonOption
from retrokit.cli.settings import takes
from retrokit.cli.training import DryRunOption, train_as_planned
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.registry import importing
from retrokit.training.config import FinetuneConfig

if TYPE_CHECKING:  # help is shown without loading what trains
    from retrokit.training.run import Job

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
