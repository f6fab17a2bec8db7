"""The verifier ``transformer``: a small Transformer over patches of the token map (COMP, Eq. 9, F4).

The map's channels (those of the CNN) are cut into square patches. Of each row of patches those with the highest cosines
are kept, which in a short text are all, so that a long candidate costs no more attention than a query of its length.
Each becomes a vector that knows its row and its column, and an MLP reads the vector of an extra patch, CLS, after the
last layer. Patches of padding are never attended to.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking.cnn import CHANNELS, PLAIN, clipped, map_channels
from retrokit.ranking.reranking.maps import LogitScorer, MapScorer


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


class MapTransformer(LogitScorer):
    """F4, ``ours``."""

    channels = CHANNELS

    def __init__(
        self, keep: int | None, patch: int, dim: int, layers: int, heads: int, hidden: int, dropout: float
    ) -> None:
        super().__init__()
        if dim % 4 or dim % heads:
            raise UsageError(f"transformer: dim={dim} must be a multiple of 4 and of heads={heads}")
        self.patch = patch
        self.keep = keep
        self.embed = nn.Linear(self.channels * patch * patch, dim)
        self.cls = nn.Parameter(torch.randn(dim) * 0.02)
        self.layers = nn.ModuleList(_Layer(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 1))

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        cells = query_mask.unsqueeze(2) & document_mask.unsqueeze(1)
        patches, counts, columns = self._patches(self.shown(maps, query_mask, document_mask), cells)
        embedded = self.embed(patches) + _positions(columns, self.cls)
        cls = self.cls.expand(len(maps), 1, -1)
        features = torch.cat([cls, embedded.flatten(1, 2)], dim=1)
        attended = torch.cat([counts.new_ones(len(maps), 1), counts.flatten(1)], dim=1)[:, None, None]
        for layer in self.layers:
            features = layer(features, attended)
        return self.head(self.norm(features[:, 0])).squeeze(1)

    def shown(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """What it sees of maps, ``[n, c, a, b]``, first how well the cells match."""
        return map_channels(maps, query_mask, document_mask)

    def _patches(self, channels: Tensor, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The patches that are kept, ``[n, rows, k, c·p²]``, of channels ``[n, c, a, b]``; which of them hold a cell,
        bool ``[n, rows, k]``; and their columns, ``[n, rows, k]``. ``cells`` are no padding, bool ``[n, a, b]``."""
        size = self.patch
        below, right = (-channels.shape[2]) % size, (-channels.shape[3]) % size
        both = torch.cat([channels, cells.unsqueeze(1).to(channels.dtype)], dim=1)
        padded = nn.functional.pad(both, (0, right, 0, below))
        cut = padded.unflatten(2, (-1, size)).unflatten(4, (-1, size))  # [n, c + 1, rows, p, columns, p]
        is_cell, cut = cut[:, -1] > 0, cut[:, :-1]
        best = cut[:, 0].masked_fill(~is_cell, -torch.inf).amax(dim=(2, 4))
        count = min(self.keep or best.shape[2], best.shape[2])
        columns = best.topk(count, dim=2).indices.sort(dim=2).values
        patches = cut.permute(0, 2, 4, 1, 3, 5).flatten(3)
        taken = patches.gather(2, columns.unsqueeze(3).expand(-1, -1, -1, patches.shape[3]))
        return taken, best.gather(2, columns) > -torch.inf, columns


class PlainTransformer(MapTransformer):
    """F4, ``plain``: as the paper writes it, it attends to all patches of the clipped cosines."""

    channels = 1

    def shown(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        return clipped(maps, query_mask, document_mask).unsqueeze(1)


def _positions(columns: Tensor, like: Tensor) -> Tensor:
    """Sines and cosines of a patch's row, then of its column, ``[n, rows, k, dim]``, at columns ``[n, rows, k]``."""
    half = len(like) // 2
    rows, last = columns.shape[1], int(columns.max()) + 1
    row = _sinusoids(rows, half, like)[None, :, None].expand(len(columns), -1, columns.shape[2], -1)
    return torch.cat([row, _sinusoids(last, half, like)[columns]], dim=-1)


def _sinusoids(count: int, dim: int, like: Tensor) -> Tensor:
    rates = torch.exp(torch.arange(0, dim, 2, device=like.device) * (-math.log(1000.0) / dim))
    angles = torch.arange(count, device=like.device)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def transformer(form: str, keep: int | None, **options: Any) -> MapScorer:
    """The network of that form; ``plain`` attends to all patches, and ``ours`` to 8 of a row if ``keep`` is open."""
    if form == PLAIN and keep is not None:
        raise UsageError(f"transformer:plain attends to all patches: leave out keep={keep}")
    return PlainTransformer(None, **options) if form == PLAIN else MapTransformer(keep or 8, **options)
