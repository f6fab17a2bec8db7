"""A guide: an encoder that tells which negatives of a batch are none (GISTEmbed, Solatorio 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from retrokit import encoders
from retrokit.encoders.base import Encoder, Item
from retrokit.similarities.base import Role


class Guide(nn.Module):
    """Masks a candidate that the encoder, under its own similarity, finds nearer to an anchor than its positive less
    the margin, which is a score (``absolute``) or a share of the positive's (``relative``).

    Args:
        encoder: its spec.
    """

    def __init__(
        self, encoder: str, margin: float, type: Literal["absolute", "relative"], device: str | None = None
    ) -> None:
        super().__init__()
        self._encoder: Encoder = encoders.registry.create(encoder, device=device)
        self.similarity = self._encoder.similarity
        self.margin, self.is_relative = margin, type == "relative"
        self.counts: Tensor
        self.register_buffer("counts", torch.zeros(2), persistent=False)  # masked, and all, since the last share

    def fingerprint(self) -> str:
        """Of the encoder."""
        return self._encoder.fingerprint()

    @torch.no_grad()
    def prepared(self, items: Sequence[Item], role: Role) -> Tensor:
        """Prepared embeddings float32 ``[n, w]``, on the CPU; from the store where they are there."""
        return self.similarity.prepare(torch.from_numpy(self._encoder.embed(items, role)), role)

    @torch.no_grad()
    def nearer(self, scores: Tensor, own: Tensor, excluded: Tensor) -> Tensor:
        """Which candidates are masked, bool ``[b, n]``, by the encoder's ``scores [b, n]``, where ``own[i]`` is the
        column of row i's positive; counts those that are not ``excluded`` without it."""
        positive = scores.gather(1, own[:, None])
        bound = positive - (positive.abs() * self.margin if self.is_relative else self.margin)
        masked = scores > bound
        others = ~excluded
        others[torch.arange(len(own), device=own.device), own] = False
        self.counts += torch.stack([(masked & others).sum(), others.sum()])
        return masked

    def share(self) -> float | None:
        """The share of the candidates that was masked since the last call; ``None``: there were none."""
        masked, seen = self.counts.tolist()
        self.counts.zero_()
        return masked / seen if seen else None
