"""What the training of any reranker shares: the examples that it is trained and measured on, and its description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrokit.core.errors import DataError, UsageError
from retrokit.data.holdout import hold_out
from retrokit.data.pairs import read_source
from retrokit.data.runs import TRAINING, Run
from retrokit.ranking import reranking
from retrokit.training.batches import Batches, TrainingSet
from retrokit.training.preflight import Plain
from retrokit.training.processes import place
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.data import OTHERS, RankedLists, pairs_of
from retrokit.training.run import Job, provenance, shared_input

HELD_OUT = 0.1  # of the anchors, where no other data are given to measure on
MOST_HELD_OUT = 500  # anchors
FEW_HELD_OUT, FEW_OTHERS = 100, 9
"""In place of :data:`MOST_HELD_OUT` and :data:`OTHERS` where a transformer reads each pair anew."""


@dataclass(frozen=True)
class VerifierPreflight(Plain):
    """The findings before the first step, those of :class:`~retrokit.training.preflight.Preflight` and of the reranker:
    examples ``held_out`` that it is measured on, its parameters and those that are trained in all, and
    ``microseconds_per_pair``: of a verifier from token embeddings to the score, of a cross-encoder from the texts."""

    sources: list[dict[str, Any]]
    held_out: int
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    microseconds_per_pair: float
    steps: dict[str, float]
    configuration: dict[str, Any]


@dataclass(frozen=True)
class RerankerJob(Job):
    """A reranker's training, measured on ``lists``."""

    config: VerifierConfig
    preflight: VerifierPreflight
    lists: RankedLists

    def describe(self) -> Run:
        verifier = str(reranking.verifiers.parse(self.config.verifier))
        notes = {
            "configuration": self.preflight.configuration,
            "parameters": self.preflight.parameters,
            "microseconds_per_pair": self.preflight.microseconds_per_pair,
            "data": self.preflight.sources,
            "held_out": self.preflight.held_out,
            **provenance(),
        }
        return Run(TRAINING, "cosine", self.config.encoder, self.identity, verifier=verifier, notes=notes)

    def intervals(self, steps: int) -> tuple[int, int]:
        every = self.config.eval_every or max(1, steps // 10)
        return every, self.config.save_every or every


@dataclass(frozen=True)
class Material:
    """What a reranker is trained and measured on, by which metric, and digests of what was read."""

    batches: Batches
    lists: RankedLists
    held_out: int
    metric: str
    digests: dict[str, list[str]]


def read_material(config: VerifierConfig) -> Material:
    """Read and check it all; raises :class:`DataError` and :class:`UsageError`."""
    few = config.reads_pairs
    with shared_input([*config.data, *config.dev]):
        sources = [read_source(spec, config.kind) for spec in config.data]
        dev = [read_source(spec, "pairs") for spec in config.dev]
    for source in sources if config.is_taught else ():
        if not any(record.negatives for record in pairs_of(source)):
            raise DataError(source.spec, "has no negatives; a teacher's scores count among an anchor's own documents")
    measured = dev
    if not dev:
        sources, measured = hold_out(sources, HELD_OUT, most=FEW_HELD_OUT if few else MOST_HELD_OUT)
    held_out = [record for source in measured for record in pairs_of(source)]
    lists = RankedLists.of(held_out, FEW_OTHERS if few else OTHERS)
    if config.best_metric == "roc_auc" and not sum(lists.negatives):
        raise UsageError("`best_metric=` roc_auc: the examples held out have no negatives")
    # nDCG@10 is soon 1 where there are near-misses, and says nothing of a threshold for all anchors
    metric = config.best_metric or ("roc_auc" if sum(lists.negatives) else "ndcg@10")
    digests = {"data": sources, "dev": dev}
    return Material(
        Batches(TrainingSet(sources), config.examples, config.seed, *place()),
        lists,
        len(held_out),
        metric,
        {f"{name}_digests": [source.digest for source in read] for name, read in digests.items()},
    )
