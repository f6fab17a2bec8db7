"""``rerank train``: a verifier on token maps, with its encoder frozen or in training too (COMP, D.3)."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from retrokit import encoders, reranking
from retrokit.data.holdout import hold_out
from retrokit.data.pairs import Source, read_source
from retrokit.data.runs import TRAINING, Run
from retrokit.data.training_rows import Pair
from retrokit.encoders.base import Encoder
from retrokit.encoders.fingerprint import digest_of_weights
from retrokit.errors import UsageError
from retrokit.reranking.maps import MapReranker, MapScorer
from retrokit.reranking.training.config import VerifierConfig
from retrokit.reranking.training.data import RankedLists
from retrokit.reranking.training.trainer import TOKENS_FOLDER, Examples, Judge, VerifierTrainer, pairs_of
from retrokit.reranking.verifier import save_weights, start_from
from retrokit.training.batches import Batches, Loader, TrainingSet
from retrokit.training.history import Outcome
from retrokit.training.model import build, check_weights, export
from retrokit.training.preflight import LENGTH_SAMPLE, Plain, of_any_run, texts_of
from retrokit.training.processes import ends_all, join, own_device, place
from retrokit.training.run import Job, carry_out, check_output, identity_of, provenance, shared_input
from retrokit.training.trainer import Destination, Options, RunTrainer

TIMED_PAIRS = 100
HELD_OUT = 0.1  # of the anchors, where no other data are given to measure on
MOST_HELD_OUT = 500  # anchors


@dataclass(frozen=True)
class VerifierPreflight(Plain):
    """The findings before the first step, those of :class:`~retrokit.training.preflight.Preflight` and of the verifier:
    examples ``held_out`` that it is measured on, its parameters and those that are trained in all, and
    ``microseconds_per_pair`` from token embeddings to the score."""

    sources: list[dict[str, Any]]
    held_out: int
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    microseconds_per_pair: float
    steps: dict[str, float]
    configuration: dict[str, Any]


@dataclass(frozen=True)
class VerifierPlan(Job):
    """A verifier's training, in float32; ``trained`` is the encoder's model, if that is trained, in a precision of its
    own."""

    config: VerifierConfig
    preflight: VerifierPreflight
    trained: SentenceTransformer | None
    scorer: MapScorer
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

    def trainer(self, options: Options, destination: Destination) -> RunTrainer:
        options.ddp_find_unused_parameters = self.trained is not None  # its pooling has no part in its tokens
        judge = Judge(self.scorer, self.trained, self.encoder, self.config.precision)
        loader = Loader(self.batches.data, self.batches, Examples.batch)
        rates = {"": self.config.lr, "trained.": self.config.encoder_lr}
        of_any = judge, options, loader, destination, rates
        return VerifierTrainer(*of_any, config=self.config, encoder=self.encoder, lists=self.lists)

    def intervals(self, steps: int) -> tuple[int, int]:
        every = self.config.eval_every or max(1, steps // 10)
        return every, self.config.save_every or every

    def finish(self, trainer: RunTrainer, staged: Path, outcome: Outcome) -> dict[str, Any]:
        """The encoder's weights too, where that was trained."""
        check_weights(trainer.model, trainer.folder.target)
        trainer.model.eval()
        fingerprint = self.identity["encoder_fingerprint"]
        if self.trained is not None:
            export(self.trained, staged)
            fingerprint = encoders.registry.create(f'model:"{staged}"', device=self.config.device).fingerprint()
        save_weights(self.scorer, staged)
        shutil.rmtree(trainer.folder.path / TOKENS_FOLDER, ignore_errors=True)
        whose = {"encoder": self.config.encoder, "fingerprint": fingerprint, "in_folder": self.config.end_to_end}
        return {"made_for": whose}


