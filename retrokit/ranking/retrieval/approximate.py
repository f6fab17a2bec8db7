"""Approximate search through an index of faiss, with its recall measured against exact search.

An index is named by faiss's factory string, and after a colon by its parameters at search: ``HNSW32``,
``IVF4096,PQ32:nprobe=64``. It holds prepared embeddings under the inner product, so that it serves every factorable
similarity. Douze et al., "The Faiss library", 2024.
"""

from __future__ import annotations

import copy
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from retrokit.core.errors import DataError, MissingExtra, UsageError, first_line, out_of_range
from retrokit.core.notices import notice, progress
from retrokit.data.jsonl import read_json, write_json
from retrokit.data.quantization import Quantization
from retrokit.ranking.retrieval.compressed import SignIndex, factory_of, keep_as_they_are
from retrokit.ranking.retrieval.exact import checked, in_order, prepared_documents, prepared_queries, top_k
from retrokit.similarities.base import Embeddings, Similarity

QUERIES_CHECKED = 100  # whose best documents are searched exactly too
QUERY_BLOCK = 1024
TRAINING_NUMBERS = 128_000_000  # of the embeddings that an index is trained on, at most: 512 MB
POINTS_PER_CENTROID = 39  # that faiss asks for
_SINGLE = np.empty((0, 0), dtype=np.float32)  # what faiss computes in, at least
_LARGEST_BREADTH = 1_000_000  # of a search, for which faiss takes memory at once
ROUNDING = 1e-5  # by which two ways of summing one score may differ, of its size


@dataclass(frozen=True)
class Approximate:
    """What an approximate search found.

    Attributes:
        scores: float32 ``[nq, k]``, best first, as the index computes them; −∞ where it found no more documents.
        indices: int64 ``[nq, k]``, of equal scores the lower first; −1 where it found no more documents.
        recall: at k, and at 10 where k is larger: the mean share of as many documents found first that score no lower
            than the last of as many exact ones; from 0 to 1, higher is better.
        queries_checked: over so many queries, drawn at random where there are more than :data:`QUERIES_CHECKED`.
    """

    scores: np.ndarray
    indices: np.ndarray
    recall: dict[int, float]
    queries_checked: int


@torch.inference_mode()
def approximate_top_k(
    similarity: Similarity,
    queries: Embeddings,
    documents: Embeddings,
    k: int,
    index: str,
    device: torch.device | str = "cpu",
) -> Approximate:
    """About the ``k`` best documents of every query, and how many of them are.

    The index is built, searched and dropped. It is built in several threads, so that two of one graph (HNSW) need not
    be the same.

    Args:
        similarity, queries, documents, k: as for :func:`~ranking.retrieval.exact.top_k`; a factorable similarity.
        index: faiss's factory string, and after a colon parameters: ``IVF4096,PQ32:nprobe=64``.
        device: where to prepare embeddings and to search exactly; the index itself works on the CPU.

    Raises:
        UsageError: as for :func:`empty_index`; different dimensions; k below 1; too few documents to train on.
        MissingExtra: faiss is not installed.
    """
    queries, documents, k = checked(queries, documents, k)
    empty_index(index, similarity, documents.shape[-1])
    if not len(queries) or not len(documents):
        result = top_k(similarity, queries, documents, max(1, k), device)
        return Approximate(*result, recall={}, queries_checked=0)
    return ApproximateIndex(similarity, documents, index, device).search(queries, k)


