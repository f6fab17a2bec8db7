"""The reranker ``mean``: the mean of all cells of the token map (COMP, Eq. 5, F0)."""

from __future__ import annotations

from torch import Tensor

from retrokit import encoders
from retrokit.reranking.maps import MapReranker, MapScorer


def mean_of_map(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """F0 of token maps (COMP, Eq. 5), ``[…, a, b] → […]``: −1 to 1, higher is better.

    Args:
        maps: cosines of the ``a`` tokens of a query and the ``b`` of a document, float32.
        query_mask: which of the ``a`` count, bool ``[…, a]``.
        document_mask: which of the ``b`` count, bool ``[…, b]``.

    >>> import torch
    >>> maps = torch.tensor([[0.5, 0.25, 0.9], [0.0, 1.0, 0.9]])
    >>> mean_of_map(maps, torch.tensor([True, True]), torch.tensor([True, True, False])).item()
    0.4375
    """
    counts = query_mask.unsqueeze(-1) & document_mask.unsqueeze(-2)
    total = maps.masked_fill(~counts, 0.0).sum(dim=(-2, -1))
    return total / counts.sum(dim=(-2, -1)).clamp_min(1)


class MeanOfMap(MapScorer):
    """F0."""

    dense = 0.3

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """:func:`mean_of_map`."""
        return mean_of_map(maps, query_mask, document_mask)


def mean_reranker(encoder: str, precision: str, cache: str | None, device: str | None = None) -> MapReranker:
    """The mean of the token map, over the tokens of the encoder that the spec ``encoder`` names.

    Raises:
        RetrokitError: what loading that encoder raises.
    """
    loaded = encoders.registry.create(encoder, device=device)
    return MapReranker(f"mean:{encoder}", loaded, MeanOfMap(), precision, cache)
