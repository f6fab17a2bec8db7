"""The verifier ``transformer``: a small Transformer over patches of the token map (COMP, Eq. 9, F4).

The map's channels (those of the CNN) are cut into square patches; each becomes a vector that knows its row and its
column, and an MLP reads the vector of an extra patch, CLS, after the last layer. Patches of padding are never attended
to.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from retrokit.errors import UsageError
from retrokit.reranking.cnn import CHANNELS, map_channels
from retrokit.reranking.maps import MapScorer


class _Layer(nn.Module):
    """Attention and a feed-forward network, each after a layer norm and added to its input."""

    def __init__(self, dim: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.attention_norm, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.inputs, self.output = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.feed_forward = nn.Sequential(
            nn.Linear(dim, 2 * dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim), nn.Dropout(dropout)
        )

    def forward(self, patches: Tensor, attended: Tensor) -> Tensor:
        """``patches [n, t, dim]``, and which of them are attended to, bool ``[n, 1, 1, t]``."""
        inputs = self.inputs(self.attention_norm(patches)).unflatten(-1, (3, self.heads, -1))
        query, key, value = inputs.permute(2, 0, 3, 1, 4)
        dropped = self.dropout if self.training else 0.0
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attended, dropout_p=dropped)
        patches = patches + self.output(mixed.transpose(1, 2).flatten(2))
        return patches + self.feed_forward(self.norm(patches))


class MapTransformer(MapScorer):
    """F4: the logit that two texts belong together."""

    lowest = 0.0
    cells = 200_000
    learns_logits = True

    def __init__(self, patch: int, dim: int, layers: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(CHANNELS * patch * patch, dim)
        self.cls = nn.Parameter(torch.randn(dim) * 0.02)
        self.layers = nn.ModuleList(_Layer(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """Logits ``[n]``."""
        patches, counts = self._patches(map_channels(maps, query_mask, document_mask))
        rows, columns = patches.shape[1:3]
        embedded = self.embed(patches) + _positions(rows, columns, self.cls)
        cls = self.cls.expand(len(maps), 1, -1)
        features = torch.cat([cls, embedded.flatten(1, 2)], dim=1)
        attended = torch.cat([counts.new_ones(len(maps), 1), counts.flatten(1)], dim=1)[:, None, None]
        for layer in self.layers:
            features = layer(features, attended)
        return self.head(self.norm(features[:, 0])).squeeze(1)

    def _patches(self, channels: Tensor) -> tuple[Tensor, Tensor]:
        """The patches ``[n, rows, columns, c·p²]`` of channels ``[n, c, a, b]``, and which of them hold a cell."""
        size = self.patch
        below, right = (-channels.shape[2]) % size, (-channels.shape[3]) % size
        padded = nn.functional.pad(channels, (0, right, 0, below))
        cut = padded.unflatten(2, (-1, size)).unflatten(4, (-1, size))  # [n, c, rows, p, columns, p]
        counts = cut[:, -1].amax(dim=(2, 4)) > 0  # the last channel is 1 in cells
        return cut.permute(0, 2, 4, 1, 3, 5).flatten(3), counts


def _positions(rows: int, columns: int, like: Tensor) -> Tensor:
    """Sines and cosines of a patch's row, then of its column, ``[rows, columns, dim]``."""
    half = len(like) // 2
    row = _sinusoids(rows, half, like)[:, None].expand(-1, columns, -1)
    column = _sinusoids(columns, half, like)[None].expand(rows, -1, -1)
    return torch.cat([row, column], dim=-1)


def _sinusoids(count: int, dim: int, like: Tensor) -> Tensor:
    rates = torch.exp(torch.arange(0, dim, 2, device=like.device) * (-math.log(1000.0) / dim))
    angles = torch.arange(count, device=like.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def map_transformer(patch: int, dim: int, layers: int, heads: int, hidden: int, dropout: float) -> MapTransformer:
    """A network of fresh weights.

    Raises:
        UsageError: dimensions that do not divide.
    """
    if dim % 4 or dim % heads:
        raise UsageError(f"transformer: dim={dim} must be a multiple of 4 and of heads={heads}")
    return MapTransformer(patch, dim, layers, heads, hidden, dropout)
