"""``retrokit eval``."""

from __future__ import annotations

from typing import Annotated

import typer

from retrokit.cli.common import ENCODERS, SIMILARITIES, TASKS, DeviceOption, JsonOption, app, show, with_names
from retrokit.errors import UsageError


@app.command("eval", cls=with_names(ENCODERS, SIMILARITIES, TASKS))
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
        show(tables.to_json({"results": results, "comparisons": [c.to_json() for c in found.comparisons]}))
    else:
        show(*tables.evaluation_tables(found, wanted))
    comparison.check_gates(found, gates, fail_if_worse)
