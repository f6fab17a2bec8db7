"""The reranker ``maxsim``: every token of the query is matched with the token of the document that is nearest to it.

COMP, Eq. 6 (F1): ``F(q, d) = mean over i of max over j of M_ij``, where ``M_ij = cos(q_i, d_j)`` is the token map. This
is ColBERT's late interaction (Khattab and Zaharia, 2020) divided by the number of the query's tokens, which changes no
ranking.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from retrokit import encoders
from retrokit.encoders.encoder import Encoder
from retrokit.errors import UsageError
from retrokit.notices import progress
from retrokit.similarities.base import Role, length

NO_TOKENS = -1.0  # the score of a pair with a text that has no token: the lowest that a cosine can be
BLOCK_CHARACTERS = 250_000  # characters of the texts that are padded, and of documents held, at once
MAP_CELLS = 8_000_000  # cells of token maps, or numbers of the embeddings they are made of, held at once: 32 MB
DENSE = 0.3  # from this share of wanted pairs on, all pairs of two blocks are computed: that spares copies of documents


class TokenBlock(NamedTuple):
    """Token embeddings of unit length, float32 ``[n, t, d]``, and which of them are no padding, bool ``[n, t]``."""

    tokens: Tensor
    mask: Tensor


def maxsim(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """F1 of token maps (COMP, Eq. 6), ``[…, m, n] → […]``: higher is better; −1 where a side has no token.

    Args:
        maps: cosines of the ``m`` tokens of a query and the ``n`` of a document, float32.
        query_mask: which of the ``m`` count, bool ``[…, m]``.
        document_mask: which of the ``n`` count, bool ``[…, n]``.

    >>> maps = torch.tensor([[0.5, 0.25, 0.9], [0.0, 1.0, 0.9]])
    >>> maxsim(maps, torch.tensor([True, True]), torch.tensor([True, True, False])).item()
    0.75
    """
    best = maps.masked_fill(~document_mask.unsqueeze(-2), -torch.inf).amax(dim=-1)
    total = best.masked_fill(~query_mask, 0.0).sum(dim=-1)
    has_tokens = query_mask.any(dim=-1) & document_mask.any(dim=-1)
    return torch.where(has_tokens, total / query_mask.sum(dim=-1).clamp_min(1), NO_TOKENS)


class MaxSimReranker:
    """Scores pairs by late interaction of an encoder's token embeddings, in float32: −1 to 1, higher is better.

    Special tokens and padding never count. The order and the batch of the pairs change a score by rounding only.

    Attributes:
        spec: the canonical spec it was made from.
        encoder: yields the token embeddings.
        precision: of encoding.
    """

    def __init__(self, spec: str, encoder: Encoder, precision: str = "fp32") -> None:
        self.spec = spec
        self.encoder = encoder
        self.precision = precision

    def score(self, query: str, documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of one query with each of ``n`` documents, in their order.

        Raises:
            DataError: an embedding is not finite.
        """
        return self.score_pairs([query] * len(documents), documents)

    @torch.inference_mode()
    def score_pairs(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Scores float32 ``[n]`` of query i with document i.

        Every distinct text is encoded once. The tokens of all queries are held in memory, those of the documents a
        block at a time.

        Raises:
            UsageError: different counts.
            DataError: an embedding is not finite.
        """
        if len(queries) != len(documents):
            raise UsageError(f"pairs need as many queries as documents: {len(queries)} and {len(documents)}")
        query_texts, query_of = _distinct(queries)
        document_texts, document_of = _distinct(documents)
        query_blocks = [(texts, self._encoded(texts, "query")) for texts in _blocks(query_texts)]
        by_document = np.argsort(document_of, kind="stable")
        scores = np.empty(len(queries), dtype=np.float32)
        first = 0
        with progress("matching tokens", len(queries), "pairs") as advance:
            for texts in _blocks(document_texts):
                bounds = np.searchsorted(document_of, [first, first + len(texts)], sorter=by_document)
                rows = by_document[slice(*bounds)]
                block = self._encoded(texts, "document")
                start = 0
                for query_block_texts, query_block in query_blocks:
                    inside = (query_of[rows] >= start) & (query_of[rows] < start + len(query_block_texts))
                    here = rows[inside]
                    scores[here] = _scores(query_block, block, query_of[here] - start, document_of[here] - first)
                    advance(len(here))
                    start += len(query_block_texts)
                first += len(texts)
        return scores

    def fingerprint(self) -> str:
        """A digest of all that decides a score: the encoder's, and the precision."""
        return hashlib.sha256(f"maxsim {self.encoder.fingerprint()} {self.precision}".encode()).hexdigest()

    def _encoded(self, texts: Sequence[str], role: Role) -> TokenBlock:
        found = [torch.from_numpy(tokens) for tokens in self.encoder.token_embeddings(texts, role, self.precision)]
        tokens = torch.nn.utils.rnn.pad_sequence(found, batch_first=True).to(self.encoder.device)
        counts = torch.tensor([len(part) for part in found], device=tokens.device)
        mask = torch.arange(tokens.shape[1], device=tokens.device) < counts[:, None]
        return TokenBlock(tokens / length(tokens), mask)


def _distinct(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts, the shortest first, and where each of ``texts`` stands among them, ``[n]``."""
    found = sorted(set(texts), key=lambda text: (len(text), text))
    place = {text: i for i, text in enumerate(found)}
    return found, np.array([place[text] for text in texts], dtype=np.int64)


def _blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    """Cut texts, the shortest first, so that what is padded to the longest one of a block stays within bounds."""
    block: list[str] = []
    for text in texts:
        if block and (len(block) + 1) * len(text) > BLOCK_CHARACTERS:
            yield block
            block = []
        block.append(text)
    if block:
        yield block


def _scores(queries: TokenBlock, documents: TokenBlock, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Scores float32 ``[n]`` of the queries at ``rows`` with the documents at ``columns``."""
    if not queries.tokens.shape[1] or not documents.tokens.shape[1]:  # no text has a token
        return np.full(len(rows), NO_TOKENS, dtype=np.float32)
    if len(rows) >= DENSE * len(queries.tokens) * len(documents.tokens):
        return _all_scores(queries, documents)[rows, columns]
    return _pair_scores(queries, documents, torch.from_numpy(rows), torch.from_numpy(columns))


def _all_scores(queries: TokenBlock, documents: TokenBlock) -> np.ndarray:
    """Scores float32 ``[nq, nd]`` of every query with every document."""
    count, longest, dimension = documents.tokens.shape
    flat = documents.tokens.reshape(-1, dimension)
    at_once = max(1, MAP_CELLS // (queries.tokens.shape[1] * len(flat)))
    parts = []
    for tokens, mask in zip(queries.tokens.split(at_once), queries.mask.split(at_once), strict=True):
        maps = (tokens.reshape(-1, dimension) @ flat.T).view(*tokens.shape[:2], count, longest).transpose(1, 2)
        parts.append(maxsim(maps, mask[:, None], documents.mask[None]).cpu().numpy())
    return np.concatenate(parts)


def _pair_scores(queries: TokenBlock, documents: TokenBlock, rows: Tensor, columns: Tensor) -> np.ndarray:
    """Scores float32 ``[n]`` of the queries at ``rows`` with the documents at ``columns``, from a map for each pair."""
    size = (queries.tokens.shape[1] + documents.tokens.shape[1]) * queries.tokens.shape[2]
    at_once = max(1, MAP_CELLS // size)
    parts = [np.empty(0, dtype=np.float32)]
    for row, column in zip(rows.split(at_once), columns.split(at_once), strict=True):
        row, column = row.to(queries.mask.device), column.to(queries.mask.device)
        maps = queries.tokens[row] @ documents.tokens[column].transpose(1, 2)
        parts.append(maxsim(maps, queries.mask[row], documents.mask[column]).cpu().numpy())
    return np.concatenate(parts)


def maxsim_reranker(encoder: str, precision: str, device: str | None = None) -> MaxSimReranker:
    """Late interaction over the tokens of the encoder that the spec ``encoder`` names.

    Raises:
        RetrokitError: what loading that encoder raises.
    """
    return MaxSimReranker(f"maxsim:{encoder}", encoders.registry.create(encoder, device=device), precision)
