"""Settings of an evaluation, and of two-stage retrieval."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrokit.core.errors import UsageError, out_of_range
from retrokit.core.settings import (
    EITHER,
    FILE,
    FOLDER,
    Settings,
    common,
    setting,
)
from retrokit.data.dtypes import stored_as
from retrokit.metrics.names import metric_name, metric_names

SCORES, OUTPUT, GATES = "How texts are scored", "Output", "Gates"
STAGES, NEAR_MISSES = "Stages", "Near-misses"
ANY = "any"
"""Stands for every kind of fault."""


def parse_gate(text: str, name: str = "fail_under") -> tuple[str, float]:
    """``ndcg@10=0.64`` as a metric and a value. Raises :class:`UsageError` about ``name`` for another form."""
    metric, _, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not metric or out_of_range(least):
        raise UsageError(f"`{name}=` {text}: expected METRIC=VALUE, as in ndcg@10=0.64")
    return metric_name(metric), least


@dataclass(frozen=True, kw_only=True)
class GateSettings(Settings):
    """What the systems of an evaluation are compared with, and what fails."""

    baseline: str | None = setting(None, "Compare with this file of --save-baseline.", GATES, reads=FILE)
    baseline_system: str | None = setting(
        None, "The system, as tables name it, that the others are compared with. Default: the first.", GATES
    )
    gate_metric: str | None = setting(
        None,
        "The metric that is compared for `fail_if_worse=` and `max_drop=`. Default: the task's main one.",
        GATES,
        canonical=metric_names,
        names="metrics",
    )
    fail_under: Sequence[str] = setting(
        (), "Exit 1 if a result is below, e.g. ndcg@10=0.64. Repeatable.", GATES, metavar="METRIC=X"
    )
    fail_if_worse: bool = setting(False, "Exit 1 if a system is significantly worse than the first (p < 0.05).", GATES)
    save_baseline: str | None = setting(
        None, "Save results as a baseline unless a gate fails.", GATES, writes="baseline"
    )
    max_drop: float | None = setting(
        None,
        "Exit 1 if the drop from --baseline exceeds X and is significant.",
        GATES,
        minimum=0,
        needs=("baseline",),
    )
    junit: str | None = setting(
        None,
        "Write gate results as JUnit XML.",
        GATES,
        writes=FILE,
        needs=("fail_under", "fail_if_worse", "fail_if_idle", "max_drop"),
    )
    fail_if_idle: bool = setting(False, "Exit 1 if a reranker changes the order of no query.", GATES)

    @property
    def minimums(self) -> list[tuple[str, float]]:
        """The metrics of ``fail_under`` with their minimum values."""
        return [parse_gate(text) for text in self.fail_under]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        _ = self.minimums  # raises for one that is not METRIC=VALUE


@dataclass(frozen=True, kw_only=True)
class MeasuringSettings(GateSettings):
    """How systems are measured, and where results are stored."""

    metrics: Sequence[str] = common(
        "metrics",
        help="Metrics to compute and show, e.g. ndcg@10,recall@100. Default: the usual ones.",
        panel=SCORES,
        canonical=metric_names,
    )
    precision: str = common("precision", panel=SCORES)
    dims: int | None = common(
        "dims", help="Use the first N dimensions only: for sfs, N / size fragments.", panel=SCORES
    )
    device: str | None = common("device")
    index: str | None = common(
        "index",
        help="Search documents with this index of faiss, not exactly, and report its recall: HNSW32, "
        "IVF4096,PQ32:nprobe=64.",
        panel=SCORES,
    )
    results: str | None = setting(
        None,
        "Keep results in this folder, and use them again while nothing has changed. "
        "retrokit eval without encoders shows them.",
        OUTPUT,
        writes=FOLDER,
    )
    save_run: str | None = setting(
        None,
        "TREC run to write; a folder if there are several or if it ends with /.",
        OUTPUT,
        writes=EITHER,
    )
    strict: bool = common("strict")


@dataclass(frozen=True)
class EvaluationSettings(MeasuringSettings):
    """Every encoder under every similarity on every task.

    Attributes:
        keep_runs: return rankings; ``results`` has none, so everything is computed.
        saves_reranked: ``save_run`` is for the rankings of rerankers only.
    """

    panels = (None, SCORES, OUTPUT, GATES)
    first = (
        *("on", "sim", "metrics", "dims", "quantize", "results"),
        *("baseline", "max_drop", "save_baseline", "fail_under", "save_run", "as_json"),
    )

    encoders: Sequence[str] = setting(
        (),
        "Encoders or searchers to evaluate; the first is the one compared with.",
        argument=True,
        names="encoders,searchers",
    )
    on: Sequence[str] = setting(
        (), "Task, e.g. beir:data/scifact, knn:texts.jsonl, sts:pairs.jsonl. Repeatable.", names="tasks"
    )
    sim: Sequence[str] = setting(
        (), "Similarity to score with; default: the encoder's own. Repeatable.", SCORES, names="similarities"
    )
    cross: bool = setting(False, "Score every run with every run's similarity: training against evaluation.", SCORES)
    keep_runs: bool = setting(False, is_option=False)
    saves_reranked: bool = setting(False, is_option=False)
    trained_on: Sequence[str] = setting(
        (),
        "Training data of the encoders, to warn of texts that the tests share with them: FILE.jsonl, beir:PATH, "
        "hf:NAME. Default: those of runs, where they are as they were. Repeatable.",
        OUTPUT,
        names="data",
    )
    overlap_examples: int = setting(0, "Show N texts of a test that are in training data too.", OUTPUT, minimum=0)
    explain: int | None = setting(
        None,
        "Show the N queries of retrieval that differ most from the first system, with their relevant documents.",
        OUTPUT,
        minimum=1,
    )
    show_inputs: int = common("show_inputs", panel=OUTPUT)
    quantize: str | None = setting(
        None, "Storage dtype: float16, int8, binary, binary+rescore (:N: N times k rescored).", SCORES
    )
    correlations: bool = setting(
        False,
        "Rank correlations between SURE testbeds, and with the retrieval task that is given for each sure:FOLDER, "
        "in their order.",
        OUTPUT,
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.quantize is not None:
            stored_as(self.quantize)

    @property
    def needs_runs(self) -> bool:
        """Whether rankings are used, which ``results`` does not store."""
        return self.keep_runs or self.save_run is not None or self.explain is not None


@dataclass(frozen=True)
class TwoStageOptions(MeasuringSettings):
    """How both stages work together, the settings of the first one, and what is written."""

    panels = (None, STAGES, SCORES, NEAR_MISSES, OUTPUT, GATES)
    first = (
        *("on", "with_", "depth", "blend", "fusion", "run", "sim", "metrics", "results", "save_run"),
        *("plot", "as_json"),
    )

    depth: int = setting(100, "How many of each query's best documents are reranked.", STAGES, minimum=1)
    blend: float | None = setting(
        None, "Share of the reranker in a sum with the first stage's normalised scores.", STAGES, minimum=0, maximum=1
    )
    fusion: str | None = setting(
        None, "Fuse the ranks of both stages, not scores.", STAGES, choices=("rrf",), excludes=("blend",)
    )
    sim: str | None = setting(
        None, "Similarity of the first stage; default: the encoder's own.", SCORES, names="similarities"
    )
    run: str | None = setting(
        None, "Rerank this TREC run in place of a search; - is standard input.", STAGES, reads=FILE
    )
    paraphrases: str | None = setting(
        None,
        "For near-misses: pairs that do mean the same, e.g. paraphrases.jsonl. Default: the file's own positives.",
        NEAR_MISSES,
        names="data",
    )
    max_paraphrases: int = setting(10_000, "Maximum of paraphrase pairs, a random sample.", NEAR_MISSES, minimum=2)
    work: str | None = setting(
        None,
        "Cache scores in this folder, to resume or to change metrics and blend. Default: FILE.work of --save-run FILE, "
        "removed at the end.",
        OUTPUT,
        writes=FOLDER,
    )


def requested(settings: MeasuringSettings) -> list[str]:
    """All metrics that are named."""
    gates = [metric for metric, _ in settings.minimums]
    if settings.gate_metric is not None:
        gates.append(settings.gate_metric)
    return list(dict.fromkeys([*settings.metrics, *gates]))


@dataclass(frozen=True)
class CheckSettings(Settings):
    """What is checked, and how it is shown."""

    data: Sequence[str] = setting(
        (),
        "Test sets (a BEIR folder, or beir:PATH,split=dev) and training data (FILE.jsonl, beir:PATH,split=train).",
        argument=True,
        names="data",
        missing="give a test set or training data, e.g. beir:data/scifact or pairs.jsonl",
    )
    metrics: Sequence[str] = common(
        "metrics",
        default="ndcg@10,recall@100,mrr@10",
        help="Metrics whose highest values and losses are shown.",
        canonical=metric_names,
    )
    examples: int = setting(0, "Show N examples of each fault.", minimum=0)
    encoder: str | None = setting(None, "Encoder: count the texts that it truncates.", names="encoders")
    device: str | None = common("device")
    fail_on: Sequence[str] = setting(
        (), "Exit 1 if a fault of this kind, or `any`, is present. Repeatable.", result=False
    )

    def problems(self) -> Iterator[str]:
        """What is wrong with numbers, metrics and kinds of faults."""
        from retrokit.core.errors import UsageError, did_you_mean
        from retrokit.data.check import KINDS
        from retrokit.metrics.ranking import check_metric

        yield from super().problems()
        for name in self.metrics:
            try:
                check_metric(name)
            except UsageError as error:
                yield f"`metrics=`: {error}"
        for kind in self.fail_on:
            if kind != ANY and kind not in KINDS:
                hint = did_you_mean(kind, KINDS)
                yield f"`fail_on=` {kind}: unknown kind of fault{hint}; it is {ANY}, or one of {', '.join(KINDS)}"
