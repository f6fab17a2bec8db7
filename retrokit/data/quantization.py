"""Prepared embeddings in fewer bits: one definition for what is exported, searched there, and evaluated.

int8 and binary are those of sentence-transformers' ``quantize_embeddings`` (its ``int8`` and ``ubinary``). int8 cuts
the range of each dimension, as a sample has it, into 255 steps, and what is beyond falls into the first or the last; a
number stands for the middle of its step. binary keeps the signs, eight in a byte. Yamada et al., "Efficient Passage
Retrieval with Hashing for Open-domain Question Answering", 2021, find by the signs alone, and then score a few again
by the query's floats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from retrokit.core.errors import DataError
from retrokit.data.dtypes import DTYPES

SAMPLE = 8192  # rows at most that ranges are taken from


@dataclass(frozen=True)
class Quantization:
    """How embeddings of ``dimension`` numbers are stored.

    Attributes:
        dtype: of the stored numbers, by the names of :data:`~retrokit.data.dtypes.DTYPES`.
        ranges: of int8, the least and the largest number of each dimension, float32 ``[2, dimension]``.
    """

    dtype: str
    dimension: int
    ranges: np.ndarray | None = None

    @property
    def width(self) -> int:
        """Numbers of a stored row."""
        return -(-self.dimension // 8) if self.dtype == "binary" else self.dimension

    @property
    def row_bytes(self) -> int:
        """Bytes of a stored row."""
        return self.width * np.dtype(DTYPES[self.dtype]).itemsize

    def calibrated(self, sample: np.ndarray) -> Quantization:
        """With the ranges of ``sample``, float ``[n, dimension]``, where the type has any."""
        if self.dtype != "int8":
            return self
        ranges = np.stack([sample.min(axis=0), sample.max(axis=0)]) if len(sample) else np.zeros((2, self.dimension))
        return replace(self, ranges=ranges.astype("<f4"))

    def linear(self) -> tuple[np.ndarray, np.ndarray]:
        """Of int8, ``scale`` and ``offset``, float32 ``[dimension]``: a stored number x stands for x·scale + offset."""
        assert self.ranges is not None
        steps = (self.ranges[1] - self.ranges[0]) / np.float32(255)
        return steps, self.ranges[0] + np.float32(128.5) * steps

    def narrowed(self, rows: np.ndarray) -> np.ndarray:
        """Float32 ``[n, dimension]`` as they are stored, ``[n, width]``; raises :class:`DataError` for numbers that are
        not finite, or where float16 is too narrow.

        >>> two = Quantization("int8", 2).calibrated(np.array([[0.0, -1.0], [255.0, 1.0]]))
        >>> two.narrowed(np.array([[3.1, -0.9], [900.0, 0.0]])).tolist()
        [[-125, -116], [127, -1]]
        >>> Quantization("binary", 3).narrowed(np.array([[0.5, -2.0, 0.1]])).tolist()
        [[160]]
        """
        if wrong := np.count_nonzero(~np.isfinite(rows)):
            raise DataError("embeddings", f"hold {wrong:,} numbers that are not finite")
        if self.dtype == "binary":
            return np.packbits(rows > 0, axis=-1)
        if self.dtype == "int8":
            steps, _ = self.linear()
            assert self.ranges is not None
            places = np.floor((rows - self.ranges[0]) / np.where(steps == 0, 1, steps))
            return (np.clip(places, 0, 255) - 128).astype(np.int8)
        with np.errstate(over="ignore"):
            stored = np.ascontiguousarray(rows, dtype=DTYPES[self.dtype])
        if not np.isfinite(stored).all():
            raise DataError(
                "embeddings", f"reach {np.abs(rows).max():.6g}, beyond what {self.dtype} holds; take float32 or int8"
            )
        return stored

    def widened(self, stored: np.ndarray) -> np.ndarray:
        """What stored rows stand for, float32 ``[n, dimension]``; of binary 1 and −1."""
        if self.dtype == "binary":
            return np.unpackbits(stored, axis=-1, count=self.dimension).astype(np.float32) * 2 - 1
        values = stored.astype(np.float32)
        if self.dtype == "int8":
            scale, offset = self.linear()
            values = values * scale + offset
        return values


def step_of(count: int) -> int:
    """Every how many of ``count`` rows one is in a sample: evenly, at most :data:`SAMPLE` rows."""
    return max(1, -(-count // SAMPLE))
