"""``retrokit rerank run``, or ``retrokit rerank``: evaluate two-stage retrieval, and rerankers on near-misses.

``run`` is the default: ``retrokit rerank minilm …`` is ``retrokit rerank run minilm …``. Write ``./train`` for a model
folder that has the name of a command.
"""

from __future__ import annotations

from collections.abc import Sequence

from retrokit.cli.evaluate import EvaluationOutput, show_evaluation
from retrokit.cli.streams import readers_may_leave
from retrokit.core.errors import UsageError
from retrokit.core.registry import importing
from retrokit.core.settings import common, setting
from retrokit.evaluation.settings import TwoStageOptions


def run_two_stages(
    encoders: Sequence[str] = setting(
        (), "First-stage encoders or searchers; none with `run=`.", argument=True, names="encoders,searchers"
    ),
    on: Sequence[str] = common(
        "on",
        default=(),
        help="Task, e.g. beir:data/scifact; near-misses: pairs:FILE. Repeatable.",
        missing="give `on=` TASK, as in `on=` beir:data/scifact",
    ),
    with_: Sequence[str] = setting(
        (),
        "Reranker: maxsim, cross-encoder:PATH, an encoder … Repeatable.",
        flags=("--with",),
        names="rerankers,encoders",
        missing="give `with_=` RERANKER, as in `with_=` maxsim",
    ),
    *,
    options: TwoStageOptions,
    output: EvaluationOutput,
) -> None:
    """Rerank first-stage results and evaluate both stages; test rerankers on near-misses.

    retrokit rerank minilm --on beir:data/scifact --with maxsim --with cross-encoder:models/ce

    retrokit rerank --run bm25.trec --on beir:data/scifact --with maxsim --save-run reranked.trec

    retrokit rerank minilm --on pairs:near-misses.jsonl --with maxsim
    """
    to_output = options.save_run == "-"
    if to_output and output.shape == "json":
        raise UsageError("--save-run - and JSON both need standard output; give one")
    with importing():
        from retrokit.evaluation.two_stage import rerank

    result = None
    with readers_may_leave():
        result = rerank(encoders, on, with_, options)
    if result is None:  # the reader of the run has seen enough
        return
    if output.plot is not None:
        from retrokit.report.plots import reranking_plots

        reranking_plots(result, output.plot)
    show_evaluation(result, output, error=to_output)
