"""Exact top-k search under any similarity, in blocks: memory stays bounded however many documents there are.

Factorable similarities cost one matrix product of prepared embeddings, whichever they are. Documents are passed over
once, so that they may lie on disk; a block of them is prepared once for all queries.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import progress
from retrokit.encoders import onednn
from retrokit.ranking.retrieval.base import check_k
from retrokit.similarities.base import Embeddings, Similarity

QUERY_BLOCK = 512
DOCUMENT_BLOCK = 8_000  # at most; with a block of queries it makes 16 MiB of scores, and up to 32 malloc re-uses memory
EMBEDDINGS_IN_MEMORY = 16_000_000  # numbers of a block of documents: 64 MB in float32
KERNEL_BLOCK = 2048  # documents of one call of a kernel that is no product, whose result is fresh memory
PAIRS = 512  # that are scored anew at a time: in float64 they stay in the processor's cache
MORE = 2  # times as many lie side by side before those whose ceilings are too low are taken out
MOST = 8  # times as many documents as are wanted are kept by their ceilings
GROUP = 16  # columns of scores of which only the best is compared with what has been found


@torch.inference_mode()
def top_k(
    similarity: Similarity, queries: Embeddings, documents: Embeddings, k: int, device: torch.device | str = "cpu"
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best documents of every query.

    Args:
        similarity: what scores.
        queries: raw embeddings ``[nq, d]``, NumPy or torch, of any float type.
        documents: raw embeddings ``[nd, d]``; a memory-mapped file is read once, block by block.
        k: how many; fewer come back where there are fewer documents.
        device: where to compute.

    Returns:
        Scores float32 ``[nq, k]``, best first, and indices int64 ``[nq, k]``. Of equal scores the lower index comes
        first, at the cut as well.

    Raises:
        UsageError: different dimensions, or k below 1.
        DataError: scores that are not finite.
    """
    queries, documents, k = checked(queries, documents, k)
    similarity = copy.deepcopy(similarity).to(device)  # the caller's stays where it is
    prepared = prepared_queries(similarity, queries, documents, device)
    block_queries = min(QUERY_BLOCK, len(prepared))
    block_documents = min(_rows_of_a_block(documents), len(documents))
    memory = prepared.new_empty(block_queries * block_documents)
    search = _Search(similarity, queries, documents, device, k, memory)
    blocks = [_Best(search, block) for block in prepared.split(QUERY_BLOCK)] if len(prepared) else []
    with progress("searching", len(queries) * len(documents), "pairs") as advance:
        for offset, prepared_block in prepared_documents(similarity, queries, documents, device):
            for block in blocks:
                block.add(prepared_block, offset)
                advance(len(block.queries) * len(prepared_block))
    results = [in_order(*block.scored()) for block in blocks]
    if not results:
        return np.empty((0, k), dtype=np.float32), np.empty((0, k), dtype=np.int64)
    scores = torch.cat([block_scores for block_scores, _ in results]).cpu().numpy()
    indices = torch.cat([block_indices for _, block_indices in results]).cpu().numpy()
    is_finite = np.isfinite(scores)
    if not is_finite.all():
        raise DataError(similarity.spec, f"{(~is_finite).sum()} of the best scores are not finite")
    return scores.astype(np.float32, copy=False), indices


def checked(queries: Embeddings, documents: Embeddings, k: int) -> tuple[Embeddings, Embeddings, int]:
    """Both sides as rows, and ``k`` or as many documents as there are."""
    queries = _rows(queries)
    documents = _rows(documents)
    check_k(k)
    if queries.shape[-1] != documents.shape[-1]:
        raise UsageError(f"queries have {queries.shape[-1]} dimensions, documents {documents.shape[-1]}")
    return queries, documents, min(k, len(documents))


def _rows(embeddings: Embeddings) -> Embeddings:
    return torch.atleast_2d(embeddings) if isinstance(embeddings, Tensor) else np.atleast_2d(embeddings)


def prepared_queries(
    similarity: Similarity, queries: Embeddings, documents: Embeddings, device: torch.device | str
) -> Tensor:
    """All queries, prepared."""
    return similarity.prepare(_tensor(queries).to(device, _common_type(queries, documents)), "query")


def prepared_documents(
    similarity: Similarity, queries: Embeddings, documents: Embeddings, device: torch.device | str
) -> Iterator[tuple[int, Tensor]]:
    """Prepared documents in blocks, each with the index of its first one."""
    dtype, rows = _common_type(queries, documents), _rows_of_a_block(documents)
    for offset in range(0, len(documents), rows):
        raw = _tensor(documents[offset : offset + rows])
        yield offset, similarity.prepare(raw.to(device, dtype), "document")


