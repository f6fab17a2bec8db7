"""The verifier ``cnn``: a small convolutional network over the token map (COMP, Eq. 8, F3).

The paper leaves the network open. Here: convolutions over :func:`map_channels`, then each token of either text takes
the features of the cell where it matches best, and an MLP reads the mean and the extremes of those over the tokens.
Cells of padding are zeroed before every layer, so that padding changes nothing.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking.maps import MapScorer

CHANNELS = 5


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


def convolutions(inputs: int, channels: int, layers: int, kernel: int) -> nn.ModuleList:
    """So many layers that keep the size of a map, from ``inputs`` channels to ``channels``. Raises :class:`UsageError`
    for a kernel that has no middle."""
    check_kernel(kernel)
    widths = pairwise([inputs] + [channels] * layers)
    return nn.ModuleList(nn.Conv2d(before, after, kernel, padding=kernel // 2) for before, after in widths)


class MapCNN(MapScorer):
    """F3: the logit that two texts belong together."""

    lowest = 0.0
    cells = 200_000
    learns_logits = True

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


def check_kernel(kernel: int) -> None:
    """Raise :class:`UsageError` for an even one."""
    if kernel % 2 == 0:
        raise UsageError(f"cnn: kernel={kernel} is even; a kernel has a middle")


def _pooled(features: Tensor, mask: Tensor) -> list[Tensor]:
    """Mean, least and greatest of features ``[n, c, t]`` over the tokens that count, each ``[n, c]``."""
    counts = mask.unsqueeze(1)
    mean = features.masked_fill(~counts, 0.0).sum(dim=2) / mask.sum(dim=1, keepdim=True).clamp_min(1)
    least = features.masked_fill(~counts, torch.inf).amin(dim=2)
    most = features.masked_fill(~counts, -torch.inf).amax(dim=2)
    return [mean, least.nan_to_num(posinf=0.0), most.nan_to_num(neginf=0.0)]
