"""What turns a token map into a score (COMP, F0 to F4): three formulas and two small networks.

Formulas: ``maxsim`` is ColBERT's late interaction (Khattab and Zaharia, 2020) divided by the number of the query's
tokens, which changes no ranking. In ``soft`` with λ = 0, τ → 0 gives ``maxsim`` and τ → ∞ ``mean``. Each takes
``maps``, the cosines float32 ``[…, a, b]`` of the ``a`` tokens of a query and the ``b`` of a document, and which of
these count, bool ``[…, a]`` and ``[…, b]``. It gives ``[…]``: −1 to 1, higher is better.

``cnn`` (COMP, Eq. 8, F3) leaves the network open. Here: convolutions over :func:`map_channels`, then each token of
either text takes the features of the cell where it matches best, and an MLP reads the mean and the extremes of those.
Cells of padding are zeroed before every layer.

``transformer`` (COMP, Eq. 9, F4): the map's channels are cut into square patches. Each row of patches keeps those with
the highest cosines, so that a long candidate costs no more attention than a query of its length. Each becomes a
vector that knows its row and its column, and an MLP reads the vector of an extra patch, CLS, after the last layer.
Patches of padding are never attended to.

``plain`` networks are as the paper writes them (C.2): φ clips a cosine to 0 to 1 and maps it to −1 to 1; an MLP reads
the mean over all cells of convolutions over that channel, or CLS over all patches."""

import math
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.registry import Spec
from retrokit.ranking import reranking
from retrokit.ranking.reranking.maps import LogitScorer, MapReranker, MapScorer


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

    forward = staticmethod(mean_of_map)


class MaxSim(MapScorer):
    """F1."""

    forward = staticmethod(maxsim)


class SoftAlignment(MapScorer):
    """F2. λ and τ can be learned; λ counts from 0 and τ from 0.001 up."""

    cells = 2_000_000

    def __init__(self, **options: float) -> None:
        """``lambda`` and ``tau``."""
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


CHANNELS = 5
PLAIN = "plain"


def map_channels(maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
    """φ of maps ``[n, a, b]`` (COMP, Eq. 8): float32 ``[n, 5, a, b]``, 0 in padding. The cosine; its distance to the
    best of its row, and of its column; its place off the diagonal, −1 to 1; and 1."""
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
    """Layers that keep the size of a map. Raises :class:`UsageError` for an even kernel."""
    if kernel % 2 == 0:
        raise UsageError(f"cnn: kernel={kernel}: kernel size must be odd")
    widths = pairwise([inputs] + [channels] * layers)
    return nn.ModuleList(nn.Conv2d(before, after, kernel, padding=kernel // 2) for before, after in widths)


def _head(inputs: int, hidden: int, dropout: float) -> nn.Sequential:
    """The MLP that reads a map's features ``[n, inputs]``."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, 1))


class MapCNN(LogitScorer):
    """F3, ``ours``."""

    def __init__(self, channels: int, layers: int, kernel: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = convolutions(CHANNELS, channels, layers, kernel)
        pooled = 2 * (CHANNELS + channels) * 3
        self.head = nn.Sequential(nn.LayerNorm(pooled), *_head(pooled, hidden, dropout))

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
        self.head = _head(channels, hidden, dropout)

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
        self.head = _head(dim, hidden, dropout)

    def forward(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        cells = query_mask.unsqueeze(2) & document_mask.unsqueeze(1)
        patches, counts, columns = self._patches(self.shown(maps, query_mask, document_mask), cells)
        embedded = self.embed(patches) + _patch_positions(columns, self.cls)
        cls = self.cls.expand(len(maps), 1, -1)
        features = torch.cat([cls, embedded.flatten(1, 2)], dim=1)
        attended = torch.cat([counts.new_ones(len(maps), 1), counts.flatten(1)], dim=1)[:, None, None]
        for layer in self.layers:
            features = layer(features, attended)
        return self.head(self.norm(features[:, 0])).squeeze(1)

    def shown(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        """Its channels ``[n, c, a, b]`` of maps, cosines first."""
        return map_channels(maps, query_mask, document_mask)

    def _patches(self, channels: Tensor, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The best patches ``[n, rows, k, c·p²]`` of channels ``[n, c, a, b]``; which of them have a cell, bool, and
        their columns, both ``[n, rows, k]``. ``cells`` are no padding, bool ``[n, a, b]``."""
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
    """F4, ``plain``."""

    channels = 1

    def shown(self, maps: Tensor, query_mask: Tensor, document_mask: Tensor) -> Tensor:
        return clipped(maps, query_mask, document_mask).unsqueeze(1)


def _patch_positions(columns: Tensor, like: Tensor) -> Tensor:
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
    """The network of that form; ``plain`` attends to all patches, ``ours`` by default to 8 of a row."""
    if form == PLAIN and keep is not None:
        raise UsageError(f"transformer:plain attends to all patches: leave out keep={keep}")
    return PlainTransformer(None, **options) if form == PLAIN else MapTransformer(keep or 8, **options)
