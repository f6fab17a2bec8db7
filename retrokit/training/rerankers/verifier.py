"""``rerank train``: a verifier on token maps, its encoder frozen or in training too (COMP, D.3); or a cross-encoder."""

import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.settings import taking
from retrokit.encoders.base import Encoder
from retrokit.encoders.engine import train_tokens
from retrokit.encoders.fingerprint import digest_of_weights
from retrokit.encoders.precision import choose_precision
from retrokit.encoders.store import cache_in, open_cache
from retrokit.ranking import reranking
from retrokit.ranking.reranking.maps import MapReranker, MapScorer, TokenBlock, TokenCache, pad_tokens, pair_maps
from retrokit.ranking.reranking.verifier import save_weights, start_from
from retrokit.similarities.base import Role, length
from retrokit.training.history import Outcome
from retrokit.training.model import build, check_weights, describe_parameters, export
from retrokit.training.preflight import lengths_of
from retrokit.training.processes import ends_all, first_says, join, own_device
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.cross_encoder import plan_cross_encoder
from retrokit.training.rerankers.job import (
    Candidates,
    Material,
    RerankerJob,
    RerankerTrainer,
    pairs_of,
    read_material,
)
from retrokit.training.run import carry_out, check_places
from retrokit.training.trainer import Options, RunTrainer

TOKENS_FOLDER = "tokens"
COSINE_SCALE = 20.0  # multiplies cosines, not logits


def verifier_loss(scores: Tensor, is_negative: Tensor, learns_logits: bool) -> Tensor:
    """The loss, a scalar: rank an anchor's positive first, and separate it from near-misses by one threshold.

    The first term is a cross-entropy over the anchor's candidates. A verifier that yields logits also has a binary
    cross-entropy of positives against the anchors' own negatives, or others without any; both sides have equal weight.

    Args:
        scores: of each anchor's candidates, float32 ``[n, k]``, its positive first; −∞ is padding.
        is_negative: whether they are the anchor's own negatives, bool ``[n, k]``.
        learns_logits: whether the scores are logits, not cosines.

    >>> even = torch.zeros(2, 2)
    >>> round(verifier_loss(even, torch.tensor([[False, True]] * 2), learns_logits=False).item(), 4)
    0.6931
    """
    target = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    scaled = scores if learns_logits else COSINE_SCALE * scores
    ranking = nn.functional.cross_entropy(scaled, target)
    if not learns_logits:
        return ranking
    others = torch.isfinite(scores)
    others[:, 0] = False
    negative = is_negative if bool(is_negative.any()) else others
    return ranking + _binary(scores[:, 0], 1.0) + _binary(scores[negative], 0.0)


def _binary(logits: Tensor, label: float) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))


