"""An encoder that embeds each text once, however often the parts of a probe ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from retrokit.encoders.encoder import Encoder
from retrokit.similarities.base import Role


class Remembering:
    """Stands in for ``encoder`` wherever texts are embedded; all else is the encoder's own."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[tuple[Role, str], tuple[dict[str, int], np.ndarray]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def embed(self, texts: Sequence[str], role: Role, precision: str = "auto") -> np.ndarray:
        """Raw embeddings, float32 ``[n, d]``, in the order of ``texts``; only new texts are encoded."""
        rows, embeddings = self._known.get((role, precision), ({}, np.zeros((0, self._encoder.dimension), np.float32)))
        new = [text for text in dict.fromkeys(texts) if text not in rows]
        if new:
            rows |= {text: len(rows) + i for i, text in enumerate(new)}
            embeddings = np.concatenate([embeddings, self._encoder.embed(new, role, precision)])
            self._known[role, precision] = rows, embeddings
        return embeddings[[rows[text] for text in texts]]
