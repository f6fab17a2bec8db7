"""The parts of any reranker's training: examples to train and to measure on, description, and trainer."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from retrokit.core.errors import UsageError
from retrokit.data.pairs import Source, hold_out, read_source
from retrokit.data.records import PrintedRecord
from retrokit.data.runs import TRAINING, Run
from retrokit.data.training_rows import Pair, texts_of_record
from retrokit.ranking import reranking
from retrokit.training.batches import Batches, Example, Loader, TrainingSet
from retrokit.training.loss import KnownPairs
from retrokit.training.preflight import of_any_run
from retrokit.training.processes import process_count, process_rank
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.run import Job, check_taught, identity_of, provenance
from retrokit.training.trainer import RunTrainer

OTHERS = 30  # documents of other anchors in a list that is ranked
HELD_OUT = 0.1  # of the anchors, without other data to measure on
MOST_HELD_OUT = 500  # anchors
FEW_HELD_OUT, FEW_OTHERS = 100, 9
"""Instead of :data:`MOST_HELD_OUT` and :data:`OTHERS` for a cross-encoder, which reads each pair."""


@dataclass(frozen=True)
class VerifierPreflight(PrintedRecord):
    """Results before the first step, as in :class:`~retrokit.training.preflight.Preflight`; ``held_out`` examples to
    measure on; parameters of the reranker, and of all that is trained."""

    sources: list[dict[str, Any]]
    held_out: int
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    steps: dict[str, float]
    configuration: dict[str, Any]


@dataclass(frozen=True)
class Examples:
    """A batch as it is read; candidates are drawn at every step."""

    examples: list[Example]


@dataclass(frozen=True)
class RerankerJob(Job):
    """A reranker's training, measured on ``lists``."""

    config: VerifierConfig
    preflight: VerifierPreflight
    lists: RankedLists

    @property
    def loader(self) -> Loader:
        """Batches for the library's trainer."""
        return Loader(self.batches.data, self.batches, lambda examples: {"batch": Examples(examples)})

    def describe(self) -> Run:
        verifier = str(reranking.verifiers.parse(self.config.verifier))
        notes = {
            "configuration": self.preflight.configuration,
            "parameters": self.preflight.parameters,
            "data": self.preflight.sources,
            "held_out": self.preflight.held_out,
            **provenance(),
        }
        return Run(TRAINING, "cosine", self.config.encoder, self.identity, verifier=verifier, notes=notes)

    def selection(self, folder: Path) -> dict[str, Any]:
        words = ["retrokit", "rerank", self.config.encoder, "--with", str(folder), "--on", "TASK"]
        task = ", ".join(self.config.dev) or "held-out anchors"
        return {"task": task, "overlap": None, "test": shlex.join(words)}

    def intervals(self, steps: int) -> tuple[int, int]:
        every = self.config.eval_every or max(1, steps // 10)
        return every, self.config.save_every or every


class RerankerTrainer(RunTrainer):
    """Trains a reranker, and measures it on ``lists``."""

    def __init__(self, *shared: Any, config: VerifierConfig, lists: RankedLists) -> None:
        super().__init__(*shared)
        self.config, self.lists = config, lists
        self.known_pairs = KnownPairs(self.loader.data.positives)

    def candidates(self, examples: Sequence[Example]) -> Candidates:
        """The candidates of each anchor, drawn by the seed, the step and the process."""
        rank = process_rank()
        seeds = [self.config.seed, self.state.global_step + 1]
        if rank > 0:
            seeds.append(rank)
        random = np.random.default_rng(seeds)
        return draw_candidates(examples, self.known_pairs, self.config.in_batch or 0, random)


@dataclass(frozen=True)
class Material:
    """The examples to train and to measure on, the metric, and digests of the inputs."""

    batches: Batches
    lists: RankedLists
    held_out: int
    metric: str
    digests: dict[str, list[str]]

    def of_job(
        self,
        config: VerifierConfig,
        device: torch.device,
        computes_in: str,
        fingerprint: str,
        lengths: dict[str, Any],
        parameters: dict[str, int],
        precision: str | None = None,
        start_digest: str | None = None,
    ) -> dict[str, Any]:
        """The fields of any reranker's job."""
        digests: dict[str, list[str] | str] = dict(self.digests)
        if start_digest is not None:
            digests["start_digest"] = start_digest
        resolved: dict[str, Any] = {"batch_size": config.examples}
        if precision is not None:
            resolved["precision"] = precision
        preflight = VerifierPreflight(
            **of_any_run(config, self.batches, device, lengths, **resolved),
            held_out=self.held_out,
            parameters=parameters,
        )
        return {
            "config": config,
            "batches": self.batches,
            "metric": self.metric,
            "preflight": preflight,
            "identity": identity_of(config, device, computes_in, fingerprint, digests),
            "lists": self.lists,
        }


def _metric(name: str | None, has_negatives: bool) -> str:
    """The metric that chooses the weights."""
    if name == "roc_auc" and not has_negatives:
        raise UsageError("`best_metric=` roc_auc: the held-out examples have no negatives")
    if name is not None:
        return name
    # with near-misses nDCG@10 is soon 1, and it does not measure a threshold for all anchors
    return "roc_auc" if has_negatives else "ndcg@10"


def read_material(config: VerifierConfig) -> Material:
    """Read and check it all; raises :class:`DataError` and :class:`UsageError`."""
    sources = [read_source(spec, config.kind) for spec in config.data]
    dev = [read_source(spec, "pairs") for spec in config.dev]
    if config.is_taught:
        check_taught(sources)
    measured = dev
    if not dev:
        sources, measured = hold_out(sources, HELD_OUT, most=FEW_HELD_OUT if config.reads_pairs else MOST_HELD_OUT)
    held_out = list(chain.from_iterable(map(pairs_of, measured)))
    lists = RankedLists.of(held_out, FEW_OTHERS if config.reads_pairs else OTHERS)
    metric = _metric(config.best_metric, has_negatives=sum(lists.negatives) > 0)
    batches = Batches(
        TrainingSet(sources), config.examples, config.seed, process_rank(), process_count(), mix=config.mix
    )
    digests = {"data_digests": [source.digest for source in sources], "dev_digests": [source.digest for source in dev]}
    return Material(batches, lists, len(held_out), metric, digests)


@dataclass(frozen=True)
class Candidates:
    """The texts of a batch, and the documents that each anchor is compared with.

    Attributes:
        columns: positions among the documents, int64 ``[n, k]``: the anchor's positive, its negatives, then documents
            of others; −1 is padding.
        is_negative: whether they are the anchor's own negatives, bool ``[n, k]``.
    """

    anchors: list[str]
    documents: list[str]
    columns: Tensor
    is_negative: Tensor


def draw_candidates(
    examples: Sequence[Example], known_pairs: KnownPairs, in_batch: int, random: np.random.Generator
) -> Candidates:
    """Compare each anchor with its positive, its negatives, and ``in_batch`` documents of the other examples at random.

    A known positive of the anchor is never among the others.
    """
    anchors, lists = zip(*(texts_of_record(example.record) for example in examples), strict=True)
    documents = list(chain.from_iterable(lists))
    ids = torch.tensor(list(chain.from_iterable(example.document_ids for example in examples)))
    is_positive = known_pairs(torch.tensor([example.anchor_id for example in examples]), ids).numpy()
    counts = [len(example.document_ids) for example in examples]
    starts = np.cumsum([0, *counts])
    rows = []
    for i, count in enumerate(counts):
        example_documents = np.arange(starts[i], starts[i] + count)
        free = np.flatnonzero(~is_positive[i])
        free = free[~np.isin(ids[free].numpy(), ids[example_documents].numpy())]
        rows.append(torch.from_numpy(np.concatenate([example_documents, random.permutation(free)[:in_batch]])))
    columns = pad_sequence(rows, batch_first=True, padding_value=-1)
    rank = torch.arange(columns.shape[1])
    is_negative = (rank > 0) & (rank < torch.tensor(counts)[:, None])
    return Candidates(list(anchors), documents, columns, is_negative)


def pairs_of(source: Source) -> Iterator[Pair]:
    """The records of a source of pairs."""
    for record in source.records:
        assert isinstance(record, Pair)
        yield record


@dataclass(frozen=True)
class RankedLists:
    """Pairs to score, grouped by anchor: its positive, its negatives, documents of others."""

    queries: list[str]
    documents: list[str]
    starts: list[int]
    negatives: list[int]

    @classmethod
    def of(cls, records: Sequence[Pair], others: int = OTHERS) -> RankedLists:
        """Lists of the records with ``others``, drawn by a fixed seed, none of them a positive of the anchor."""
        random = np.random.default_rng(42)
        positives: dict[str, set[str]] = {}
        for record in records:
            positives.setdefault(record.anchor, set()).add(record.positive)
        pool = list(dict.fromkeys(record.positive for record in records))
        queries: list[str] = []
        documents: list[str] = []
        starts, negatives = [0], []
        for record in records:
            drawn = [pool[i] for i in random.permutation(len(pool))[: 2 * others].tolist()]
            avoided = {record.anchor, *record.negatives, *positives[record.anchor]}
            free = [text for text in drawn if text not in avoided]
            candidates = [record.positive, *record.negatives, *free[:others]]
            queries += [record.anchor] * len(candidates)
            documents += candidates
            starts.append(len(documents))
            negatives.append(len(record.negatives))
        return cls(queries, documents, starts, negatives)

    def metrics(self, scores: np.ndarray) -> dict[str, float]:
        """nDCG@10, accuracy at rank 1 and, with negatives, ROC-AUC against them, of scores ``[n]`` of the pairs (higher
        is better). Ties count against the positive."""
        from retrokit.metrics.separation import roc_auc

        ranks, negative_scores = [], []
        for (start, end), count in zip(pairwise(self.starts), self.negatives, strict=True):
            ranks.append(1 + int((scores[start + 1 : end] >= scores[start]).sum()))
            negative_scores.append(scores[start + 1 : start + 1 + count])
        rank = np.array(ranks)
        results = {
            "ndcg@10": float(np.where(rank <= 10, 1 / np.log2(1 + rank), 0.0).mean()),
            "accuracy": float((rank == 1).mean()),
        }
        negative = np.concatenate(negative_scores)
        if len(negative):
            results["roc_auc"] = roc_auc(scores[self.starts[:-1]], negative)
            results["negative_score"] = float(negative.mean())
        return results
