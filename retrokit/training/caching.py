"""Gradient caching, which is the library's."""

from __future__ import annotations

from typing import Any

from sentence_transformers.base.losses.gradcache import CachedLossMixin


class InParts(CachedLossMixin):
    """Embeds a batch of ``loss``, a :class:`~retrokit.training.loss.PreparedLoss`, in parts."""

    def __init__(self, loss: Any) -> None:
        self.mini_batch_size = loss.mini_batch_size
        self.calculate_loss = loss.calculate_loss
        self._loss = loss

    @property
    def model(self) -> Any:
        """The model that is trained, as the loss has it now."""
        return self._loss.model
