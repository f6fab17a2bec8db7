"""The rerankers ``mean``, ``maxsim`` and ``soft``: token maps reduced by a formula (COMP, F0 to F2).

``maxsim`` is ColBERT's late interaction (Khattab and Zaharia, 2020) divided by the number of the query's tokens, which
changes no ranking. In ``soft`` with λ = 0, τ → 0 gives ``maxsim`` and τ → ∞ ``mean``.

Each formula takes ``maps``, the cosines float32 ``[…, a, b]`` of the ``a`` tokens of a query and the ``b`` of a
document, and which of these count, bool ``[…, a]`` and ``[…, b]``. It gives ``[…]``: −1 to 1, higher is better.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from retrokit import encoders
from retrokit.core.registry import Spec
from retrokit.ranking import reranking
from retrokit.ranking.reranking.maps import MapReranker, MapScorer


def mean_of_map(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """The mean of all cells (COMP, Eq. 5, F0).

    >>> maps = torch.tensor([[0.5, 0.25, 0.9], [0.0, 1.0, 0.9]])
    >>> mean_of_map(maps, torch.tensor([True, True]), torch.tensor([True, True, False])).item()
    0.4375
    """
    counts = query_mask.unsqueeze(-1) & document_mask.unsqueeze(-2)
    total = maps.masked_fill(~counts, 0.0).sum(dim=(-2, -1))
    return total / counts.sum(dim=(-2, -1)).clamp_min(1)


def maxsim(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """Each token of the query with the nearest of the document: mean over i of max over j (COMP, Eq. 6, F1).

    >>> maps = torch.tensor([[0.5, 0.25, 0.9], [0.0, 1.0, 0.9]])
    >>> maxsim(maps, torch.tensor([True, True]), torch.tensor([True, True, False])).item()
    0.75
    """
    best = maps.masked_fill(~document_mask.unsqueeze(-2), -torch.inf).amax(dim=-1)
    return best.masked_fill(~query_mask, 0.0).sum(dim=-1) / query_mask.sum(dim=-1).clamp_min(1)


def soft_alignment(
    maps: Tensor, query_mask: Tensor, document_mask: Tensor, bias: Tensor | float, temperature: Tensor | float
) -> Tensor:
    """Each token of the query with all of the document (one or more), near ones first (COMP, Eqs. 7 and 10, F2).

    The weights are a softmax over the document's tokens of the cosine minus ``bias`` (λ, cosines a token) times the
    distance of the two positions, divided by ``temperature`` (τ).

    >>> maps = torch.tensor([[0.5, 0.5, 0.9]])
    >>> mask = torch.tensor([True]), torch.tensor([True, True, False])
    >>> soft_alignment(maps, *mask, bias=0.0, temperature=1.0).item()
    0.5
    """
    rows = torch.arange(maps.shape[-2], device=maps.device)
    columns = torch.arange(maps.shape[-1], device=maps.device)
    distance = (rows[:, None] - columns[None, :]).abs()
    scores = ((maps - bias * distance) / temperature).masked_fill(~document_mask.unsqueeze(-2), -torch.inf)
    aligned = (scores.softmax(dim=-1) * maps).masked_fill(~document_mask.unsqueeze(-2), 0.0).sum(dim=-1)
    return aligned.masked_fill(~query_mask, 0.0).sum(dim=-1) / query_mask.sum(dim=-1).clamp_min(1)


class MeanOfMap(MapScorer):
    """F0."""

    dense = 0.3

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        return mean_of_map(maps, query_mask, document_mask)


class MaxSim(MapScorer):
    """F1."""

    dense = 0.3

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        return maxsim(maps, query_mask, document_mask)


class SoftAlignment(MapScorer):
    """F2. λ and τ can be learned; λ counts from 0 and τ from 0.001 up."""

    cells = 2_000_000
    dense = 0.5

    def __init__(self, **options: float) -> None:
        """The parameters of the spec, one of which is named like a keyword of Python: ``lambda`` and ``tau``."""
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(options["lambda"]))
        self.temperature = nn.Parameter(torch.tensor(options["tau"]))

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """0 of a pair whose document has no token."""
        mask = document_mask | ~document_mask.any(dim=-1, keepdim=True)  # no row of the softmax may be empty
        return soft_alignment(maps, query_mask, mask, self.bias.clamp_min(0), self.temperature.clamp_min(0.001))


def _over(
    kind: str, encoder: str, precision: str, cache: str | None, device: str | None = None, **options: Any
) -> MapReranker:
    """The reranker of that kind over the tokens of the encoder that the spec ``encoder`` names; raises as that does."""
    loaded = encoders.registry.create(encoder, device=device)
    return MapReranker(kind, loaded, reranking.verifiers.create(Spec(kind, options)), precision, cache)


mean_reranker, maxsim_reranker, soft_reranker = (partial(_over, kind) for kind in ("mean", "maxsim", "soft"))
