"""Similarities that are minus a distance: ``l2`` and ``l1``."""

from __future__ import annotations

import torch
from torch import Tensor

from retrokit.similarities.base import TINY, Role, Similarity, as_rows


def pairwise_distance(queries: Tensor, documents: Tensor, p: int) -> Tensor:
    """Distances ``‖q − d‖_p``, ``[nq, nd]``, computed from differences: no cancellation for close vectors."""
    return torch.cdist(queries, documents, p=p, compute_mode="donot_use_mm_for_euclid_dist")


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

    def kernel(self, queries: Tensor, documents: Tensor) -> Tensor:
        return -pairwise_distance(queries, documents, self.p)

    def kernel_pairs(self, queries: Tensor, documents: Tensor) -> Tensor:
        return -torch.linalg.vector_norm(queries - documents, ord=self.p, dim=-1)

    def typical_score(self, queries: Tensor, documents: Tensor) -> float:
        norms = [torch.linalg.vector_norm(side, ord=self.p, dim=-1).mean().item() for side in (queries, documents)]
        return max(sum(norms) / 2, TINY)


def l2() -> Distance:
    """Minus the Euclidean distance."""
    return Distance(2)


def l1() -> Distance:
    """Minus the Manhattan distance."""
    return Distance(1)