def _common_type(queries: Embeddings, documents: Embeddings) -> torch.dtype:
    return torch.promote_types(_tensor(queries[:0]).dtype, _tensor(documents[:0]).dtype)


def _rows_of_a_block(documents: Embeddings) -> int:
    return max(1, min(DOCUMENT_BLOCK, EMBEDDINGS_IN_MEMORY // max(1, documents.shape[-1])))


def _tensor(embeddings: Embeddings) -> Tensor:
    """The rows as a tensor, without a copy unless they are of a read-only file."""
    if isinstance(embeddings, np.ndarray) and not embeddings.flags.writeable:
        embeddings = np.array(embeddings)
    tensor: Tensor = torch.as_tensor(embeddings)
    return tensor


@dataclass(frozen=True)
class _Search:
    """The request, shared by all blocks of queries."""

    similarity: Similarity
    queries: Embeddings
    documents: Embeddings
    device: torch.device | str
    k: int
    memory: Tensor

    def score_pairs(self, queries: Tensor, rows: Tensor) -> Tensor:
        """Scores ``[n]`` of prepared queries, float64 ``[n, d]``, and as many documents."""
        raw = self.documents
        is_plain = isinstance(raw, Tensor) or raw.flags.writeable
        rows = rows.to(_tensor(raw[:0]).device)
        chosen = _tensor(raw).index_select(0, rows) if is_plain else torch.as_tensor(raw[rows.numpy()])
        chosen = chosen.to(self.device, _common_type(self.queries, raw))
        return self.similarity.kernel_pairs(queries, self.similarity.prepare(chosen, "document").double())


class _Best:
    """The best documents of a block of queries: their scores ``[nq, k]`` and rows; or, while there is a ``margin``, the
    ceilings ``[nq, m]`` of all candidates, whose scores are computed at the end."""

    def __init__(self, search: _Search, queries: Tensor) -> None:
        self.search, self.queries = search, queries
        self.values = queries.new_empty(len(queries), 0, dtype=torch.float32)
        self.rows = queries.new_empty(len(queries), 0, dtype=torch.int64)
        self.least: Tensor | None = None  # the k-th best value of each query
        self.margin: Tensor | None = self.values.new_zeros(len(queries))
        # on a CPU oneDNN's product is a fifth faster than mm, and makes its own memory
        is_plain = queries.device.type == "cpu" and queries.dtype == torch.float32
        self.by_onednn = is_plain and onednn.works(queries.dtype)

    def _memory(self, documents: Tensor) -> Tensor:
        """Reused memory for scores ``[nq, nd]``: fresh memory would cost as much time as finding the best."""
        return self.search.memory[: len(self.queries) * len(documents)].view(len(self.queries), len(documents))

    def add(self, documents: Tensor, offset: int) -> None:
        """Add a block of prepared documents, from row ``offset`` on."""
        if self.margin is not None and self._add_ceilings(documents, offset):
            return
        self.scored()
        similarity, scores = self.search.similarity, self._memory(documents)
        if similarity.factorable and self.by_onednn:
            scores = onednn.linear(self.queries, documents, None)
        elif similarity.factorable:
            torch.mm(self.queries, documents.T, out=scores)
        else:
            score_blocks = scores.split(KERNEL_BLOCK, dim=1)
            for kernel_block, score_block in zip(documents.split(KERNEL_BLOCK), score_blocks, strict=True):
                score_block.copy_(similarity.kernel(self.queries, kernel_block))
        scores = scores.float()
        candidates = _promising(scores, self.least, self.search.k)
        if candidates is None:
            columns = torch.arange(len(documents), device=scores.device).expand(len(scores), -1)
        else:
            scores, columns = _padded(*candidates, len(scores))
        self._merge(*_best(scores, columns, self.search.k), offset)
        self._cut()

    def scored(self) -> tuple[Tensor, Tensor]:
        """Scores and rows of the best. From here on there are no ceilings."""
        if self.margin is None:
            return self.values, self.rows
        exact_queries = self.queries.double()
        low = -torch.inf if self.least is None else (self.least - self.margin)[:, None]
        queries, columns = (self.values > low).nonzero(as_tuple=True)
        self.margin = None
        self.values = torch.full_like(self.values, -torch.inf)
        for query, column in zip(queries.split(PAIRS), columns.split(PAIRS), strict=True):
            query_embeddings = exact_queries.index_select(0, query)  # far faster than by brackets
            scores = self.search.score_pairs(query_embeddings, self.rows[query, column])
            self.values[query, column] = scores.float()
        self._cut()
        return self.values, self.rows

    def _add_ceilings(self, documents: Tensor, offset: int) -> bool:
        """Add the documents' ceilings; ``False``: there are none, or too many candidates."""
        ceilings = self.search.similarity.ceilings(self.queries, documents)
        if ceilings is None or self.margin is None:
            return False
        self.margin = torch.maximum(self.margin, ceilings.margin)
        if self.by_onednn:
            worth = onednn.linear(self.queries, documents, ceilings.terms)
        else:
            worth = torch.mm(self.queries, documents.T, out=self._memory(documents)).add_(ceilings.terms)
        candidates = _promising(worth, self.least, self.search.k, self.margin)
        if candidates is None or len(candidates[0]) * GROUP > worth.numel():  # then the kernel is faster
            return False
        self._merge(*_padded(*candidates, len(worth)), offset)
        self.least = _kth_best(self.values, self.search.k)
        if self.values.shape[1] > MORE * self.search.k:
            queries, columns = (self.values > (self.least - self.margin)[:, None]).nonzero(as_tuple=True)
            self.values, self.rows = _padded(
                queries, self.values[queries, columns], self.rows[queries, columns], len(worth)
            )
        if self.values.shape[1] > MOST * self.search.k:
            self.scored()
        return True

    def _merge(self, values: Tensor, columns: Tensor, offset: int) -> None:
        self.values = torch.cat([self.values, values], dim=1)
        self.rows = torch.cat([self.rows, columns + offset], dim=1)

    def _cut(self) -> None:
        self.values, self.rows = _best(self.values, self.rows, self.search.k)
        self.least = self.values.amin(dim=1) if self.values.shape[1] == self.search.k > 0 else None


def _promising(
    scores: Tensor, least: Tensor | None, k: int, margin: Tensor | float = 0.0
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Rows, scores and columns of candidates for the k best, given the k-th best score so far (``least``), equal within
    ``margin``; ``None`` if there are too many. Most groups of columns are skipped by their best one. A later document
    that only equals ``least`` is out.
    """
    count = scores.shape[1]
    if count % GROUP or (least is None and count < 2 * GROUP * k):
        return None
    stride = count // GROUP
    highest = scores.unflatten(1, (GROUP, stride)).amax(dim=1)
    if least is None:  # so many groups reach this value, and so do as many documents
        least = _kth_best(highest, k).nextafter(scores.new_tensor(-torch.inf))
    bound = least - margin
    rows, groups = (highest > bound[:, None]).nonzero(as_tuple=True)
    if 2 * len(rows) * GROUP > scores.numel():
        return None
    members = groups[:, None] + torch.arange(0, count, stride, device=scores.device)
    values = scores.flatten()[rows[:, None] * count + members]
    pairs, columns = (values > bound[rows, None]).nonzero(as_tuple=True)
    return rows[pairs], values[pairs, columns], members[pairs, columns]


def _kth_best(values: Tensor, k: int) -> Tensor:
    """The k-th highest value of each row ``[n]``, without sorting."""
    return values.topk(k, dim=1, sorted=False).values.amin(dim=1)


def _padded(rows: Tensor, values: Tensor, columns: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The entries of each of ``count`` rows, padded ``[count, most]``; ``rows`` are sorted."""
    counts = rows.bincount(minlength=count)
    padded_columns = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    shape = count, int(counts.max())
    padded_values, padded_indices = values.new_full(shape, -torch.inf), columns.new_zeros(shape)
    padded_values[rows, padded_columns] = values
    padded_indices[rows, padded_columns] = columns
    return padded_values, padded_indices


def _best(values: Tensor, indices: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest of each row, ties at the cut by lower index. ``topk`` leaves ties open."""
    if values.shape[1] <= k:
        return values, indices
    highest, columns = values.topk(k + 1, dim=1)
    best_indices = indices.gather(1, columns)
    tied = torch.nonzero(highest[:, k - 1] == highest[:, k]).flatten()
    if len(tied):
        tied_values, tied_indices = in_order(values[tied], indices[tied])
        highest[tied, :k] = tied_values[:, :k]
        best_indices[tied, :k] = tied_indices[:, :k]
    return highest[:, :k], best_indices[:, :k]


def in_order(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Each row from the highest value to the lowest, of equal values the lower index first."""
    indices, by_index = indices.sort(dim=1)
    values, by_value = values.gather(1, by_index).sort(dim=1, descending=True, stable=True)
    return values, indices.gather(1, by_value)
