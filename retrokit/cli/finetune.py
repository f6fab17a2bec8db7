"""``retrokit finetune``."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from retrokit.cli.common import (
    AUGMENTATIONS,
    DATA,
    ENCODERS,
    SIMILARITIES,
    TASKS,
    DeviceOption,
    JsonOption,
    app,
    is_first_process,
    show,
    with_names,
)
from retrokit.errors import UsageError
from retrokit.registry import importing

# Panels of the help page.
_loss_option = partial(typer.Option, rich_help_panel="Similarity and loss")
_batch_option = partial(typer.Option, rich_help_panel="Batches and length")
_optimizer_option = partial(typer.Option, rich_help_panel="Optimizer")
_trained_option = partial(typer.Option, rich_help_panel="What is trained")
_evaluation_option = partial(typer.Option, rich_help_panel="Evaluation")
_run_option = partial(typer.Option, rich_help_panel="Run folder")


@app.command(cls=with_names(ENCODERS, SIMILARITIES, DATA, AUGMENTATIONS, TASKS))
def finetune(
    encoder: Annotated[str, typer.Argument(help="Encoder to start from.")],
    data: Annotated[
        list[str],
        typer.Option(help="Training data: FILE.jsonl, -, beir:PATH, hf:NAME; with ,weight=2 to mix. Repeatable."),
    ],
    augment: Annotated[
        list[str] | None,
        typer.Option(help="Make pairs of the data's texts, fresh ones every epoch: crops, dropout, mask. Repeatable."),
    ] = None,
    output: Annotated[str | None, _run_option("--output", "-o", help="Run folder to write.")] = None,
    sim: Annotated[
        str,
        _loss_option(help="Similarity to train with; auto: qnorm or dnorm as a probe predicts (MAG 4.5), else learn."),
    ] = "cosine",
    loss: Annotated[str, _loss_option(help="infonce, or mse on scored pairs.")] = "infonce",
    scale: Annotated[
        str | None,
        _loss_option(help="Multiplier of the scores (infonce: 20; mse: 1); auto: starts as sharp as cosine at 20."),
    ] = None,
    temperature: Annotated[float | None, _loss_option(help="The inverse of --scale.")] = None,
    max_score: Annotated[
        float | None,
        _loss_option(help="With mse: the score that counts as 1. Default: the highest in the data."),
    ] = None,
    directions: Annotated[
        str,
        _loss_option(help="What ranks what: query-to-document, document-to-query, both."),
    ] = "query-to-document",
    batch_size: Annotated[int, _batch_option(help="Examples of a batch, for each process.")] = 64,
    mini_batch: Annotated[
        int | None,
        _batch_option(help="Texts whose activations are held at once (gradient caching)."),
    ] = None,
    epochs: Annotated[float | None, _batch_option(help="Passes over the data. Default: 1.")] = None,
    steps: Annotated[int | None, _batch_option(help="Optimizer steps, instead of --epochs.")] = None,
    time_budget: Annotated[
        str | None,
        _batch_option(help="Time to train, e.g. 90s, 4m, 1.5h: as many steps as fit."),
    ] = None,
    lr: Annotated[
        float | None, _optimizer_option(help="Highest learning rate. Default: 2e-5, of a static encoder 0.05.")
    ] = None,
    sim_lr: Annotated[float | None, _optimizer_option(help="Learning rate of what the similarity learns (γ).")] = None,
    weight_decay: Annotated[float, _optimizer_option(help="AdamW's; never on γ, biases and norms.")] = 0.01,
    warmup: Annotated[float, _optimizer_option(help="Steps of linear warm-up; below 1: a share of all steps.")] = 0.1,
    schedule: Annotated[str, _optimizer_option(help="After the warm-up: linear, cosine, constant.")] = "linear",
    max_grad_norm: Annotated[float, _optimizer_option(help="Gradients are clipped to this norm.")] = 1.0,
    adam_betas: Annotated[str, _optimizer_option(help="Adam's β1,β2.")] = "0.9,0.999",
    precision: Annotated[
        str, _optimizer_option(help="fp32, bf16, fp16; auto is bf16 where the machine is faster with it.")
    ] = "auto",
    seed: Annotated[int, _optimizer_option(min=0, help="Of batches, dropout and fresh weights.")] = 0,
    max_length: Annotated[
        int | None,
        _batch_option(help="Tokens of a text while training; the saved encoder keeps its own limit."),
    ] = None,
    freeze: Annotated[
        str | None,
        _trained_option(help="embeddings, first:N (and embeddings), all-but:K (the last K layers)."),
    ] = None,
    matryoshka: Annotated[
        str | None,
        _loss_option(help="Also train these prefixes of the embedding: 64,128."),
    ] = None,
    lora: Annotated[
        int | None,
        _trained_option(help="Train low-rank updates of this rank; merged when saved."),
    ] = None,
    dropout: Annotated[
        float | None,
        _trained_option(help="Dropout probability, instead of the encoder's own."),
    ] = None,
    evaluate_on: Annotated[
        str | None,
        _evaluation_option("--eval", help="Task to evaluate on, before and after; the best trained weights are kept."),
    ] = None,
    eval_every: Annotated[int | None, _evaluation_option(help="Evaluate every N steps too.")] = None,
    best_metric: Annotated[
        str | None, _evaluation_option(help="Metric that decides. Default: the task's main one.")
    ] = None,
    patience: Annotated[int | None, _evaluation_option(help="Stop after N evaluations without a better one.")] = None,
    log_every: Annotated[int, _run_option(help="Steps of a line in metrics.jsonl.")] = 10,
    save_every: Annotated[
        int | None,
        _run_option(help="Steps between checkpoints. Default: --eval-every, else a tenth of the run, at least 50."),
    ] = None,
    keep_checkpoints: Annotated[int, _run_option(help="Checkpoints to keep, besides the best.")] = 1,
    device: DeviceOption = None,
    overwrite: Annotated[bool, _run_option("--overwrite", help="Replace the run in the output folder.")] = False,
    resume: Annotated[bool, _run_option("--resume", help="Go on from the last checkpoint.")] = False,
    dry_run: Annotated[bool, _run_option("--dry-run", help="Check everything, print the plan, stop.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune an encoder with any similarity.

    retrokit finetune minilm --data pairs.jsonl --sim qnorm -o runs/qnorm

    retrokit finetune minilm --data beir:data/scifact,split=train --eval beir:data/scifact --steps 200 -o runs/scifact

    retrokit finetune static --data texts.jsonl --augment crops --time-budget 4m -o runs/crops
    """
    from retrokit.training.config import FinetuneConfig, parse_duration, parse_numbers

    betas = parse_numbers("--adam-betas", adam_betas, float, count=2)
    config = FinetuneConfig(
        encoder=encoder,
        data=tuple(data),
        augment=tuple(augment or ()),
        output=output,
        sim=sim,
        loss=loss,
        scale=scale if scale in (None, "auto") else parse_numbers("--scale", scale, float, count=1)[0],
        temperature=temperature,
        max_score=max_score,
        directions=directions,
        batch_size=batch_size,
        mini_batch=mini_batch,
        epochs=epochs,
        steps=steps,
        time_budget=None if time_budget is None else parse_duration(time_budget),
        lr=lr,
        sim_lr=sim_lr,
        weight_decay=weight_decay,
        warmup=warmup,
        schedule=schedule,
        max_grad_norm=max_grad_norm,
        adam_betas=(betas[0], betas[1]),
        precision=precision,
        seed=seed,
        max_length=max_length,
        freeze=freeze,
        matryoshka=tuple(parse_numbers("--matryoshka", matryoshka, int)) if matryoshka is not None else (),
        lora=lora,
        dropout=dropout,
        eval=evaluate_on,
        eval_every=eval_every,
        best_metric=best_metric,
        patience=patience,
        log_every=log_every,
        save_every=save_every,
        keep_checkpoints=keep_checkpoints,
        device=device,
        overwrite=overwrite,
        resume=resume,
    )
    if output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    with importing():
        from retrokit.training.finetune import plan, run
    from retrokit.report import tables
    from retrokit.report.terminal import console

    made = plan(config)
    if dry_run:
        show(*([tables.to_json(made.preflight.to_json())] if as_json else tables.preflight_tables(made.preflight)))
        return
    if is_first_process():
        for table in tables.preflight_tables(made.preflight):
            console(error=True).print(table)
    outcome = run(made)
    if is_first_process():
        from retrokit.report.plots import training_plots

        training_plots(outcome.folder)
        show(tables.to_json(outcome.to_json()) if as_json else tables.outcome_table(outcome))
