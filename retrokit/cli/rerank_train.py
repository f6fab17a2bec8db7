"""``retrokit rerank train``, ``calibrate`` and ``verify``."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from retrokit.cli.common import DATA, ENCODERS, VERIFIERS, DeviceOption, JsonOption, show, with_names
from retrokit.cli.rerank_group import group
from retrokit.errors import GateFailed, UsageError

_data_option = partial(typer.Option, rich_help_panel="Data")
_batch_option = partial(typer.Option, rich_help_panel="Batches and steps")
_optimizer_option = partial(typer.Option, rich_help_panel="Optimizer")
_evaluation_option = partial(typer.Option, rich_help_panel="Evaluation")
_run_option = partial(typer.Option, rich_help_panel="Run folder")

FolderArgument = Annotated[str, typer.Argument(metavar="RUN", help="Folder that rerank train has made.")]
PrecisionOption = Annotated[
    str, typer.Option(help="Of encoding: fp32, bf16, fp16; auto is bf16 where the machine is faster with it.")
]


@group.command(cls=with_names(VERIFIERS, ENCODERS, DATA))
def train(
    verifier: Annotated[str, typer.Argument(help="Verifier to train: cnn, transformer, soft, or with options.")],
    encoder: Annotated[str, typer.Argument(help="Encoder whose token embeddings make the maps.")],
    data: Annotated[
        list[str],
        _data_option(help="Anchor, positive, negatives: FILE.jsonl, -, beir:PATH, hf:NAME; ,weight=2 mixes."),
    ],
    dev: Annotated[
        list[str] | None, _data_option(help="Examples to measure on. Default: a tenth of the anchors, 500 at most.")
    ] = None,
    output: Annotated[str | None, _run_option("--output", "-o", help="Run folder to write.")] = None,
    start: Annotated[
        str | None, _run_option(help="Finished verifier to start from, of the same spec, made for this encoder.")
    ] = None,
    end_to_end: Annotated[
        bool, _optimizer_option("--end-to-end", help="Train the encoder too; it is saved with the verifier.")
    ] = False,
    in_batch: Annotated[int, _batch_option(help="Documents of other examples that an anchor is compared with.")] = 8,
    batch_size: Annotated[
        int | None, _batch_option(help="Examples of a batch. Default: 32 for cnn and transformer, else 128 (COMP D.3).")
    ] = None,
    epochs: Annotated[float | None, _batch_option(help="Passes over the data. Default: 1.")] = None,
    steps: Annotated[int | None, _batch_option(help="Optimizer steps, instead of --epochs.")] = None,
    lr: Annotated[float, _optimizer_option(help="Highest learning rate of the verifier.")] = 1e-4,
    encoder_lr: Annotated[float, _optimizer_option(help="Highest learning rate of the encoder.")] = 1e-5,
    weight_decay: Annotated[float, _optimizer_option(help="AdamW's; never on biases and norms.")] = 0.01,
    warmup: Annotated[float, _optimizer_option(help="Steps of linear warm-up; below 1: a share of all steps.")] = 0.1,
    max_grad_norm: Annotated[float, _optimizer_option(help="Gradients are clipped to this norm.")] = 1.0,
    precision: Annotated[
        str, _optimizer_option(help="Of the encoder: fp32, bf16; auto is bf16 where the machine is faster with it.")
    ] = "auto",
    seed: Annotated[int, _optimizer_option(min=0, help="Of batches, dropout and fresh weights.")] = 0,
    eval_every: Annotated[
        int | None, _evaluation_option(help="Steps between evaluations, each with a checkpoint. Default: a tenth.")
    ] = None,
    best_metric: Annotated[
        str | None,
        _evaluation_option(help="ndcg@10, accuracy or roc_auc: what the kept weights are best in. Default: roc_auc."),
    ] = None,
    patience: Annotated[int | None, _evaluation_option(help="Stop after N evaluations without a better one.")] = None,
    log_every: Annotated[int, _run_option(help="Steps of a line in metrics.jsonl.")] = 10,
    keep_checkpoints: Annotated[int, _run_option(help="Checkpoints to keep, besides the best.")] = 1,
    cache: Annotated[
        str | None, _run_option(help="Folder to keep token embeddings in. Default: in the run, while it trains.")
    ] = None,
    device: DeviceOption = None,
    overwrite: Annotated[bool, _run_option("--overwrite", help="Replace the run in the output folder.")] = False,
    resume: Annotated[bool, _run_option("--resume", help="Go on from the last checkpoint.")] = False,
    dry_run: Annotated[bool, _run_option("--dry-run", help="Check everything, print the plan, stop.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a verifier on token maps (COMP C, D.3).

    retrokit rerank train transformer minilm --data triplets.jsonl -o runs/verifier
    """
    from retrokit.report import tables
    from retrokit.report.terminal import console
    from retrokit.report.verifier_tables import verifier_preflight_tables
    from retrokit.training.verifier_config import VerifierConfig
    from retrokit.training.verifier_training import plan_verifier, train_verifier

    config = VerifierConfig(
        verifier=verifier,
        encoder=encoder,
        data=tuple(data),
        output=output,
        dev=tuple(dev or ()),
        start=start,
        end_to_end=end_to_end,
        in_batch=in_batch,
        batch_size=batch_size,
        epochs=epochs,
        steps=steps,
        lr=lr,
        encoder_lr=encoder_lr,
        weight_decay=weight_decay,
        warmup=warmup,
        max_grad_norm=max_grad_norm,
        precision=precision,
        seed=seed,
        eval_every=eval_every,
        best_metric=best_metric,
        patience=patience,
        log_every=log_every,
        keep_checkpoints=keep_checkpoints,
        cache=cache,
        device=device,
        overwrite=overwrite,
        resume=resume,
    )
    if output is None and not dry_run:
        raise UsageError("give an output folder: -o runs/NAME")
    plan = plan_verifier(config)
    shown = verifier_preflight_tables(plan.preflight)
    if dry_run:
        show(*([tables.to_json(plan.preflight.to_json())] if as_json else shown))
        return
    for table in shown:
        console(error=True).print(table)
    outcome = train_verifier(plan)
    show(tables.to_json(outcome.to_json()) if as_json else tables.outcome_table(outcome))


@group.command()
def calibrate(
    run: FolderArgument,
    pairs: Annotated[
        str,
        typer.Argument(help="Held-out pairs: what augment negatives writes; text, near_miss, positive; or labels."),
    ],
    false_accept_rate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of pairs to reject that may be accepted.")
    ] = 0.05,
    precision: PrecisionOption = "fp32",
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the score from which on a pair is accepted, and store it in the verifier's folder.

    retrokit rerank calibrate runs/verifier heldout.jsonl --false-accept-rate 0.05
    """
    from retrokit.report import tables
    from retrokit.report.verifier_tables import calibration_table
    from retrokit.reranking.calibrate import calibrate as find

    found = find(run, pairs, false_accept_rate, precision, device)
    show(tables.to_json(found.to_json()) if as_json else calibration_table(found))


@group.command()
def verify(
    run: FolderArgument,
    pairs: Annotated[str, typer.Argument(help="JSON lines with two texts each; - is standard input.")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="JSON lines to write; - is standard output.")] = "-",
    threshold: Annotated[
        float | None, typer.Option(help="Score from which on a pair is accepted. Default: the calibrated one.")
    ] = None,
    keep: Annotated[str, typer.Option(help="Lines to write: all, accepted, rejected.")] = "all",
    fail_on_reject: Annotated[
        bool, typer.Option("--fail-on-reject", help="Exit with 1 if a pair is rejected.")
    ] = False,
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
