"""retrokit: train, stress-test and rerank with dense text retrievers.

The Python API, loaded lazily (importing retrokit imports no torch)::

    retrokit.similarity("sfs:16")     # a Similarity: prepare, score, score_pairs
    retrokit.encoder("minilm")        # an Encoder: embed(texts, role)
    retrokit.load("runs/qnorm")       # a finished run as an Encoder, its similarity with it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrokit.encoders.base import Encoder
    from retrokit.similarities.base import Similarity

__version__ = "0.1.0"
__all__ = ["encoder", "load", "similarity"]


def similarity(spec: str) -> Similarity:
    """The similarity that ``spec`` names, e.g. ``"qnorm"`` or ``"sfs:16"``."""
    from retrokit.similarities import registry

    return registry.create(spec)


def encoder(spec: str, device: str | None = None) -> Encoder:
    """The encoder that ``spec`` names: a registered name, a local folder, or a hub id."""
    from retrokit.encoders import registry

    return registry.create(spec, device=device)


def load(folder: str, device: str | None = None) -> Encoder:
    """A finished run as an encoder; ``load(folder).similarity`` is what it was trained with, γ included.

    Raises:
        UsageError: the folder is no run, or its training is not finished.
    """
    from retrokit.encoders.opening import load_run

    return load_run(folder, device=device)
