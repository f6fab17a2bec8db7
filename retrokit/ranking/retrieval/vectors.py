"""Search in documents of a storage dtype (float16, int8, binary), exactly or through an index of faiss.

Documents and queries are prepared by the similarity, so that every score is an inner product. Queries stay float32,
except if signs are compared with signs.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from retrokit.core.errors import DataError
from retrokit.data.exports import Quantization
from retrokit.ranking.retrieval.approximate import ApproximateIndex
from retrokit.ranking.retrieval.embeddings import pair_scores
from retrokit.ranking.retrieval.exact import in_order, top_k
from retrokit.similarities.base import Role, Similarity, as_rows


class StoredProduct(Similarity):
    """The inner product of prepared queries with widened documents. Of binary, queries are signs too, and a score is
    the number of equal signs less that of the others."""

    scale: Tensor | None
    offset: Tensor
    signs: Tensor | None

    def __init__(self, spec: str, quantization: Quantization) -> None:
        super().__init__()
        self.spec, self.quantization = spec, quantization
        linear = quantization.linear() if quantization.ranges is not None else (None, None)
        for name, values in zip(("scale", "offset"), linear, strict=True):
            self.register_buffer(name, None if values is None else torch.from_numpy(values))
        every = np.arange(256, dtype=np.uint8)[:, None] if quantization.dtype == "binary" else None
        signs = None if every is None else torch.from_numpy(Quantization("binary", 8).widened(every))
        self.register_buffer("signs", signs)

    def prepare(self, embeddings: Tensor, role: Role) -> Tensor:
        rows = as_rows(embeddings)
        if self.signs is not None:
            return self.signs[rows.long()].flatten(1)[:, : self.quantization.dimension]
        return rows if role == "query" or self.scale is None else rows * self.scale + self.offset


@dataclass(frozen=True)
class StoredRows:
    """Search in stored documents ``rows``; of binary, ``rescored`` times k are found by the signs and scored again by
    the query's floats. ``folder``: cache of an index of faiss."""

    rows: np.ndarray
    quantization: Quantization
    spec: str
    rescored: int = 0
    index: str | None = None
    device: torch.device | str = "cpu"
    folder: Path | None = None

    @cached_property
    def product(self) -> StoredProduct:
        return StoredProduct(self.spec, self.quantization)

    @cached_property
    def approximate(self) -> ApproximateIndex | None:
        if self.index is None or not len(self.rows):
            return None
        return ApproximateIndex(self.product, self.rows, self.index, self.device, self.folder, self.quantization)

    def _queries(self, prepared: np.ndarray) -> np.ndarray:
        """Prepared queries as :attr:`product` takes them."""
        return self.quantization.narrowed(prepared) if self.product.signs is not None else prepared

    @torch.inference_mode()
    def search(self, prepared: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores float32 and positions int64 ``[nq, k]`` for prepared queries, best first; −∞ and −1 for no more."""
        if not len(self.rows):
            return np.empty((len(prepared), 0), dtype=np.float32), np.empty((len(prepared), 0), dtype=np.int64)
        wide = max(k, k * self.rescored)
        if self.approximate is None:
            try:
                scores, places = top_k(self.product, self._queries(prepared), self.rows, wide, self.device)
            except DataError as error:  # stored numbers that are not finite
                raise DataError(self.folder or self.spec, str(error)) from error
        else:
            result = self.approximate.search(self._queries(prepared), wide)
            scores, places = result.scores, result.indices
        return self._rescore(prepared, places, k) if self.rescored else (scores, places)

    def _rescore(self, prepared: np.ndarray, places: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = np.full(places.shape, -np.inf, dtype=np.float32)
        for query, row, score in zip(prepared, places, scores, strict=True):
            there = row >= 0
            score[there] = self.quantization.widened(self.rows[row[there]]) @ query
        ordered = in_order(torch.from_numpy(scores), torch.from_numpy(places))
        return ordered[0][:, :k].numpy(), ordered[1][:, :k].numpy()

    def score_pairs(
        self, queries: np.ndarray, documents: np.ndarray, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Scores ``[n]`` of prepared queries at ``rows`` with prepared documents at ``columns``, as if stored."""
        stored = self.quantization.widened(self.quantization.narrowed(documents))
        if self.product.signs is not None and not self.rescored:
            queries = self.quantization.widened(self.quantization.narrowed(queries))
        floats = StoredProduct(self.spec, Quantization("float32", self.quantization.dimension))
        return pair_scores(floats, queries, stored, rows, columns)
