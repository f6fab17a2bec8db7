"""``retrokit finetune``."""

from __future__ import annotations

import typer

from retrokit.cli.common import JsonOption, app, is_first_process, show, with_names
from retrokit.cli.settings import takes
from retrokit.errors import UsageError
from retrokit.registry import importing
from retrokit.training.config import RUN, FinetuneConfig


@app.command(cls=with_names("encoders", "similarities", "data", "augmentations", "tasks"))
@takes(FinetuneConfig)
def finetune(
    config: FinetuneConfig,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check everything, print the plan, stop.", rich_help_panel=RUN
    ),
    as_json: JsonOption = False,
) -> None:
    """Fine-tune an encoder with any similarity.

    retrokit finetune minilm --data pairs.jsonl --sim qnorm -o runs/qnorm

    retrokit finetune minilm --data beir:data/scifact,split=train --eval beir:data/scifact --steps 200 -o runs/scifact

    retrokit finetune static --data texts.jsonl --augment crops --time-budget 4m -o runs/crops
    """
    if config.output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    with importing():
        from retrokit.training.finetune import plan
        from retrokit.training.run import carry_out
    from retrokit.report import tables
    from retrokit.report.terminal import console

    made = plan(config)
    if dry_run:
        show(*([tables.to_json(made.preflight.to_json())] if as_json else tables.preflight_tables(made.preflight)))
        return
    if is_first_process():
        for table in tables.preflight_tables(made.preflight):
            console(error=True).print(table)
    outcome = carry_out(made)
    if is_first_process():
        from retrokit.report.plots import training_plots

        training_plots(outcome.folder)
        show(tables.to_json(outcome.to_json()) if as_json else tables.outcome_table(outcome))
