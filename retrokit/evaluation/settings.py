"""Settings of an evaluation, and of two-stage retrieval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrokit.core.settings import (
    FOLDER,
    OVERLAP_EXAMPLES,
    PRECISION,
    PRECISIONS,
    SHOW_INPUTS,
    STRICT,
    Settings,
    listed,
    setting,
)
from retrokit.data.dtypes import stored_as
from retrokit.metrics.names import metric_names

if TYPE_CHECKING:  # help is shown without loading what ranks
    from retrokit.ranking.retrieval.two_stage import Fusion

SCORES, OUTPUT, GATES = "How texts are scored", "Output", "Gates"
STAGES, FIRST_STAGE, NEAR_MISSES = "Stages", "First stage and metrics", "Near-misses"
BASELINE = "Compare with this file of --save-baseline."
BASELINE_SYSTEM = "The system, as tables name it, that the others are compared with. Default: the first."
GATE_METRIC = "The metric that is compared for `fail_if_worse=` and `max_drop=`. Default: the task's main one."


@dataclass(frozen=True)
class EvaluationSettings(Settings):
    """Every encoder under every similarity on every task.

    Attributes:
        also: further metrics to compute, which are not compared.
        keep_runs: return rankings; ``results`` has none, so everything is computed.
    """

    panels = (None, SCORES, OUTPUT, GATES)
    first = ("on", "sim", "metrics", "dims", "quantize", "results", "baseline")

    encoders: Sequence[str] = setting(
        (), "Encoders or searchers to evaluate; the first is the one compared with.", argument=True
    )
    on: Sequence[str] = setting((), "Task, e.g. beir:data/scifact, knn:texts.jsonl, sts:pairs.jsonl. Repeatable.")
    sim: Sequence[str] = setting((), "Similarity to score with; default: the encoder's own. Repeatable.", SCORES)
    metrics: Sequence[str] = setting(
        (),
        "Metrics to compute and show, e.g. ndcg@10,recall@100. Default: the task's usual ones.",
        SCORES,
        read=listed,
        canonical=metric_names,
    )
    also: Sequence[str] = setting((), canonical=metric_names)
    precision: str = setting("auto", PRECISION, SCORES, choices=PRECISIONS)
    dims: int | None = setting(None, "Use the first N dimensions only: for sfs, N / size fragments.", SCORES, minimum=1)
    device: str | None = setting(None)
    cross: bool = setting(False, "Score every run with every run's similarity: training against evaluation.", SCORES)
    results: str | None = setting(
        None,
        "Keep results in this folder, and use them again while nothing has changed. "
        "Without encoders: show the stored results.",
        OUTPUT,
        writes=FOLDER,
    )
    keep_runs: bool = setting(False)
    trained_on: Sequence[str] = setting(
        (),
        "Training data of the encoders, to warn of texts that the tests share with them: FILE.jsonl, beir:PATH, "
        "hf:NAME. Default: those of runs, where they are as they were. Repeatable.",
        OUTPUT,
    )
    overlap_examples: int = setting(0, OVERLAP_EXAMPLES, OUTPUT, minimum=0)
    explain: int | None = setting(
        None,
        "Show the N queries of retrieval that differ most from the first system, with their relevant documents.",
        OUTPUT,
        minimum=1,
    )
    show_inputs: int = setting(0, SHOW_INPUTS, OUTPUT, minimum=0, result=False)
    index: str | None = setting(
        None,
        "Search documents with this index of faiss, not exactly, and report its recall: HNSW32, "
        "IVF4096,PQ32:nprobe=64.",
        SCORES,
        extra="faiss",
    )
    quantize: str | None = setting(
        None, "Storage dtype: float16, int8, binary, binary+rescore (:N: N times k rescored).", SCORES
    )
    correlations: bool = setting(
        False,
        "How alike SURE's testbeds rank the systems, and how alike SURE and retrieval, given a task of it for "
        "each sure:FOLDER, in their order.",
        OUTPUT,
    )
    baseline: str | None = setting(None, BASELINE, GATES)
    baseline_system: str | None = setting(None, BASELINE_SYSTEM, GATES)
    gate_metric: str | None = setting(None, GATE_METRIC, GATES, canonical=metric_names)
    strict: bool = setting(False, STRICT, result=False)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.quantize is not None:
            stored_as(self.quantize)


@dataclass(frozen=True)
class TwoStageOptions(Settings):
    """How both stages work together, and the settings of the first one.

    Attributes:
        also: further metrics to compute.
    """

    panels = (None, STAGES, FIRST_STAGE, NEAR_MISSES, OUTPUT, GATES)
    first = ("on", "with_", "depth", "blend", "fusion", "run", "sim", "metrics", "results")

    depth: int = setting(100, "How many of each query's best documents are reranked.", STAGES, minimum=1)
    blend: float | None = setting(
        None, "Share of the reranker in a sum with the first stage's normalised scores.", STAGES, minimum=0, maximum=1
    )
    fusion: str | None = setting(None, "Fuse the ranks of both stages, not scores.", STAGES, choices=("rrf",))
    sim: str | None = setting(None, "Similarity of the first stage; default: the encoder's own.", FIRST_STAGE)
    index: str | None = setting(
        None, "Search with this index of faiss in the first stage, e.g. HNSW32.", FIRST_STAGE, extra="faiss"
    )
    run: str | None = setting(None, "Rerank this TREC run in place of a search; - is standard input.", STAGES)
    metrics: Sequence[str] = setting(
        (),
        "Metrics to compute and show. Default of rankings: ndcg@10,accuracy@1,mrr@10.",
        FIRST_STAGE,
        read=listed,
        canonical=metric_names,
    )
    also: Sequence[str] = setting((), canonical=metric_names)
    results: str | None = setting(
        None,
        "Keep results of rankings in this folder, and use them again while nothing has changed.",
        OUTPUT,
        writes=FOLDER,
    )
    precision: str = setting(
        "auto", "Precision of the first stage. Rerankers have their own.", FIRST_STAGE, choices=PRECISIONS
    )
    dims: int | None = setting(None, "Use the first N dimensions only in the first stage.", FIRST_STAGE)
    device: str | None = setting(None)
    paraphrases: str | None = setting(
        None,
        "For near-misses: pairs that do mean the same, e.g. beir:PATH,split=train. Default: the file's own positives.",
        NEAR_MISSES,
    )
    max_paraphrases: int = setting(10_000, "Maximum of paraphrase pairs, a random sample.", NEAR_MISSES, minimum=2)
    baseline: str | None = setting(None, BASELINE, GATES)
    baseline_system: str | None = setting(None, BASELINE_SYSTEM, GATES)
    gate_metric: str | None = setting(None, GATE_METRIC, GATES, canonical=metric_names)
    strict: bool = setting(False, STRICT, result=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.together  # raises where the three contradict each other

    @property
    def together(self) -> Fusion:
        """How the scores of both stages become one."""
        from retrokit.ranking.retrieval.two_stage import Fusion

        return Fusion(self.depth, self.blend, self.fusion)


def requested(settings: EvaluationSettings | TwoStageOptions) -> list[str]:
    """All metrics that are named."""
    gate = [] if settings.gate_metric is None else [settings.gate_metric]
    return list(dict.fromkeys([*settings.metrics, *settings.also, *gate]))
