"""Indexes of faiss over documents in fewer bits: a flat list, clusters or a graph of 8-bit numbers, halves or signs.

They keep just the numbers of :mod:`retrokit.data.quantization`, so that an index takes the memory that a store does.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.data.quantization import Quantization

_PLAIN = re.compile(r"((IVF\d+(?:_HNSW\d+)?),)?Flat|((?:HNSW|NSG)\d*)(?:,Flat)?")
_CODECS = {"float16": "SQfp16", "int8": "SQ8"}


def factory_of(factory: str, dtype: str) -> str:
    """Faiss's name of the index ``factory`` over numbers of a type; an index that compresses by itself stays as it is.

    >>> factory_of("HNSW32", "int8"), factory_of("IVF64,Flat", "float16"), factory_of("IVF64,PQ32", "int8")
    ('HNSW32,SQ8', 'IVF64,SQfp16', 'IVF64,PQ32')
    """
    codec = _CODECS.get(dtype)
    return ",".join(filter(None, [_kind(factory), codec])) if codec and _PLAIN.fullmatch(factory) else factory


def _kind(factory: str) -> str:
    """What an index is but for how it keeps documents: ``HNSW32``, ``IVF64``, or nothing for a flat list."""
    match = _PLAIN.fullmatch(factory)
    return (match[2] or match[3] or "") if match else factory


def keep_as_they_are(faiss_index: Any, factory: str, stored: Quantization) -> None:
    """Let an index of :func:`factory_of` keep the stored numbers and no others; to be asked before it is trained, and
    again after it."""
    if stored.dtype not in _CODECS or not _PLAIN.fullmatch(factory):
        return
    import faiss

    inner: Any = faiss.downcast_index(faiss_index.storage) if hasattr(faiss_index, "storage") else faiss_index
    if hasattr(inner, "by_residual"):
        inner.by_residual = False  # numbers are those of documents, whatever cluster these are in
    if stored.ranges is not None:
        spans = np.concatenate([stored.ranges[0], stored.ranges[1] - stored.ranges[0]])
        faiss.copy_array_to_vector(spans, inner.sq.trained)


class SignIndex:
    """An index of faiss over signs, which it takes as floats, as other indexes do: documents and queries ``[n, d]`` of
    any numbers, of which it keeps the signs. A score is the number of equal signs, less that of the others."""

    def __init__(self, index: str, dimension: int) -> None:
        import faiss

        self.d, self._faiss = dimension, faiss
        factory = index.partition(":")[0]
        if not _PLAIN.fullmatch(factory) or "NSG" in factory:
            raise UsageError(f"index {index}: faiss has Flat, HNSW32 and IVF64,Flat for signs, and the like")
        self._faiss_index = faiss.index_binary_factory(-(-dimension // 8) * 8, f"B{_kind(factory) or 'Flat'}")
        self.metric_type = faiss.METRIC_INNER_PRODUCT

    @property
    def is_trained(self) -> bool:
        return bool(self._faiss_index.is_trained)

    @property
    def ntotal(self) -> int:
        return int(self._faiss_index.ntotal)

    def train(self, rows: np.ndarray) -> None:
        self._faiss_index.train(self._packed(rows))

    def add(self, rows: np.ndarray) -> None:
        self._faiss_index.add(self._packed(rows))

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores float32 ``[nq, k]`` and indices int64 ``[nq, k]``, −1 where there are no more."""
        apart, indices = self._faiss_index.search(self._packed(queries), k)
        return (self.d - 2 * apart).astype(np.float32), indices

    def set_parameter(self, name: str, value: int) -> None:
        """Set ``nprobe``, ``efSearch`` or the like; raises ``RuntimeError`` for what it does not have."""
        owner = self._faiss_index.hnsw if hasattr(self._faiss_index, "hnsw") else self._faiss_index
        if not hasattr(owner, name):
            raise RuntimeError(f"could not set parameter {name}")
        setattr(owner, name, value)

    def serialized(self) -> np.ndarray:
        """All of it in bytes, as a file has them."""
        data: np.ndarray = self._faiss.serialize_index_binary(self._faiss_index)
        return data

    def write(self, path: Path) -> None:
        """Write it to a file."""
        self._faiss.write_index_binary(self._faiss_index, str(path))

    def read(self, path: Path) -> SignIndex:
        """Take the place of what is in a file; raises ``RuntimeError`` where that is none."""
        self._faiss_index = self._faiss.read_index_binary(str(path))
        return self

    def _packed(self, rows: np.ndarray) -> np.ndarray:
        return Quantization("binary", self.d).narrowed(rows)
