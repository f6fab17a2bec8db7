"""Token maps, and the reranker that scores them (COMP, Eq. 4).

``M(q, c)_ij = cos(q_i, c_j)`` for the tokens of a query and of a candidate. What turns a map into a score is a
:class:`MapScorer`: a reduction (F0, F1, F2) or a small network (F3, F4). Special tokens and padding never count.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from retrokit.core.notices import progress
from retrokit.encoders.base import Encoder, TokenEncoder
from retrokit.encoders.cached import TOKENS, Store
from retrokit.encoders.engine import keep_freed
from retrokit.encoders.store import EmbeddingCache, cache_in
from retrokit.ranking.reranking.base import PairwiseReranker, check_counts
from retrokit.similarities.base import Role

AT_ONCE = 2048  # texts encoded before their tokens are written
BLOCK_CHARACTERS = 250_000  # characters of the texts that are padded, and of documents held, at once
MAP_CELLS = 8_000_000  # cells of token maps, or numbers of the embeddings they are made of, held at once: 32 MB


class TokenBlock(NamedTuple):
    """Token embeddings of unit length, float32 ``[n, t, d]``, and which of them are no padding, bool ``[n, t]``."""

    tokens: Tensor
    mask: Tensor

    def at(self, rows: Tensor) -> "TokenBlock":
        """The texts at ``rows``, int64 ``[m]``, without the columns that are padding in all of them, but the first."""
        mask = self.mask[rows]
        longest = max(1, int(mask.any(dim=0).sum()))
        tokens = self.tokens.index_select(0, rows)  # far faster than by brackets
        return TokenBlock(tokens[:, :longest], mask[:, :longest])


class MapScorer(nn.Module):
    """Turns padded token maps into scores, higher is better; padding never changes one.

    Attributes:
        lowest: the score of a pair with a text that has no token.
        cells: cells of maps of a batch.
        learns_logits: whether :meth:`forward` yields a logit, not the score.
    """

    lowest = -1.0
    cells = MAP_CELLS
    learns_logits = False

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """Float32 ``[n]`` of maps float32 ``[n, a, b]``, and which of their rows and columns count, bool ``[n, a]`` and
        ``[n, b]``, at least one of each."""
        raise NotImplementedError

    def scores(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """The scores ``[n]`` of maps that may lack rows or columns."""
        if not maps.numel():
            return maps.new_full(maps.shape[:1], self.lowest)
        values = self(maps, query_mask, document_mask)
        if self.learns_logits:
            values = values.sigmoid()
        return values.masked_fill(~(query_mask.any(dim=-1) & document_mask.any(dim=-1)), self.lowest)


class LogitScorer(MapScorer):
    """A network that learns the logit of "they belong together"."""

    lowest = 0.0
    cells = 200_000
    learns_logits = True


def pad_tokens(embeddings: Sequence[np.ndarray], device: torch.device) -> TokenBlock:
    """A block of the unit token embeddings ``[t, d]`` of texts, padded to the longest."""
    parts = [torch.from_numpy(np.asarray(tokens, dtype=np.float32)) for tokens in embeddings]
    tokens = nn.utils.rnn.pad_sequence(parts, batch_first=True).to(device)
    counts = torch.tensor([len(tokens) for tokens in parts], device=device)
    return TokenBlock(tokens, torch.arange(tokens.shape[1], device=device) < counts[:, None])


def pair_maps(queries: TokenBlock, documents: TokenBlock) -> Tensor:
    """The map of query i with document i, float32 ``[n, a, b]``; a padded cell is 0.

    >>> one = TokenBlock(torch.eye(2)[None], torch.tensor([[True, True]]))
    >>> other = TokenBlock(torch.tensor([[[0.6, 0.8], [0.0, 0.0]]]), torch.tensor([[True, False]]))
    >>> pair_maps(one, other).tolist()
    [[[0.6000000238418579, 0.0], [0.800000011920929, 0.0]]]
    """
    return queries.tokens @ documents.tokens.transpose(1, 2)


def unit_tokens(encoder: TokenEncoder, texts: Sequence[str], role: Role, precision: str) -> list[np.ndarray]:
    """The embeddings of the tokens of each text, float32 ``[t, d]`` of unit length, special tokens left out."""
    embeddings = encoder.token_embeddings(texts, role, precision)
    return [tokens / np.maximum(np.linalg.norm(tokens, axis=1, keepdims=True), 1e-12) for tokens in embeddings]


class TokenCache:
    """Unit token embeddings of an encoder's texts in ``cache``, by the encoder's identity."""

    def __init__(self, cache: EmbeddingCache, encoder: TokenEncoder, precision: str) -> None:
        self.encoder = encoder
        self.precision = precision
        identity = encoder.identity(precision)
        about = None if identity is None else {**identity, "dimension": encoder.token_dimension, "length": "unit"}
        self._store = None if about is None else Store(cache, about, encoder.spec, TOKENS)

    def tokens(self, texts: Sequence[str], role: Role) -> list[np.ndarray]:
        """The token embeddings of each text, float16 ``[t, d]``, from the cache or the encoder."""

        def make(missing: Sequence[str]) -> list[np.ndarray]:
            return [tokens.astype(np.float16) for tokens in unit_tokens(self.encoder, missing, role, self.precision)]

        if self._store is None:  # the code cannot be told
            return make(texts)
        # cached once if both roles are encoded alike
        return self._store.arrays(texts, role if self.encoder.tells_roles_apart else "document", make)

    def fill(self, texts: Sequence[str], role: Role) -> None:
        """Cache the token embeddings of all texts, a part at a time."""
        for start in range(0, len(texts), AT_ONCE):
            self.tokens(texts[start : start + AT_ONCE], role)


class MapReranker(PairwiseReranker):
    """Scores pairs by the maps of an encoder's token embeddings, in float32, higher is better. Special tokens and
    padding never count. ``cache``: folder of token embeddings in half precision."""

    def __init__(
        self, spec: str, encoder: Encoder, scorer: MapScorer, precision: str = "fp32", cache: str | None = None
    ) -> None:
        self.spec = spec
        self.encoder = encoder.with_tokens()
        self.scorer = scorer.to(encoder.device).eval()
        self.precision = precision
        self.computes_in = encoder.computes_in(precision)
        self.cache = None if cache is None else TokenCache(cache_in(cache), self.encoder, precision)

    @torch.inference_mode()
    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Every distinct text is encoded once. Memory has the tokens of all queries, and of a block of documents."""
        check_counts(queries, documents)
        keep_freed()
        query_texts, query_of = _distinct(queries)
        document_texts, document_of = _distinct(documents)
        query_blocks = [(texts, self.tokens(texts, "query")) for texts in _blocks(query_texts)]
        by_document = np.argsort(document_of, kind="stable")
        scores = np.empty(len(queries), dtype=np.float32)
        first = 0
        with progress("matching tokens", len(queries), "pairs") as advance:
            for texts in _blocks(document_texts):
                bounds = np.searchsorted(document_of, [first, first + len(texts)], sorter=by_document)
                rows = by_document[slice(*bounds)]
                block = self.tokens(texts, "document")
                start = 0
                for query_block_texts, query_block in query_blocks:
                    inside = (query_of[rows] >= start) & (query_of[rows] < start + len(query_block_texts))
                    pairs = rows[inside]
                    scores[pairs] = self.score_blocks(
                        query_block, block, query_of[pairs] - start, document_of[pairs] - first
                    )
                    advance(len(pairs))
                    start += len(query_block_texts)
                first += len(texts)
        return scores

    def tokens(self, texts: Sequence[str], role: Role) -> TokenBlock:
        """The padded token embeddings of texts, on the encoder's device."""
        if self.cache is not None:
            return pad_tokens(self.cache.tokens(texts, role), self.encoder.device)
        return pad_tokens(unit_tokens(self.encoder, texts, role, self.precision), self.encoder.device)

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.encoder.fingerprint()} {self.computes_in} {self.scorer!r}".encode())
        digest.update(b"half" if self.cache is not None else b"")
        for name, tensor in sorted(self.scorer.state_dict().items()):
            digest.update(f"{name}:{list(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def score_blocks(
        self, queries: TokenBlock, documents: TokenBlock, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Scores float32 ``[n]`` of the queries at ``rows`` with the documents at ``columns``, both int64 ``[n]``."""
        longest_query, longest_document = queries.tokens.shape[1], documents.tokens.shape[1]
        numbers = (longest_query + longest_document) * queries.tokens.shape[2]
        at_once = min(MAP_CELLS // max(1, numbers), self.scorer.cells // max(1, longest_query * longest_document))
        at_once = max(1, at_once)
        scores = []
        for row, column in zip(
            torch.from_numpy(rows).split(at_once), torch.from_numpy(columns).split(at_once), strict=True
        ):
            query, document = queries.at(row.to(self.device)), documents.at(column.to(self.device))
            scores.append(self.scorer.scores(pair_maps(query, document), query.mask, document.mask).cpu())
        return torch.cat(scores).numpy()


def _distinct(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts, the shortest first, and the place of each of ``texts`` among them, ``[n]``."""
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    row_of = {text: i for i, text in enumerate(distinct)}
    return distinct, np.array([row_of[text] for text in texts], dtype=np.int64)


def _blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    """Blocks of texts, the shortest first, of a bounded padded size."""
    block: list[str] = []
    for text in texts:
        if block and (len(block) + 1) * len(text) > BLOCK_CHARACTERS:
            yield block
            block = []
        block.append(text)
    if block:
        yield block
