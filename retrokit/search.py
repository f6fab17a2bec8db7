"""Exact top-k search under any similarity, in blocks: memory stays bounded however many documents there are.

Factorable similarities cost one matrix product of prepared embeddings, whichever they are.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from retrokit.errors import UsageError
from retrokit.notices import progress
from retrokit.similarities.base import Similarity

QUERY_BLOCK = 256
SCORES_IN_MEMORY = 32_000_000  # float32 scores of a block: 128 MB


@torch.inference_mode()
def top_k(
    similarity: Similarity,
    queries: np.ndarray | Tensor,
    documents: np.ndarray | Tensor,
    k: int,
    device: torch.device | str = "cpu",
) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` best documents of every query.

    Args:
        similarity: what scores.
        queries: raw embeddings ``[nq, d]``.
        documents: raw embeddings ``[nd, d]``.
        k: how many; fewer come back where there are fewer documents.
        device: where to compute.

    Returns:
        Scores float32 ``[nq, k]``, best first, and indices int64 ``[nq, k]``. Of equal scores the lower index comes
        first, at the cut as well.

    Raises:
        UsageError: different dimensions, or k below 1.
    """
    queries, documents = _rows(queries), _rows(documents)
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    if queries.shape[-1] != documents.shape[-1]:
        raise UsageError(f"queries have {queries.shape[-1]} dimensions, documents {documents.shape[-1]}")
    dtype = torch.promote_types(queries.dtype, documents.dtype)
    k = min(k, len(documents))
    similarity = copy.deepcopy(similarity).to(device)  # the caller's stays where it is
    block = max(1, min(len(documents), SCORES_IN_MEMORY // QUERY_BLOCK))
    scores = np.empty((len(queries), k), dtype=np.float32)
    indices = np.empty((len(queries), k), dtype=np.int64)
    with progress("searching", len(queries), "queries") as advance:
        for start in range(0, len(queries), QUERY_BLOCK):
            rows = slice(start, start + QUERY_BLOCK)
            prepared = similarity.prepare(queries[rows].to(device, dtype), "query")
            best: tuple[Tensor, Tensor] | None = None
            for offset in range(0, len(documents), block):
                part = similarity.prepare(documents[offset : offset + block].to(device, dtype), "document")
                found = _best(similarity.kernel(prepared, part).float(), k)
                best = _merged(best, (found[0], found[1] + offset), k)
            if best is not None:
                scores[rows], indices[rows] = best[0].cpu().numpy(), best[1].cpu().numpy()
            advance(len(prepared))
    return scores, indices


def _rows(embeddings: np.ndarray | Tensor) -> Tensor:
    rows: Tensor = torch.atleast_2d(torch.as_tensor(embeddings))
    return rows


def _best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Top k of each row, ties by lower column. ``topk`` alone leaves ties open, in order and at the cut."""
    k = min(k, scores.shape[1])
    values, columns = scores.topk(k, dim=1)
    tied = (scores >= values[:, -1:]).sum(dim=1) > k
    for row in torch.nonzero(tied).flatten().tolist():
        order = torch.sort(scores[row], descending=True, stable=True)
        values[row], columns[row] = order.values[:k], order.indices[:k]
    return _sorted(values, columns)


def _sorted(values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    columns, by_column = columns.sort(dim=1)
    values, by_value = values.gather(1, by_column).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, by_value)


def _merged(before: tuple[Tensor, Tensor] | None, found: tuple[Tensor, Tensor], k: int) -> tuple[Tensor, Tensor]:
    if before is None:
        return found
    values, columns = (torch.cat(pair, dim=1) for pair in zip(before, found, strict=True))
    values, columns = _sorted(values, columns)
    return values[:, :k], columns[:, :k]
