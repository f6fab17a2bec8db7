"""``rerank train``: a verifier on token maps (COMP, D.3), its encoder frozen or in training too; or a cross-encoder."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.encoders.base import Encoder
from retrokit.encoders.fingerprint import digest_of_weights
from retrokit.ranking import reranking
from retrokit.ranking.reranking.maps import MapReranker, MapScorer
from retrokit.ranking.reranking.verifier import save_weights, start_from
from retrokit.training.batches import Loader
from retrokit.training.history import Outcome
from retrokit.training.model import build, check_weights, describe_parameters, export
from retrokit.training.preflight import LENGTH_SAMPLE, lengths_of, of_any_run, texts_of
from retrokit.training.processes import ends_all, join, own_device
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.cross_encoder import plan_cross_encoder
from retrokit.training.rerankers.job import Material, RerankerJob, VerifierPreflight, read_material
from retrokit.training.rerankers.trainer import TOKENS_FOLDER, Examples, Judge, VerifierTrainer
from retrokit.training.run import carry_out, check_output, identity_of
from retrokit.training.trainer import Destination, Options, RunTrainer

TIMED_PAIRS = 100


@dataclass(frozen=True)
class VerifierPlan(RerankerJob):
    """A verifier's training, in float32; ``trained`` is the encoder's model, if that is trained, in a precision of its
    own."""

    encoder: Encoder
    trained: SentenceTransformer | None
    scorer: MapScorer

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def trainer(self, options: Options, destination: Destination) -> RunTrainer:
        options.ddp_find_unused_parameters = self.trained is not None  # its pooling has no part in its tokens
        judge = Judge(self.scorer, self.trained, self.encoder, self.config.precision)
        loader = Loader(self.batches.data, self.batches, Examples.batch)
        rates = {"": self.config.lr, "trained.": self.config.encoder_lr or 0.0}
        of_any = judge, options, loader, destination, rates
        return VerifierTrainer(*of_any, config=self.config, encoder=self.encoder, lists=self.lists)

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
def plan_verifier(config: VerifierConfig) -> RerankerJob:
    """Read and check everything: data, model, options; measure lengths and speed.

    Raises:
        UsageError, DataError: whatever is wrong, before a step is made; in any of several processes.
    """
    config = config.resolved()
    join()
    device = own_device(config.device)
    check_output(config)
    material = read_material(config)
    return (plan_cross_encoder if config.reads_pairs else _plan_maps)(config, material, device)


def _plan_maps(config: VerifierConfig, material: Material, device: str | None) -> VerifierPlan:
    data = material.batches.data
    encoder: Encoder = encoders.registry.create(config.encoder, device=device)
    fingerprint = encoder.fingerprint()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        scorer: MapScorer = reranking.verifiers.create(config.verifier)
    if config.start is not None:
        start_from(scorer, config.verifier, config.start, encoder, config.end_to_end)
    if not config.end_to_end and not list(scorer.parameters()):
        raise UsageError(f"{config.verifier} learns nothing by itself: give `end_to_end=` to train its encoder")
    trained = None
    if config.end_to_end:
        changes = config.low_rank, config.encoder_dropout, config.seed
        trained, _ = build(encoder, "cosine", (), None, *changes, merge_lora=True)
    scorer.to(encoder.device)
    queries, documents = texts_of(data, LENGTH_SAMPLE, config.seed)
    learned = sum(value.numel() for value in scorer.parameters())
    of_encoder = describe_parameters(trained)["trainable"] if trained is not None else 0
    lengths = lengths_of(encoder, data, config.seed)
    preflight = VerifierPreflight(
        **of_any_run(config, material.batches, encoder.device, lengths, batch_size=config.examples),
        held_out=material.held_out,
        parameters={"verifier": learned, "trainable": learned + of_encoder},
        microseconds_per_pair=round(1e6 * seconds_per_pair(encoder, scorer, queries, documents), 1),
    )
    started = {"start_digest": digest_of_weights(scorer.state_dict()).hexdigest()} if config.start is not None else {}
    computes_in = encoder.computes_in(config.precision)
    return VerifierPlan(
        encoder=encoder,
        batches=material.batches,
        metric=material.metric,
        identity=identity_of(config, encoder.device, computes_in, fingerprint, material.digests, **started),
        config=config,
        preflight=preflight,
        trained=trained,
        scorer=scorer,
        lists=material.lists,
    )


def train_verifier(config: VerifierConfig) -> Outcome:
    """Plan and train, and leave a finished verifier's folder; raises as :func:`plan_verifier` and
    :func:`~retrokit.training.run.carry_out`."""
    return carry_out(plan_verifier(config))


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
