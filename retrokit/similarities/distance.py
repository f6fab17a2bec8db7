"""Similarities that are minus a distance: ``l2`` and ``l1``."""

from functools import partial

import torch
from torch import Tensor

from retrokit.similarities.base import TINY, Role, Similarity, as_rows


def pairwise_distance(queries: Tensor, documents: Tensor, p: int) -> Tensor:
    """Distances ``‖q − d‖_p``, ``[nq, nd]``, computed from differences: no cancellation for close vectors."""
    return torch.cdist(queries, documents, p=p, compute_mode="donot_use_mm_for_euclid_dist")


EPSILON = torch.finfo(torch.float32).eps
SMALL, HUGE = 1e-20, 1e37  # squared lengths between which float32 neither overflows nor loses anything that counts

QUERY_BLOCK, DOCUMENT_BLOCK = 256, 2048  # their squared distances stay in the processor's cache between the passes


def summed_distances(queries: Tensor, documents: Tensor, size: int) -> Tensor:
    """``Σ ‖f_q − f_d‖₂`` over fragments of ``size`` dimensions, ``[nq, nd]``.

    On a CPU without gradients, squared distances come from products in float64, some ten times faster than from
    differences. The terms cancel for close vectors: that leaves an absolute error of at most about 1e-7 of their norm,
    which float32 embeddings have themselves.
    """
    has_gradient = torch.is_grad_enabled() and (queries.requires_grad or documents.requires_grad)
    if has_gradient or queries.dtype != torch.float32 or queries.device.type != "cpu":
        return _summed_by_differences(queries, documents, size)
    sums = torch.empty(len(queries), len(documents))
    left = _factors(queries, size, is_left=True)
    memory = torch.empty(2, min(QUERY_BLOCK, len(queries)) * min(DOCUMENT_BLOCK, len(documents)), dtype=torch.float64)
    for start in range(0, len(documents), DOCUMENT_BLOCK):
        right = _factors(documents[start : start + DOCUMENT_BLOCK], size, is_left=False)
        for row in range(0, len(queries), QUERY_BLOCK):
            part = sums[row : row + QUERY_BLOCK, start : start + DOCUMENT_BLOCK]
            total, distances = (buffer[: part.numel()].view(part.shape) for buffer in memory)
            total.zero_()
            for query, document in zip(left[:, row : row + QUERY_BLOCK], right, strict=True):
                total += torch.mm(query, document.T, out=distances).clamp_min_(0).sqrt_()
            part.copy_(total)
    return sums


def _summed_by_differences(queries: Tensor, documents: Tensor, size: int) -> Tensor:
    summed = queries.new_zeros(len(queries), len(documents))
    for query, document in zip(queries.split(size, -1), documents.split(size, -1), strict=True):
        summed = summed + pairwise_distance(query, document, 2)
    return summed


def _factors(embeddings: Tensor, size: int, is_left: bool) -> Tensor:
    """``[fragments, n, size + 2]``: ``(−2f, ‖f‖², 1)`` or ``(f, 1, ‖f‖²)``, whose products are squared distances."""
    fragments = embeddings.double().unflatten(-1, (-1, size)).transpose(0, 1)
    squares = fragments.square().sum(-1, keepdim=True)
    ones = torch.ones_like(squares)
    return torch.cat([-2 * fragments, squares, ones] if is_left else [fragments, ones, squares], dim=-1)


class DistanceCeilings:
    """Ranks by ``−‖q − d‖₂`` at the cost of one product in float32. A document is worth ``q·d − ‖d‖²/2``, that is
    ``(‖q‖² − ‖q − d‖²)/2``; its ceiling is as computed, and its own share of the rounding above that.

    A sum of n products is wrong by at most ``n·ε/2·‖q‖‖d‖``, in whichever order, and ``‖q‖‖d‖ ≤ (‖q‖² + ‖d‖²)/2``: so
    query and document bear a share each, here twice what they have to; which covers the rounding of a score as well.
    """

    def __init__(self, queries: Tensor, documents: Tensor) -> None:
        error = (queries.shape[-1] + 4) * EPSILON
        of_queries, of_documents = (torch.linalg.vector_norm(side, dim=-1).square_() for side in (queries, documents))
        highest = of_documents.amax()
        self.margin = 4 * error * (of_queries + highest)
        self.terms = of_documents.mul_(1.5 * error - 0.5)  # ``[nd]``
        is_large = of_queries.amin() > SMALL  # then it counts nothing where a document is none
        self.hold = bool(is_large and of_queries.amax() + highest < HUGE)


class Distance(Similarity):
    """``−‖q − d‖_p``.

    >>> import torch
    >>> q, d = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    >>> l2().score(q, d).tolist(), l1().score(q, d).tolist()
    ([[-5.0, -0.0]], [[-7.0, -0.0]])
    """

    factorable = False

    def __init__(self, p: int) -> None:
        super().__init__()
        self.p = p
        self.library_name = "euclidean" if p == 2 else "manhattan"

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        return as_rows(embeddings)

    def part(self, dimension: int) -> int:
        """How many dimensions have a distance of their own, of which the mean counts: all."""
        return dimension

    def kernel(self, queries: Tensor, documents: Tensor) -> Tensor:
        size = self.part(queries.shape[-1])
        is_sum = self.p == 1  # of the fragments' as well
        summed = pairwise_distance(queries, documents, 1) if is_sum else summed_distances(queries, documents, size)
        count = queries.shape[-1] // size
        return -summed / count if count > 1 else -summed

    def kernel_pairs(self, queries: Tensor, documents: Tensor) -> Tensor:
        difference = (queries - documents).unflatten(-1, (-1, self.part(queries.shape[-1])))
        return -torch.linalg.vector_norm(difference, ord=self.p, dim=-1).mean(-1)

    def ceilings(self, queries: Tensor, documents: Tensor) -> DistanceCeilings | None:
        is_plain = queries.device.type == "cpu" and queries.dtype == torch.float32
        if self.p != 2 or not is_plain or self.part(queries.shape[-1]) < queries.shape[-1]:
            return None
        result = DistanceCeilings(queries, documents)
        return result if result.hold else None

    def typical_score(self, queries: Tensor, documents: Tensor) -> float:
        lengths = [-self.kernel_pairs(side, torch.zeros_like(side)).mean().item() for side in (queries, documents)]
        return max(sum(lengths) / 2, TINY)


l2, l1 = partial(Distance, 2), partial(Distance, 1)
