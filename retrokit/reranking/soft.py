"""The reranker ``soft``: each token of the query is matched with all of the document, near ones in place first.

COMP, Eqs. 7 and 10 (F2): the weights are a softmax over the document's tokens of the cosine minus ``λ`` times the
distance of the two positions, divided by ``τ``. With λ = 0, τ → 0 gives MaxSim and τ → ∞ the mean of the map.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from retrokit import encoders
from retrokit.reranking.maps import MapReranker, MapScorer


def soft_alignment(
    maps: Tensor, query_mask: Tensor, document_mask: Tensor, bias: Tensor | float, temperature: Tensor | float
) -> Tensor:
    """F2 of token maps (COMP, Eqs. 7 and 10), ``[…, a, b] → […]``: −1 to 1, higher is better.

    Args:
        maps: cosines of the ``a`` tokens of a query and the ``b`` of a document, float32.
        query_mask: which of the ``a`` count, bool ``[…, a]``.
        document_mask: which of the ``b`` count, bool ``[…, b]``; at least one.
        bias: λ, what a token of distance costs; cosines a token.
        temperature: τ, of the softmax.

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


class SoftAlignment(MapScorer):
    """F2. λ and τ can be learned; λ counts from 0 and τ from 0.001 up."""

    cells = 2_000_000
    dense = 0.5

    def __init__(self, bias: float, temperature: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(bias))
        self.temperature = nn.Parameter(torch.tensor(temperature))

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """:func:`soft_alignment`; 0 of a pair whose document has no token."""
        mask = document_mask | ~document_mask.any(dim=-1, keepdim=True)  # no row of the softmax may be empty
        return soft_alignment(maps, query_mask, mask, self.bias.clamp_min(0), self.temperature.clamp_min(0.001))


def soft_alignment_of(**options: Any) -> SoftAlignment:
    """From the parameters of a spec, one of which is named like a keyword of Python: ``lambda`` and ``tau``."""
    return SoftAlignment(options["lambda"], options["tau"])


def soft_reranker(
    encoder: str, precision: str, cache: str | None, device: str | None = None, **options: Any
) -> MapReranker:
    """Soft alignment over the tokens of the encoder that the spec ``encoder`` names; λ and τ are in ``options``.

    Raises:
        RetrokitError: what loading that encoder raises.
    """
    loaded = encoders.registry.create(encoder, device=device)
    return MapReranker("soft", loaded, soft_alignment_of(**options), precision, cache)
