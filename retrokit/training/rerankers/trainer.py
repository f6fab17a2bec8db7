"""The trainer of a verifier on token maps, with its encoder frozen or in training too (COMP, D.3)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from retrokit.encoders.base import Encoder
from retrokit.encoders.engine import train_tokens
from retrokit.encoders.precision import choose_precision
from retrokit.encoders.store import cache_in, open_cache
from retrokit.ranking.reranking.maps import MapReranker, MapScorer, TokenBlock, pad_tokens, pair_maps
from retrokit.ranking.reranking.tokens import TokenCache
from retrokit.ranking.reranking.verifier import save_weights
from retrokit.similarities.base import Role, length
from retrokit.training.batches import Example
from retrokit.training.processes import first_says, place
from retrokit.training.rerankers.config import VerifierConfig
from retrokit.training.rerankers.data import Candidates, RankedLists, draw_candidates, pairs_of
from retrokit.training.trainer import RunTrainer

TOKENS_FOLDER = "tokens"
COSINE_SCALE = 20.0  # multiplies scores that are cosines; a logit is taken as it is


@dataclass(frozen=True)
class Examples:
    """A batch as it is read: what each anchor is compared with is drawn anew at every step."""

    examples: list[Example]

    @classmethod
    def batch(cls, examples: list[Example]) -> dict[str, Examples]:
        """What the library's trainer takes for a batch."""
        return {"batch": cls(examples)}


def verifier_loss(scores: Tensor, own: Tensor, learns_logits: bool) -> Tensor:
    """The loss, a scalar: rank an anchor's positive first, and tell it from its near-misses for all anchors alike.

    The first is a cross-entropy over the anchor's candidates. It leaves open where scores of one anchor lie against
    those of another, on which a threshold depends; so a verifier that yields logits also has a binary cross-entropy of
    positives against the anchors' own negatives, or the others where an anchor has none, both sides weighing the same.

    Args:
        scores: of each anchor's candidates, float32 ``[n, k]``, its positive first; −∞ is padding.
        own: which are the anchor's own negatives, bool ``[n, k]``.
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
    negative = own if bool(own.any()) else others
    return ranking + _binary(scores[:, 0], 1.0) + _binary(scores[negative], 0.0)


def _binary(logits: Tensor, label: float) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))


class Judge(nn.Module):
    """What is trained: a scorer of token maps, and the encoder below it where that is ``trained`` too; ``cache`` keeps
    the token embeddings of a frozen one."""

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
            both, count = (
                self._tokens([*candidates.anchors, *candidates.documents], "document"),
                len(candidates.anchors),
            )
            queries, documents = (
                TokenBlock(*(part[rows] for part in both)) for rows in (slice(count), slice(count, None))
            )
        else:
            queries = self._tokens(candidates.anchors, "query")
            documents = self._tokens(candidates.documents, "document")
        columns = candidates.columns.to(queries.mask.device)
        rows, places = torch.nonzero(columns >= 0, as_tuple=True)
        taken = columns[rows, places]
        query = TokenBlock(queries.tokens[rows], queries.mask[rows])
        document = TokenBlock(documents.tokens[taken], documents.mask[taken])
        pair_scores = self.scorer(pair_maps(query, document), query.mask, document.mask)
        scores = pair_scores.new_full(columns.shape, -torch.inf)
        return scores.index_put((rows, places), pair_scores)

    def _tokens(self, texts: list[str], role: Role) -> TokenBlock:
        """Unit token embeddings: kept ones, or such that carry gradients."""
        encoder = self._encoder
        if self.cache is not None:
            return pad_tokens(self.cache.tokens(texts, role), encoder.device)
        mixed = self._precision != torch.float32
        with torch.autocast(encoder.device.type, self._precision) if mixed else nullcontext():
            tokens, mask = train_tokens(encoder.to_train().model, texts, role, encoder.prompts[role])
        return TokenBlock(tokens / length(tokens), mask)


class VerifierTrainer(RunTrainer):
    """Trains ``judge`` on the token embeddings of ``encoder``, and measures it on ``lists``."""

    def __init__(
        self, judge: Judge, *of_any: Any, config: VerifierConfig, encoder: Encoder, lists: RankedLists
    ) -> None:
        super().__init__(judge, *of_any)
        self.judge, self.config, self.encoder, self.lists = judge, config, encoder, lists

    def begin(self) -> None:
        """Make the token embeddings of all texts, those that are not kept already: the first process for all."""
        if self.judge.trained is None:
            first_says(self._encode_all)
            self.judge.cache = self._cache()

    def _cache(self) -> TokenCache:
        kept_in = open_cache(self.config.cache) or cache_in(self.folder.path / TOKENS_FOLDER)
        return TokenCache(kept_in, self.encoder.with_tokens(), self.config.precision)

    def _encode_all(self) -> None:
        anchors: dict[str, None] = dict.fromkeys(self.lists.queries)
        documents: dict[str, None] = dict.fromkeys(self.lists.documents)
        for source in self.loader.data.sources:
            for record in pairs_of(source):
                anchors[record.anchor] = None
                documents.update(dict.fromkeys([record.positive, *record.negatives]))
        cache = self._cache()
        cache.fill(list(anchors), "query")
        cache.fill(list(documents), "document")

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """Matrices; no biases and norms."""
        return [name for name, value in model.named_parameters() if value.ndim >= 2]

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """The loss of a batch, whose candidates are drawn by the seed, the step and the process."""
        step, (rank, _) = self.state.global_step + 1, place()
        random = np.random.default_rng([self.config.seed, step, *([rank] if rank else [])])
        positives = self.loader.data.positives
        candidates = draw_candidates(inputs["batch"].examples, positives, self.config.in_batch or 0, random)
        scores = model(candidates)
        return verifier_loss(scores, candidates.own.to(scores.device), self.judge.scorer.learns_logits)

    def measure(self) -> dict[str, float]:
        self.judge.eval()
        reranker = MapReranker("", self.encoder, self.judge.scorer, self.config.precision)
        reranker.cache = self.judge.cache
        return self.lists.metrics(reranker.score_pairs(self.lists.queries, self.lists.documents))

    def write_model(self, folder: Path) -> bool:
        """Write the verifier's weights; without its encoder it does not load by itself."""
        save_weights(self.judge.scorer, folder)
        return False
