"""``retrokit eval``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from retrokit.cli.common import DeviceOption, JsonOption, app, show, with_names, writable, writable_folder
from retrokit.errors import UsageError

if TYPE_CHECKING:  # help is shown without loading what evaluates
    from retrokit.evaluation.comparison.comparison import Evaluation
    from retrokit.report.evaluation import Form

# Panels of the help page.
_scores_option = partial(typer.Option, rich_help_panel="How texts are scored")
_output_option = partial(typer.Option, rich_help_panel="Output")
_gate_option = partial(typer.Option, rich_help_panel="Gates")


@app.command("eval", cls=with_names("encoders", "searchers", "similarities", "tasks"))
def evaluate(
    encoders: Annotated[
        list[str] | None, typer.Argument(help="Encoders or searchers to evaluate; the first is the one compared with.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="Task, e.g. beir:data/scifact, knn:texts.jsonl, sts:pairs.jsonl. Repeatable."),
    ] = None,
    sim: Annotated[
        list[str] | None,
        _scores_option(help="Similarity to score with; default: the encoder's own. Repeatable."),
    ] = None,
    cross: Annotated[
        bool,
        _scores_option("--cross", help="Score every run with every run's similarity: training against evaluation."),
    ] = False,
    correlations: Annotated[
        bool,
        _output_option(
            "--correlations",
            help="How alike SURE's testbeds rank the systems, and how alike SURE and retrieval, given a task of it for "
            "each sure:FOLDER, in their order.",
        ),
    ] = False,
    metrics: Annotated[
        str | None,
        _scores_option(help="Metrics to compute and show, e.g. ndcg@10,recall@100. Default: the task's usual ones."),
    ] = None,
    dims: Annotated[
        int | None, _scores_option(help="Use the first N dimensions only: for sfs, N / size fragments.")
    ] = None,
    precision: Annotated[
        str, _scores_option(help="Precision of the encoding: fp32, bf16, fp16; auto: bf16 where that is faster here.")
    ] = "auto",
    device: DeviceOption = None,
    index: Annotated[
        str | None,
        _scores_option(
            help="Search documents with this index of faiss, not exactly, and report its recall: HNSW32, "
            "IVF4096,PQ32:nprobe=64."
        ),
    ] = None,
    results: Annotated[
        str | None,
        _output_option(
            callback=writable_folder,
            help="Keep results in this folder, and use them again while nothing has changed. "
            "Without encoders: show what is there.",
        ),
    ] = None,
    format: Annotated[str | None, _output_option(help="table (default), json, csv, markdown or latex.")] = None,
    as_json: JsonOption = False,
    plot: Annotated[
        str | None,
        _output_option(
            callback=writable_folder, help="Draw each task as PNG and SVG into this folder: bars, heat maps of --cross."
        ),
    ] = None,
    save_run: Annotated[
        str | None,
        _output_option(
            callback=writable,
            help="Write the ranking of retrieval as a TREC run; a folder if there are several results.",
        ),
    ] = None,
    per_query: Annotated[
        bool, _output_option("--per-query", help="With --json: add the values of every query, text or pair.")
    ] = False,
    fail_under: Annotated[
        list[str] | None, _gate_option(help="Exit 1 if a result is lower, e.g. ndcg@10=0.64. Repeatable.")
    ] = None,
    fail_if_worse: Annotated[
        bool,
        _gate_option("--fail-if-worse", help="Exit 1 if a result is significantly worse than the first (p < 0.05)."),
    ] = False,
) -> None:
    """Evaluate encoders on retrieval, labels, clusters, similarity and pairs, with paired tests and means over seeds.

    retrokit eval minilm runs/qnorm --on beir:data/scifact

    retrokit eval minilm --on sts:pairs.jsonl --sim cosine --sim sfs:16 --json

    retrokit eval minilm runs/qnorm --on beir:data/scifact --fail-under ndcg@10=0.64 --fail-if-worse
    """
    printed = _form(format, as_json, per_query)
    _check_together(encoders, on, results, _needing_encoders(precision, dims, device, index, save_run))
    from retrokit.evaluation import evaluate as evaluation
    from retrokit.evaluation.comparison import gates

    wanted = [name.strip() for name in metrics.split(",")] if metrics else []
    least = [gates.parse_gate(text) for text in fail_under or []]
    also = [metric for metric, _ in least]
    if not encoders:
        found = evaluation.evaluated_before(str(results), on or (), sim or (), wanted, also, cross, correlations)
    else:
        found = evaluation.evaluate(
            encoders,
            on or (),
            sim or (),
            wanted,
            also,
            precision,
            dims,
            device,
            cross=cross,
            results=results,
            keep_runs=save_run is not None,
            index=index,
            correlations=correlations,
        )
    _write(found, save_run, plot)
    show(*printed(found, per_query))
    gates.check_gates(found, least, fail_if_worse)


def _form(format: str | None, as_json: bool, per_query: bool) -> Form:
    """How results are printed; raises :class:`UsageError` for an unknown form, or for options that contradict it."""
    if as_json and format not in (None, "json"):
        raise UsageError(f"--json is --format json, not {format}: give one")
    format = "json" if as_json else format or "table"
    from retrokit.report.evaluation import form

    printed = form(format)
    if per_query and format != "json":
        raise UsageError("--per-query adds to --json: give both")
    return printed


def _write(found: Evaluation, save_run: str | None, plot: str | None) -> None:
    """The files that were asked for: rankings, pictures."""
    if save_run is not None:
        from retrokit.evaluation.tasks.retrieval import save_runs

        save_runs(found.results, save_run)
    if plot is not None:
        from retrokit.report.evaluation_plots import evaluation_plots

        evaluation_plots(found, plot)


def _needing_encoders(
    precision: str, dims: int | None, device: str | None, index: str | None, save_run: str | None
) -> list[str]:
    """Those of the options given that mean nothing where nothing is computed."""
    given = {"--precision": precision != "auto", "--dims": dims, "--device": device, "--index": index}
    given["--save-run"] = save_run
    return [option for option, value in given.items() if value not in (None, False)]


def _check_together(
    encoders: list[str] | None, on: list[str] | None, results: str | None, needing_encoders: list[str]
) -> None:
    """Raise :class:`UsageError` for encoders without a task, or for what needs encoders where there are none."""
    if encoders and not on:
        raise UsageError("give a task: --on TASK, as in --on beir:data/scifact")
    if not encoders and results is None:
        raise UsageError("give encoders and --on TASK; or --results FOLDER alone, to show what was evaluated before")
    if not encoders and needing_encoders:
        raise UsageError(f"{', '.join(needing_encoders)}: nothing is computed without encoders")
