"""The command line: each command parses, makes one library call, renders.

Nothing heavy is imported before a command runs: ``--help`` must stay fast.
"""

from __future__ import annotations

import os
import shlex
import sys
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from retrokit import __version__
from retrokit.errors import Interrupted, RetrokitError, UsageError

app = typer.Typer(
    name="retrokit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    help="Train, stress-test and rerank with dense text retrievers.",
    epilog="Documentation: docs/ in the repository. Exit codes: 0 done, 1 a gate failed, 2 wrong use or bad input, "
    "3 a missing optional package, 4 an outside service failed, 130 interrupted.",
)


def _with_names(*registries: str) -> type[TyperCommand]:
    """A command whose help ends with the names in the given registries, third parties' included."""

    class WithNames(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Add the names when help is asked for, and only then."""
            super().format_help(ctx, formatter)
            import importlib

            for path in registries:
                module, _, attribute = path.partition(":")
                typer.echo(getattr(importlib.import_module(module), attribute).describe())

    return WithNames


_ENCODERS = "retrokit.encoders:registry"
_SIMILARITIES = "retrokit.similarities:registry"
_TASKS = "retrokit.evaluation:registry"
_DATA = "retrokit.data.pairs:registry"


# Panels of the help page.
_loss_option = partial(typer.Option, rich_help_panel="Similarity and loss")
_batch_option = partial(typer.Option, rich_help_panel="Batches and length")
_optimizer_option = partial(typer.Option, rich_help_panel="Optimizer")
_trained_option = partial(typer.Option, rich_help_panel="What is trained")
_evaluation_option = partial(typer.Option, rich_help_panel="Evaluation")
_run_option = partial(typer.Option, rich_help_panel="Run folder")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"retrokit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train, stress-test and rerank with dense text retrievers."""


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
DeviceOption = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; default: the best there is.")]


@app.command("eval", cls=_with_names(_ENCODERS, _SIMILARITIES, _TASKS))
def evaluate(
    encoders: Annotated[list[str], typer.Argument(help="Encoders to evaluate; the first is the one compared with.")],
    on: Annotated[
        list[str], typer.Option("--on", help="Task, e.g. beir:data/scifact or beir:PATH,split=dev. Repeatable.")
    ],
    sim: Annotated[
        list[str] | None,
        typer.Option(help="Similarity to score with; default: the encoder's own. Repeatable."),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Metrics to compute and show, e.g. ndcg@10,recall@100. Default: all at the usual cutoffs."),
    ] = None,
    dims: Annotated[
        int | None, typer.Option(help="Use the first N dimensions only: for sfs, N / size fragments.")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="Of encoding: fp32, bf16, fp16; auto is bf16 where the hardware has it.")
    ] = "auto",
    device: DeviceOption = None,
    save_run: Annotated[
        str | None, typer.Option(help="Write the ranking as a TREC run; a folder if there are several results.")
    ] = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="With --json: add the scores of every query.")] = False,
    fail_under: Annotated[
        list[str] | None, typer.Option(help="Exit 1 if a result is lower, e.g. ndcg@10=0.64. Repeatable.")
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option("--fail-if-worse", help="Exit 1 if a result is significantly worse than the first (p < 0.05)."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate encoders: exact search, trec_eval's metrics, paired significance tests.

    retrokit eval minilm runs/qnorm --on beir:data/scifact
    """
    from retrokit.evaluation import comparison

    if per_query and not as_json:
        raise UsageError("--per-query adds to --json: give both")
    wanted = [name.strip() for name in metrics.split(",")] if metrics else []
    gates = [comparison.parse_gate(text) for text in fail_under or []]
    also = [metric for metric, _ in gates]
    found = comparison.evaluate(encoders, on, sim or (), wanted, also, precision, dims, device)
    from retrokit.report import tables

    if save_run is not None:
        from retrokit.evaluation.retrieval import save_runs

        save_runs(found.results, save_run)
    if as_json:
        results = [result.to_json(per_query) for result in found.results]
        _show(tables.to_json({"results": results, "comparisons": [c.to_json() for c in found.comparisons]}))
    else:
        _show(*tables.evaluation_tables(found, wanted or list(comparison.SHOWN)))
    comparison.check_gates(found, gates, fail_if_worse)


@app.command(cls=_with_names(_ENCODERS, _SIMILARITIES, _DATA, _TASKS))
def finetune(
    encoder: Annotated[str, typer.Argument(help="Encoder to start from.")],
    data: Annotated[
        list[str],
        typer.Option(help="Training data: FILE.jsonl, -, beir:PATH, hf:NAME; with ,weight=2 to mix. Repeatable."),
    ],
    output: Annotated[str | None, _run_option("--output", "-o", help="Run folder to write.")] = None,
    sim: Annotated[str, _loss_option(help="Similarity to train with.")] = "cosine",
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
    lr: Annotated[float, _optimizer_option(help="Highest learning rate.")] = 2e-5,
    sim_lr: Annotated[float | None, _optimizer_option(help="Learning rate of what the similarity learns (γ).")] = None,
    weight_decay: Annotated[float, _optimizer_option(help="AdamW's; never on γ, biases and norms.")] = 0.01,
    warmup: Annotated[float, _optimizer_option(help="Steps of linear warm-up; below 1: a share of all steps.")] = 0.1,
    schedule: Annotated[str, _optimizer_option(help="After the warm-up: linear, cosine, constant.")] = "linear",
    max_grad_norm: Annotated[float, _optimizer_option(help="Gradients are clipped to this norm.")] = 1.0,
    adam_betas: Annotated[str, _optimizer_option(help="Adam's β1,β2.")] = "0.9,0.999",
    precision: Annotated[
        str, _optimizer_option(help="fp32, bf16, fp16; auto is bf16 where the hardware has it.")
    ] = "auto",
    seed: Annotated[int, _optimizer_option(help="Of batches, dropout and fresh weights.")] = 0,
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
    """
    from retrokit.report import tables
    from retrokit.report.terminal import console
    from retrokit.training.config import FinetuneConfig, parse_duration, parse_numbers
    from retrokit.training.finetune import plan, run

    betas = parse_numbers("--adam-betas", adam_betas, float, count=2)
    config = FinetuneConfig(
        encoder=encoder,
        data=tuple(data),
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
        matryoshka=tuple(parse_numbers("--matryoshka", matryoshka, int)) if matryoshka else (),
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
    made = plan(config)
    if dry_run:
        _show(*([tables.to_json(made.preflight.to_json())] if as_json else tables.preflight_tables(made.preflight)))
        return
    if _is_first_process():
        for table in tables.preflight_tables(made.preflight):
            console(error=True).print(table)
    outcome = run(made)
    if _is_first_process():
        from retrokit.report.plots import training_plots

        training_plots(outcome.folder)
        _show(tables.to_json(outcome.to_json()) if as_json else tables.outcome_table(outcome))


def _show(*parts: Any) -> None:
    """Print tables or text on standard output. A reader that leaves early (``| head``) is no error."""
    from retrokit.report.terminal import console

    try:
        for part in parts:
            if not isinstance(part, str):
                shown = console()
                with shown.capture() as captured:  # rich's own way with a closed pipe is to exit with 1
                    shown.print(part)
                part = captured.get().rstrip("\n")
            typer.echo(part)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _quiet_libraries() -> None:
    """The libraries' own chatter is not for the user of a command; what matters is said by retrokit."""
    import warnings

    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false" if "RANK" in os.environ else "true")
    warnings.filterwarnings("ignore")


class _Nobody:
    """Listens in the processes of a distributed run other than the first."""

    def notice(self, message: str) -> None:
        """Say nothing."""

    def progress(self, label: str, total: int | None, unit: str) -> Any:
        """Show nothing."""
        from contextlib import nullcontext

        return nullcontext(lambda count: None)


def _listener() -> Any:
    if not _is_first_process():
        return _Nobody()
    from retrokit.report.terminal import TerminalListener

    return TerminalListener()


def _fail(message: str, code: int) -> int:
    if _is_first_process():
        for line in message.splitlines():
            typer.echo(f"retrokit: {line}", err=True)
    return code


def _resume_line() -> str:
    kept = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
    return f"go on with: retrokit {shlex.join([*kept, '--resume'])}"


def _run() -> int:
    from retrokit.notices import listening

    command = typer.main.get_command(app)
    try:
        if any(word in ("--help", "--version") for word in sys.argv) or len(sys.argv) < 2:
            command.main()
        _quiet_libraries()
        with listening(_listener()):
            command.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Interrupted as error:
        return _fail(f"{error}\n{_resume_line()}", error.exit_code)
    except RetrokitError as error:
        return _fail(str(error), error.exit_code)
    return 0


def main() -> None:
    """Entry point of the ``retrokit`` command."""
    code = _run()
    if os.environ.get("WORLD_SIZE", "1") != "1":
        # Threads of the collective backend can abort an interpreter that shuts down, when all is long done.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
