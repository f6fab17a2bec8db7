"""The verifier ``cnn``: a small convolutional network over the token map (COMP, Eq. 8, F3).

The paper leaves the network open. Here: convolutions over :func:`map_channels`, then each token of either text takes
the features of the cell where it matches best, and an MLP reads the mean and the extremes of those over the tokens.
Cells of padding are zeroed before every layer, so that padding changes nothing.

``plain`` is as the paper writes it (C.2): φ clips a cosine to 0 to 1 and brings it to −1 to 1, each cell by itself; an
MLP reads the mean over all cells of convolutions over that one channel.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking.maps import LogitScorer, MapScorer

CHANNELS = 5
PLAIN = "plain"


def map_channels(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """What a network sees of maps ``[n, a, b]`` (φ in COMP, Eq. 8): float32 ``[n, 5, a, b]``, 0 in padding.

    The cosine; how far it is below the best of its row, and of its column; where it lies off the diagonal, −1 to 1;
    and 1, which tells cells from padding.
    """
    counts = query_mask.unsqueeze(2) & document_mask.unsqueeze(1)
    shown = maps.masked_fill(~counts, -1.0)
    rows = _positions(query_mask).unsqueeze(2)
    columns = _positions(document_mask).unsqueeze(1)
    channels = [maps, maps - shown.amax(dim=2, keepdim=True), maps - shown.amax(dim=1, keepdim=True), rows - columns]
    stacked = torch.stack([*channels, torch.ones_like(maps)], dim=1)
    return stacked.masked_fill(~counts.unsqueeze(1), 0.0)


def _positions(mask: Tensor) -> Tensor:
    """Each token's place in its text, 0 to 1, ``[n, t]``."""
    places = torch.arange(mask.shape[1], device=mask.device, dtype=torch.float32)
    return places / mask.sum(dim=1, keepdim=True).clamp_min(1)


def clipped(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """φ of maps ``[n, a, b]``: −1 to 1, and 0 in padding.

    >>> yes = torch.tensor([[True, True]])
    >>> clipped(torch.tensor([[[-0.5, 0.25], [1.0, 0.5]]]), yes, yes).tolist()
    [[[-1.0, -0.5], [1.0, 0.0]]]
    """
    counts = query_mask.unsqueeze(2) & document_mask.unsqueeze(1)
    return (2 * maps.clamp(0, 1) - 1).masked_fill(~counts, 0.0)


def convolutions(inputs: int, channels: int, layers: int, kernel: int) -> nn.ModuleList:
    """So many layers that keep the size of a map, from ``inputs`` channels to ``channels``. Raises :class:`UsageError`
    for a kernel that has no middle."""
    if kernel % 2 == 0:
        raise UsageError(f"cnn: kernel={kernel} is even; a kernel has a middle")
    widths = pairwise([inputs] + [channels] * layers)
    return nn.ModuleList(nn.Conv2d(before, after, kernel, padding=kernel // 2) for before, after in widths)


class MapCNN(LogitScorer):
    """F3, ``ours``."""

    def __init__(self, channels: int, layers: int, kernel: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = convolutions(CHANNELS, channels, layers, kernel)
        pooled = 2 * (CHANNELS + channels) * 3
        self.head = nn.Sequential(
            nn.LayerNorm(pooled), nn.Linear(pooled, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 1)
        )

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        counts = (query_mask.unsqueeze(2) & document_mask.unsqueeze(1)).unsqueeze(1)
        seen = map_channels(maps, query_mask, document_mask)
        features = seen.contiguous(memory_format=torch.channels_last)  # twice as fast a convolution on a CPU
        for i, convolution in enumerate(self.convolutions):
            if i:  # what a layer makes of padding must not reach a cell; after the last layer only cells are read
                features = features * counts
            features = nn.functional.relu(convolution(features), inplace=True)
        shown = maps.masked_fill(~counts.squeeze(1), -torch.inf)
        pooled = []
        for dim, mask in ((2, query_mask), (1, document_mask)):
            best = shown.max(dim=dim, keepdim=True).indices.unsqueeze(1)
            for part in (seen, features):
                matched = part.gather(dim + 1, best.expand(-1, part.shape[1], -1, -1)).squeeze(dim + 1)
                pooled += _pooled(matched, mask)
        return self.head(torch.cat(pooled, dim=1)).squeeze(1)


class PlainCNN(LogitScorer):
    """F3, ``plain``."""

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


def _pooled(features: Tensor, mask: Tensor) -> list[Tensor]:
    """Mean, least and greatest of features ``[n, c, t]`` over the tokens that count, each ``[n, c]``."""
    counts = mask.unsqueeze(1)
    mean = features.masked_fill(~counts, 0.0).sum(dim=2) / mask.sum(dim=1, keepdim=True).clamp_min(1)
    least = features.masked_fill(~counts, torch.inf).amin(dim=2)
    most = features.masked_fill(~counts, -torch.inf).amax(dim=2)
    return [mean, least.nan_to_num(posinf=0.0), most.nan_to_num(neginf=0.0)]


def cnn(form: str, **options: Any) -> MapScorer:
    """The network of that form, ``ours`` or ``plain``."""
    return (PlainCNN if form == PLAIN else MapCNN)(**options)