@ends_all
def plan_verifier(config: VerifierConfig) -> VerifierPlan:
    """Read and check everything: data, encoder, verifier, options; measure lengths and speed.

    Raises:
        UsageError, DataError: whatever is wrong, before a step is made; in any of several processes.
    """
    join()
    rank, world = place()
    device = own_device(config.device)
    check_output(config)
    with shared_input([*config.data, *config.dev]):
        sources, dev, held_out = _read_data(config)
    data = TrainingSet(sources)
    batches = Batches(data, config.examples, config.seed, rank, world)
    lists = RankedLists.of(held_out)
    if config.best_metric == "roc_auc" and not sum(lists.negatives):
        raise UsageError("`best_metric` roc_auc: the examples held out have no negatives")
    # nDCG@10 is soon 1 where there are near-misses, and says nothing of a threshold for all anchors
    metric = config.best_metric or ("roc_auc" if sum(lists.negatives) else "ndcg@10")
    encoder: Encoder = encoders.registry.create(config.encoder, device=device)
    fingerprint = encoder.fingerprint()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        scorer: MapScorer = reranking.verifiers.create(config.verifier)
    if config.start is not None:
        start_from(scorer, config.verifier, config.start, encoder)
    if not config.end_to_end and not list(scorer.parameters()):
        raise UsageError(f"{config.verifier} learns nothing by itself: give `end_to_end` to train its encoder")
    trained = build(encoder, "cosine")[0] if config.end_to_end else None
    scorer.to(encoder.device)
    queries, documents = texts_of(data, LENGTH_SAMPLE, config.seed)
    learned = sum(value.numel() for value in scorer.parameters())
    of_encoder = sum(value.numel() for value in trained.parameters()) if trained is not None else 0
    preflight = VerifierPreflight(
        **of_any_run(config, encoder, batches, batch_size=config.examples),
        held_out=len(held_out),
        parameters={"verifier": learned, "trainable": learned + of_encoder},
        microseconds_per_pair=round(1e6 * seconds_per_pair(encoder, scorer, queries, documents), 1),
    )
    started = {"start_digest": digest_of_weights(scorer.state_dict()).hexdigest()} if config.start is not None else {}
    digests = {
        f"{name}_digests": [source.digest for source in read] for name, read in (("data", sources), ("dev", dev))
    }
    return VerifierPlan(
        encoder=encoder,
        batches=batches,
        metric=metric,
        identity=identity_of(config, encoder, fingerprint, digests, **started),
        config=config,
        preflight=preflight,
        trained=trained,
        scorer=scorer,
        lists=lists,
    )


def train_verifier(config: VerifierConfig) -> Outcome:
    """Plan and train, and leave a finished verifier's folder; raises as :func:`plan_verifier` and
    :func:`~retrokit.training.run.carry_out`."""
    return carry_out(plan_verifier(config))


def _read_data(config: VerifierConfig) -> tuple[list[Source], list[Source], list[Pair]]:
    """What to train on, the sources of what is held out if there are any, and what is held out."""
    sources = [read_source(spec, "pairs") for spec in config.data]
    if config.dev:
        dev = [read_source(spec, "pairs") for spec in config.dev]
        return sources, dev, [record for source in dev for record in pairs_of(source)]
    sources, held_out = hold_out(sources, HELD_OUT, most=MOST_HELD_OUT)
    return sources, [], [record for source in held_out for record in pairs_of(source)]


@torch.inference_mode()
def seconds_per_pair(encoder: Encoder, scorer: MapScorer, queries: list[str], documents: list[str]) -> float:
    """Measured seconds in which a verifier turns the token embeddings of a pair into its score."""
    texts = documents[:TIMED_PAIRS]
    reranker = MapReranker("", encoder, scorer)
    query, block = reranker.tokens(queries[:1], "query"), reranker.tokens(texts, "document")
    rows, columns = np.zeros(len(texts), dtype=np.int64), np.arange(len(texts))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        reranker.score_blocks(query, block, rows, columns)
        times.append(time.perf_counter() - began)
    return min(times) / len(texts)