class ApproximateIndex:
    """Documents in an index of faiss, built once; arguments and errors are those of :func:`approximate_top_k`. With a
    ``folder``, which belongs to the documents, it is kept there, with its recall, and mapped into memory the next time.
    ``stored`` says how the documents are stored, if not as floats, and so how the index keeps them.
    """

    @torch.inference_mode()
    def __init__(
        self,
        similarity: Similarity,
        documents: Embeddings,
        index: str,
        device: torch.device | str = "cpu",
        folder: Path | None = None,
        stored: Quantization | None = None,
    ) -> None:
        self._similarity = copy.deepcopy(similarity).to(device)
        self._documents, self._index, self._device = documents, index, device
        self._stored = stored or Quantization("float32", documents.shape[-1])
        self._faiss_index = empty_index(index, self._similarity, documents.shape[-1], self._stored.dtype)
        self._checked: tuple[dict[int, float], int] = {}, 0
        self._index_files = None if folder is None else KeptIndex(folder, index)
        cached = self._index_files.read(self._faiss_index, len(documents)) if self._index_files is not None else None
        if cached is None:
            self._build()
        else:
            self._faiss_index, self._checked = cached
            _set_parameters(self._faiss_index, index)

    def _build(self) -> None:
        documents, index = self._documents, self._index
        factory = index.partition(":")[0]
        if not self._faiss_index.is_trained:
            rows = _sample(len(documents), TRAINING_NUMBERS // documents.shape[-1])
            vectors = np.concatenate(list(self._prepared(documents[rows])))
            _spare_warnings(self._faiss_index, index, len(rows))
            keep_as_they_are(self._faiss_index, factory, self._stored)
            _asked(index, partial(self._faiss_index.train, vectors))
        keep_as_they_are(self._faiss_index, factory, self._stored)
        with progress("indexing", len(documents), "documents") as advance:
            for vectors in self._prepared(documents):
                _asked(index, partial(self._faiss_index.add, vectors))
                advance(len(vectors))
        if self._index_files is not None:
            self._index_files.write(self._faiss_index)

    def _prepared(self, documents: Embeddings) -> Iterator[np.ndarray]:
        """Blocks of documents as the index takes them, float32 ``[n, d']``."""
        for _, part in prepared_documents(self._similarity, _SINGLE, documents, self._device):
            yield part.float().cpu().numpy()

    @torch.inference_mode()
    def search(self, queries: Embeddings, k: int) -> Approximate:
        """About the ``k`` best documents of every query; the recall is that of the first search."""
        queries, documents, k = checked(queries, self._documents, k)
        vectors = prepared_queries(self._similarity, queries, documents, self._device).float().cpu().numpy()
        scores, indices = _search(self._faiss_index, self._index, vectors, k)
        if not self._checked[1]:
            rows = _sample(len(queries), QUERIES_CHECKED)
            recall = _recall(self._similarity, queries[rows], documents, indices[rows], self._device)
            self._checked = recall, len(rows)
            if self._index_files is not None:
                self._index_files.write_recall(*self._checked)
        return Approximate(scores, indices, *self._checked)

    @contextmanager
    def alone(self) -> Iterator[Any]:
        """What searches, ``search(queries, k)`` of what :meth:`search` prepares, in one thread meanwhile."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        _faiss().omp_set_num_threads(1)
        try:
            yield self._faiss_index
        finally:
            torch.set_num_threads(threads)
            _faiss().omp_set_num_threads(threads)

    @property
    def bytes(self) -> int:
        """Of the whole index, as a file has them."""
        faiss_index = self._faiss_index
        return len(
            faiss_index.serialized() if isinstance(faiss_index, SignIndex) else _faiss().serialize_index(faiss_index)
        )

    def account(self) -> dict[str, Any]:
        """The index and its recall, as results tell them."""
        recall, queries = self._checked
        shares = {f"recall@{k}": round(share, 6) for k, share in recall.items()}
        return {"index": self._index, "index_recall": {**shares, "queries": queries}}


def _sample(count: int, most: int) -> np.ndarray:
    """The rows of ``count``, in order; at most ``most`` of them, at random."""
    rows = np.arange(count)
    return rows if count <= most else np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def empty_index(index: str, similarity: Similarity, dimension: int, dtype: str = "float32") -> Any:
    """The index of faiss, without documents, for embeddings ``[n, dimension]`` as ``similarity`` prepares them, which
    it keeps in numbers of type ``dtype``.

    Raises:
        UsageError: the similarity is no inner product, or faiss has no such index, not for that dimension, or not for
            that product.
        MissingExtra: faiss is not installed.
    """
    if not similarity.factorable:
        raise UsageError(f"index {index}: it serves inner products, and {similarity.spec} is none: search exactly")
    faiss = _faiss()
    factory = index.partition(":")[0]
    if (graph := re.search(r"(?:HNSW|NSG)([01])(?!\d)", factory)) is not None:  # faiss ends the process
        raise UsageError(f"index {index}: a graph needs at least 2 neighbours of each document, not {graph[1]}")
    width = similarity.prepare(torch.ones(1, dimension), "document").shape[-1]
    if dtype == "binary":
        faiss_index = _asked(index, partial(SignIndex, index, width))
    else:
        named = factory_of(factory, dtype)
        faiss_index = _asked(index, partial(faiss.index_factory, width, named, faiss.METRIC_INNER_PRODUCT))
    if faiss_index.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise UsageError(f"index {index}: faiss has it for distances alone, not for inner products")
    _set_parameters(faiss_index, index)
    return faiss_index


def _set_parameters(faiss_index: Any, index: str) -> None:
    if parameters := index.partition(":")[2]:
        given = [parameter.partition("=") for parameter in parameters.split(",")]
        for name, _, value in given:  # faiss cuts what is no whole number of 32 bits, and then finds nothing
            if not re.fullmatch(r"[0-9]{1,10}", value):
                raise UsageError(f"index {index}: parameters are whole numbers, such as nprobe=8")
            bounds = (1, _LARGEST_BREADTH) if name.endswith(("efSearch", "nprobe")) else (0, None)
            if expected := out_of_range(int(value), *bounds):
                raise UsageError(f"index {index}: {name}={value} is out of range ({expected})")
        if isinstance(faiss_index, SignIndex):
            for name, _, value in given:
                _asked(index, partial(faiss_index.set_parameter, name, int(value)))
            return
        _asked(index, partial(_faiss().ParameterSpace().set_index_parameters, faiss_index, parameters))


class KeptIndex:
    """Where an index of faiss lies in a folder, and its recall beside it, which holds for its parameters at search."""

    def __init__(self, folder: Path, index: str) -> None:
        self._index = index
        self._file = folder / f"index-{_file_name(index.partition(':')[0])}.faiss"
        self._recall = folder / f"index-{_file_name(index)}.json"

    def read(self, empty: Any, count: int) -> tuple[Any, tuple[dict[int, float], int]] | None:
        """The index like ``empty`` over so many documents, mapped into memory where faiss can, and its recall;
        ``None``: it is not there, or damaged."""
        if not self._file.is_file():
            return None
        faiss = _faiss()
        flag = faiss.IO_FLAG_MMAP if "IVF" in self._index else faiss.IO_FLAG_MMAP_IFC
        signs = isinstance(empty, SignIndex)
        faiss_index = None
        if _is_whole(self._file):
            with suppress(RuntimeError):
                faiss_index = empty.read(self._file) if signs else faiss.read_index(str(self._file), flag)
        if faiss_index is None or (faiss_index.ntotal, faiss_index.d) != (count, empty.d):
            notice(f"{self._file}: is damaged, and made anew")
            return None
        try:
            record = read_json(self._recall, "a recall", {"recall": dict[str, float], "queries": int})
            return faiss_index, ({int(k): share for k, share in record["recall"].items()}, record["queries"])
        except (ValueError, DataError):
            return faiss_index, ({}, 0)

    def write(self, faiss_index: Any) -> None:
        """Keep it; where that is not possible, say so."""
        new = self._file.with_name(f"{self._file.name}.{secrets.token_hex(8)}.tmp")
        try:
            if isinstance(faiss_index, SignIndex):
                faiss_index.write(new)
            else:
                _faiss().write_index(faiss_index, str(new))
            _end_with_length(new)
            os.replace(new, self._file)
        except (OSError, RuntimeError, TypeError) as error:  # the latter: faiss takes no path that is not UTF-8
            notice(f"{self._file}: could not be written ({first_line(error)}); the index is made anew the next time")
            new.unlink(missing_ok=True)

    def write_recall(self, recall: dict[int, float], queries: int) -> None:
        """Keep what was measured, if the index is."""
        if self._file.is_file():
            with suppress(DataError):  # the folder may be another's
                write_json(self._recall, {"recall": recall, "queries": queries})


_LENGTH = 8  # bytes of a number at the end of a file: faiss before 1.15 finds what is not there in an IVF that was cut


def _end_with_length(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(file.tell().to_bytes(_LENGTH))


def _is_whole(path: Path) -> bool:
    end = path.stat().st_size - _LENGTH
    with open(path, "rb") as file:
        return end >= 0 and file.seek(end) == int.from_bytes(file.read(_LENGTH))


def _file_name(index: str) -> str:
    return re.sub(r"[^A-Za-z0-9,.=-]", "_", index)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtra("an approximate search", "faiss") from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _asked(index: str, ask: Callable[[], Any]) -> Any:
    """What faiss answers; its complaint in one line, without the place in its source."""
    try:
        return ask()
    except RuntimeError as error:
        complaint = re.sub(r"^Error in .*? at \S+:\d+: ", "", " ".join(str(error).split()))
        raise UsageError(f"index {index}: faiss: {complaint.rpartition('failed: ')[2] or complaint}") from None


def _spare_warnings(faiss_index: Any, index: str, points: int) -> None:
    """One notice of too few points to train on, in place of a line of faiss for every clustering."""
    faiss = _faiss()
    inner = faiss.downcast_index(faiss_index.index) if isinstance(faiss_index, faiss.IndexPreTransform) else faiss_index
    clusterings = []
    if hasattr(inner, "nlist"):
        clusterings.append((inner.cp, inner.nlist))
    if hasattr(inner, "pq"):
        clusterings.append((inner.pq.cp, 2**inner.pq.nbits))
    for clustering, _ in clusterings:
        clustering.min_points_per_centroid = 1
    most = max((count for _, count in clusterings), default=0)
    if most <= points < (wanted := POINTS_PER_CENTROID * most):  # fewer still is an error of faiss
        notice(f"index {index} is trained on {points:,} documents, and faiss advises {wanted:,} at least")


def _search(faiss_index: Any, index: str, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    blocks = []
    with progress("searching", len(queries), "queries") as advance:
        for start in range(0, len(queries), QUERY_BLOCK):
            scores, indices = _asked(index, partial(faiss_index.search, queries[start : start + QUERY_BLOCK], k))
            scores[indices < 0] = -np.inf
            blocks.append((scores, indices))
            advance(len(scores))
    scores, indices = (torch.from_numpy(np.concatenate(side)) for side in zip(*blocks, strict=True))
    ordered = in_order(scores, indices)
    return ordered[0].numpy(), ordered[1].numpy()


def _recall(
    similarity: Similarity,
    queries: Embeddings,
    documents: Embeddings,
    indices: np.ndarray,
    device: torch.device | str,
) -> dict[int, float]:
    """Recall at the width of ``indices``, and at 10 where that is less."""
    k = indices.shape[1]
    exact, _ = top_k(similarity, queries, documents, k, device)
    scores = np.full(indices.shape, -np.inf, dtype=np.float32)
    for row, places in enumerate(indices):
        chosen = np.flatnonzero(places >= 0)
        if len(chosen):
            there = [part for _, part in prepared_documents(similarity, queries, documents[places[chosen]], device)]
            query = prepared_queries(similarity, queries[row : row + 1], documents, device)
            scores[row, chosen] = similarity.kernel(query, torch.cat(there))[0].float().cpu().numpy()
    share = {}
    for depth in sorted({min(10, k), k}):
        least = exact[:, depth - 1 : depth]
        share[depth] = float((scores[:, :depth] >= least - ROUNDING * np.abs(least)).mean())
    return share