class Judge(nn.Module):
    """The module under training: a scorer of token maps, and the encoder below it if it is ``trained`` too; ``cache``
    contains the token embeddings of a frozen one."""

    def __init__(
        self, scorer: MapScorer, trained: SentenceTransformer | None, encoder: Encoder, precision: str
    ) -> None:
        super().__init__()
        self.scorer, self.trained = scorer, trained
        self.cache: TokenCache | None = None
        self._encoder = encoder
        self._precision = choose_precision(precision, encoder.device)

    def forward(self, candidates: Candidates) -> Tensor:
        """Scores of each anchor's candidates, float32 ``[n, k]``, −∞ in padding."""
        if self.cache is None and not self._encoder.with_tokens().tells_roles_apart:  # one pass for both
            both = self._tokens([*candidates.anchors, *candidates.documents], "document")
            count = len(candidates.anchors)
            queries = TokenBlock(both.tokens[:count], both.mask[:count])
            documents = TokenBlock(both.tokens[count:], both.mask[count:])
        else:
            queries = self._tokens(candidates.anchors, "query")
            documents = self._tokens(candidates.documents, "document")
        columns = candidates.columns.to(queries.mask.device)
        rows, ranks = torch.nonzero(columns >= 0, as_tuple=True)
        by_length = queries.mask.sum(dim=1)[rows].argsort()  # queries of a length share maps, which have little padding
        rows, ranks = rows[by_length], ranks[by_length]
        at_once = max(1, self.scorer.cells // max(1, queries.mask.shape[1] * documents.mask.shape[1]))
        scores_of_parts = []
        for row, column in zip(rows.split(at_once), columns[rows, ranks].split(at_once), strict=True):
            query, document = queries.at(row), documents.at(column)
            scores_of_parts.append(self.scorer(pair_maps(query, document), query.mask, document.mask))
        pair_scores = torch.cat(scores_of_parts)
        scores = pair_scores.new_full(columns.shape, -torch.inf)
        return scores.index_put((rows, ranks), pair_scores)

    def _tokens(self, texts: list[str], role: Role) -> TokenBlock:
        """Unit token embeddings, from the cache or with gradients."""
        encoder = self._encoder
        if self.cache is not None:
            return pad_tokens(self.cache.tokens(texts, role), encoder.device)
        mixed = self._precision != torch.float32
        with torch.autocast(encoder.device.type, self._precision) if mixed else nullcontext():
            tokens, mask = train_tokens(encoder.to_train().model, texts, role, encoder.prompts[role])
        return TokenBlock(tokens / length(tokens), mask)


class VerifierTrainer(RerankerTrainer):
    """Trains ``judge`` on the token embeddings of ``encoder``."""

    def __init__(self, judge: Judge, *shared: Any, encoder: Encoder, **options: Any) -> None:
        super().__init__(judge, *shared, **options)
        self.judge, self.encoder = judge, encoder

    def begin(self) -> None:
        """Fill the cache of token embeddings, in the first process for all."""
        if self.judge.trained is None:
            first_says(self._encode_all)
            self.judge.cache = self._cache()

    def _cache(self) -> TokenCache:
        cache = open_cache(self.config.cache) or cache_in(self.folder.path / TOKENS_FOLDER)
        return TokenCache(cache, self.encoder.with_tokens(), self.config.precision)

    def _encode_all(self) -> None:
        queries, documents = dict.fromkeys(self.lists.queries), dict.fromkeys(self.lists.documents)
        for source in self.loader.data.sources:
            for pair in pairs_of(source):
                queries[pair.anchor] = None
                documents |= dict.fromkeys((pair.positive, *pair.negatives))
        cache = self._cache()
        cache.fill(list(queries), "query")
        cache.fill(list(documents), "document")

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Matrices, not biases and norms."""
        return [name for name, value in model.named_parameters() if value.ndim >= 2]

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        candidates = self.candidates(inputs["batch"].examples)
        scores = model(candidates)
        return verifier_loss(scores, candidates.is_negative.to(scores.device), self.judge.scorer.learns_logits)

    def measure(self) -> dict[str, float]:
        self.judge.eval()
        reranker = MapReranker("", self.encoder, self.judge.scorer, self.config.precision)
        reranker.cache = self.judge.cache
        return self.lists.metrics(reranker.score_pairs(self.lists.queries, self.lists.documents))

    def write_model(self, folder: Path) -> bool:
        """Write the verifier's weights, which need an encoder to load."""
        save_weights(self.judge.scorer, folder)
        return False


@dataclass(frozen=True)
class VerifierPlan(RerankerJob):
    """A verifier's training in float32; ``trained`` is the encoder's model, if it is trained too."""

    encoder: Encoder
    trained: SentenceTransformer | None
    scorer: MapScorer

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def trainer(self, options: Options) -> RunTrainer:
        options.ddp_find_unused_parameters = self.trained is not None  # tokens do not use its pooling
        judge = Judge(self.scorer, self.trained, self.encoder, self.config.precision)
        rates = {"": self.config.lr, "trained.": self.config.encoder_lr or 0.0}
        return VerifierTrainer(
            judge, options, self.loader, rates, config=self.config, encoder=self.encoder, lists=self.lists
        )

    def finish(self, trainer: RunTrainer, staged: Path, outcome: Outcome) -> dict[str, Any]:
        check_weights(trainer.model, trainer.folder.target)
        trainer.model.eval()
        fingerprint = self.identity["encoder_fingerprint"]
        if self.trained is not None:
            export(self.trained, staged)
            fingerprint = encoders.registry.create(f'model:"{staged}"', device=self.config.device).fingerprint()
        save_weights(self.scorer, staged)
        shutil.rmtree(trainer.folder.path / TOKENS_FOLDER, ignore_errors=True)
        encoder = {"encoder": self.config.encoder, "fingerprint": fingerprint, "in_folder": self.config.end_to_end}
        return {"made_for": encoder}


def plan_maps(config: VerifierConfig, material: Material, device: str | None) -> VerifierPlan:
    """The training of a network over token maps on ``material``, with what it needs loaded on ``device``."""
    data = material.batches.data
    encoder: Encoder = encoders.registry.create(config.encoder, device=device)
    fingerprint = encoder.fingerprint()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        scorer: MapScorer = reranking.verifiers.create(config.verifier)
    if config.start is not None:
        start_from(scorer, config.verifier, config.start, encoder, config.end_to_end)
    if not config.end_to_end and not list(scorer.parameters()):
        raise UsageError(f"{config.verifier} has no weights to learn; give `end_to_end=` to train its encoder")
    trained = None
    if config.end_to_end:
        trained, _ = build(
            encoder,
            "cosine",
            lora=config.low_rank,
            dropout=config.encoder_dropout,
            seed=config.seed,
            merge_lora=True,
        )
    scorer.to(encoder.device)
    start_digest = None
    if config.start is not None:
        start_digest = digest_of_weights(scorer.state_dict()).hexdigest()
    verifier_size = sum(value.numel() for value in scorer.parameters())
    encoder_size = describe_parameters(trained)["trainable"] if trained is not None else 0
    fields = material.of_job(
        config,
        encoder.device,
        computes_in=encoder.computes_in(config.precision),
        fingerprint=fingerprint,
        lengths=lengths_of(encoder, data, config.seed),
        parameters={"verifier": verifier_size, "trainable": verifier_size + encoder_size},
        start_digest=start_digest,
    )
    return VerifierPlan(**fields, encoder=encoder, trained=trained, scorer=scorer)


@ends_all
def plan_verifier(config: VerifierConfig) -> RerankerJob:
    """Read and check everything: data, model, options; measure lengths.

    Raises:
        UsageError, DataError: any problem, before the first step, in any of several processes.
    """
    config = config.resolved()
    join()
    device = own_device(config.device)
    check_places(config, [*config.data, *config.dev])
    material = read_material(config)
    return (plan_cross_encoder if config.reads_pairs else plan_maps)(config, material, device)


@taking(VerifierConfig)
def train_verifier(config: VerifierConfig) -> Outcome:
    """Plan and train, and leave a finished model folder; raises as :func:`plan_verifier` and
    :func:`~retrokit.training.run.carry_out`."""
    return carry_out(plan_verifier(config))
