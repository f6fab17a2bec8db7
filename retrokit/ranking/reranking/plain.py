"""COMP's F3 and F4 as the paper writes them (Eqs. 8 and 9, C.2), without what :mod:`.cnn` and :mod:`.transformer` add.

φ clips a cosine to 0 to 1 and brings it to −1 to 1, each cell by itself. ``cnn:plain`` is convolutions over that one
channel, and an MLP over their mean over all cells; ``transformer:plain`` attends to all patches of it. The paper leaves
the bounds, the pooling and the sizes open.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking.cnn import MapCNN, convolutions
from retrokit.ranking.reranking.maps import MapScorer
from retrokit.ranking.reranking.transformer import MapTransformer


def clipped(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """φ of maps ``[n, a, b]``: −1 to 1, and 0 in padding.

    >>> import torch
    >>> yes = torch.tensor([[True, True]])
    >>> clipped(torch.tensor([[[-0.5, 0.25], [1.0, 0.5]]]), yes, yes).tolist()
    [[[-1.0, -0.5], [1.0, 0.0]]]
    """
    counts = query_mask.unsqueeze(2) & document_mask.unsqueeze(1)
    return (2 * maps.clamp(0, 1) - 1).masked_fill(~counts, 0.0)


class PlainCNN(MapScorer):
    """F3: the logit that two texts belong together."""

    lowest = 0.0
    cells = 200_000
    learns_logits = True

    def __init__(self, channels: int, layers: int, kernel: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = convolutions(1, channels, layers, kernel)
        self.head = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        counts = (query_mask.unsqueeze(2) & document_mask.unsqueeze(1)).unsqueeze(1)
        features = clipped(maps, query_mask, document_mask).unsqueeze(1)
        for convolution in self.convolutions:
            features = nn.functional.relu(convolution(features), inplace=True) * counts
            features = features.contiguous(memory_format=torch.channels_last)  # the next is twice as fast on a CPU
        mean = features.sum(dim=(2, 3)) / counts.sum(dim=(2, 3)).clamp_min(1)
        return self.head(mean).squeeze(1)


class PlainTransformer(MapTransformer):
    """F4: the logit that two texts belong together."""

    channels = 1

    def shown(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        return clipped(maps, query_mask, document_mask).unsqueeze(1)


PLAIN = "plain"


def cnn(form: str, **options: Any) -> MapScorer:
    """The network of that form, ``ours`` or ``plain``."""
    return (PlainCNN if form == PLAIN else MapCNN)(**options)


def transformer(form: str, keep: int | None, **options: Any) -> MapScorer:
    """The network of that form; ``plain`` attends to all patches, and ``ours`` to 8 of a row if ``keep`` is open."""
    if form == PLAIN and keep is not None:
        raise UsageError(f"transformer:plain attends to all patches: leave out keep={keep}")
    return PlainTransformer(None, **options) if form == PLAIN else MapTransformer(keep or 8, **options)
