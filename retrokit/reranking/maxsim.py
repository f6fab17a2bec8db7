"""The reranker ``maxsim``: every token of the query is matched with the token of the document that is nearest to it.

COMP, Eq. 6 (F1): ``F(q, d) = mean over i of max over j of M_ij``. This is ColBERT's late interaction (Khattab and
Zaharia, 2020) divided by the number of the query's tokens, which changes no ranking.
"""

from __future__ import annotations

import torch
from torch import Tensor

from retrokit import encoders
from retrokit.reranking.maps import MapReranker, MapScorer


def maxsim(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """F1 of token maps (COMP, Eq. 6), ``[…, a, b] → […]``: −1 to 1, higher is better.

    Args:
        maps: cosines of the ``a`` tokens of a query and the ``b`` of a document, float32.
        query_mask: which of the ``a`` count, bool ``[…, a]``.
        document_mask: which of the ``b`` count, bool ``[…, b]``.

    >>> maps = torch.tensor([[0.5, 0.25, 0.9], [0.0, 1.0, 0.9]])
    >>> maxsim(maps, torch.tensor([True, True]), torch.tensor([True, True, False])).item()
    0.75
    """
    best = maps.masked_fill(~document_mask.unsqueeze(-2), -torch.inf).amax(dim=-1)
    return best.masked_fill(~query_mask, 0.0).sum(dim=-1) / query_mask.sum(dim=-1).clamp_min(1)


class MaxSim(MapScorer):
    """F1."""

    dense = 0.3

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """:func:`maxsim`."""
        return maxsim(maps, query_mask, document_mask)


def maxsim_reranker(encoder: str, precision: str, cache: str | None, device: str | None = None) -> MapReranker:
    """Late interaction over the tokens of the encoder that the spec ``encoder`` names.

    Raises:
        RetrokitError: what loading that encoder raises.
    """
    loaded = encoders.registry.create(encoder, device=device)
    return MapReranker(f"maxsim:{encoder}", loaded, MaxSim(), precision, cache)
