"""``retrokit rerank run``, or ``retrokit rerank`` alone: two stages of retrieval, and near-misses, measured."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from retrokit.cli.common import DeviceOption, JsonOption, show, with_names, writable_folder
from retrokit.cli.rerank_group import RUN, group
from retrokit.cli.streams import readers_may_leave
from retrokit.errors import UsageError
from retrokit.registry import importing

# Panels of the help page.
_stage_option = partial(typer.Option, rich_help_panel="Stages")
_scores_option = partial(typer.Option, rich_help_panel="First stage and metrics")
_near_miss_option = partial(typer.Option, rich_help_panel="Near-misses")
_output_option = partial(typer.Option, rich_help_panel="Output")
_gate_option = partial(typer.Option, rich_help_panel="Gates")


@group.command(RUN, cls=with_names("encoders", "searchers", "similarities", "tasks", "rerankers"))
def run_two_stages(
    encoder: Annotated[
        str | None, typer.Argument(help="Encoder or searcher of the first stage; left out where --run gives it.")
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="Task: beir:data/scifact, or near-misses: pairs:FILE. Repeatable."),
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", help="Reranker, e.g. maxsim, cross-encoder:PATH. Repeatable.")
    ] = None,
    depth: Annotated[int, _stage_option(min=1, help="How many of each query's best documents are reranked.")] = 100,
    run: Annotated[
        str | None, _stage_option("--run", help="Rerank this TREC run in place of a search; - is standard input.")
    ] = None,
    blend: Annotated[
        float | None,
        _stage_option(min=0, max=1, help="Share of the reranker in a sum with the first stage's normalised scores."),
    ] = None,
    fusion: Annotated[str | None, _stage_option(help="rrf: fuse the ranks of both stages instead of scores.")] = None,
    sim: Annotated[
        str | None, _scores_option(help="Similarity of the first stage; default: the encoder's own.")
    ] = None,
    metrics: Annotated[
        str | None, _scores_option(help="Metrics to compute and show. Default of rankings: ndcg@10,accuracy@1,mrr@10.")
    ] = None,
    index: Annotated[
        str | None, _scores_option(help="Search with this index of faiss in the first stage, e.g. HNSW32.")
    ] = None,
    dims: Annotated[int | None, _scores_option(help="Use the first N dimensions only in the first stage.")] = None,
    precision: Annotated[
        str, _scores_option(help="Precision of the first stage: fp32, bf16, fp16, auto. Rerankers have their own.")
    ] = "auto",
    device: DeviceOption = None,
    reference: Annotated[
        str | None,
        _near_miss_option(
            help="For near-misses: pairs that do mean the same, e.g. beir:PATH,split=train. "
            "Default: the file's own positives."
        ),
    ] = None,
    reference_pairs: Annotated[int, _near_miss_option(min=2, help="At most so many of them, at random.")] = 10_000,
    format: Annotated[str | None, _output_option(help="table (default), json, csv, markdown or latex.")] = None,
    as_json: JsonOption = False,
    per_query: Annotated[
        bool, _output_option("--per-query", help="With --json: add the values of every query or pair.")
    ] = False,
    plot: Annotated[
        str | None,
        _output_option(
            callback=writable_folder, help="Draw each task as PNG and SVG into this folder, with the data as CSV."
        ),
    ] = None,
    save_run: Annotated[
        str | None,
        _output_option(
            help="Write the reranked ranking as a TREC run; a folder if there are several; - is standard output, and "
            "tables go to standard error."
        ),
    ] = None,
    work: Annotated[
        str | None,
        _output_option(
            help="Keep scores in this folder: a run that was interrupted goes on, and other metrics or blends need no "
            "new ones. Default: FILE.work beside --save-run FILE, until it is written."
        ),
    ] = None,
    fail_under: Annotated[
        list[str] | None, _gate_option(help="Exit 1 if a result is lower, e.g. ndcg@10=0.64. Repeatable.")
    ] = None,
    fail_if_worse: Annotated[
        bool,
        _gate_option("--fail-if-worse", help="Exit 1 if a reranker is significantly worse than the first stage."),
    ] = False,
) -> None:
    """Rerank what a search or a run has found, and measure both stages; test rerankers on near-misses (COMP 3.2).

    retrokit rerank minilm --on beir:data/scifact --with maxsim --with cross-encoder:models/ce

    retrokit rerank --run bm25.trec --on beir:data/scifact --with maxsim --save-run reranked.trec

    retrokit rerank minilm --on pairs:near-misses.jsonl --with maxsim

    `retrokit rerank train` makes a verifier of near-misses, `calibrate` finds the score from which it accepts, and
    `verify` accepts or rejects pairs.
    """
    if as_json and format not in (None, "json"):
        raise UsageError(f"--json is --format json, not {format}: give one")
    format = "json" if as_json else format or "table"
    from retrokit.report.evaluation import form

    form(format)
    if per_query and format != "json":
        raise UsageError("--per-query adds to --json: give both")
    if not on or not with_:
        missing = "--on TASK, as in --on beir:data/scifact" if not on else "--with RERANKER, as in --with maxsim"
        raise UsageError(f"give {missing}")
    if save_run == "-" and format == "json":
        raise UsageError("standard output takes the run of --save-run - or JSON: give one of them")
    with importing():
        from retrokit.evaluation.comparison import gates
        from retrokit.evaluation.two_stage import TwoStageOptions, rerank

    least = [gates.parse_gate(text) for text in fail_under or []]
    options = TwoStageOptions(
        depth=depth,
        blend=blend,
        fusion=fusion,
        sim=sim,
        index=index,
        run=run,
        metrics=tuple(name.strip() for name in metrics.split(",")) if metrics else (),
        also=tuple(metric for metric, _ in least),
        precision=precision,
        dims=dims,
        device=device,
        reference=reference,
        reference_pairs=reference_pairs,
    )
    found = None
    with readers_may_leave():
        found = rerank(encoder, on, with_, options, work, save_run)
    if found is None:  # the reader of the run has seen enough
        return
    if plot is not None:
        from retrokit.report.reranking_plots import reranking_plots

        reranking_plots(found, plot)
    from retrokit.report.reranking import reranking_parts

    show(*reranking_parts(found, format, per_query), error=save_run == "-")
    gates.check_gates(found.whole, least, fail_if_worse)
