"""Approximate search through an index of faiss, with its recall measured against exact search.

An index has prepared embeddings under the inner product, so that it serves every factorable similarity. A flat list,
clusters or a graph has the storage dtype of its documents (:class:`~retrokit.data.exports.Quantization`).
Douze et al., "The Faiss library", 2024.
"""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from retrokit.core.errors import DataError, UsageError, check_extra, first_line, out_of_range
from retrokit.core.files import replaced
from retrokit.core.notices import notice, progress
from retrokit.data.exports import Quantization
from retrokit.data.jsonl import read_json, write_json
from retrokit.ranking.retrieval.embeddings import pair_scores
from retrokit.ranking.retrieval.exact import checked, in_order, prepared_documents, prepared_queries, top_k
from retrokit.similarities.base import Embeddings, Similarity

QUERIES_CHECKED = 100  # whose best documents are searched exactly too
QUERY_BLOCK = 1024
TRAINING_NUMBERS = 128_000_000  # of the embeddings that an index is trained on, at most: 512 MB
ROUNDING = 1e-5  # by which two ways of summing one score may differ, of its size
_LENGTH = 8  # bytes of a number at the end of a file: faiss before 1.15 finds what is not there in an IVF that was cut
_LARGEST_BREADTH = 1_000_000  # of a search, for which faiss takes memory at once
_PLAIN = re.compile(r"((IVF\d+(?:_HNSW\d+)?),)?Flat|((?:HNSW|NSG)\d*)(?:,Flat)?")
_CODECS = {"float16": "SQfp16", "int8": "SQ8"}


class Approximate(NamedTuple):
    """Result of an approximate search.

    Attributes:
        scores: float32 ``[nq, k]``, best first, as the index computes them; −∞ if it has no more documents.
        indices: int64 ``[nq, k]``, of equal scores the lower first; −1 if it has no more documents.
        recall: at k, and at 10 if k is larger: the mean share of the first documents that score no lower than the last
            of as many exact ones; from 0 to 1, higher is better.
        queries_checked: the number of queries of the recall, drawn at random from more than :data:`QUERIES_CHECKED`.
    """

    scores: np.ndarray
    indices: np.ndarray
    recall: dict[int, float]
    queries_checked: int


class ApproximateIndex:
    """Documents in an index of faiss, built once, in several threads: two of one graph (HNSW) need not be the same.

    Args:
        similarity, documents: as for :func:`~ranking.retrieval.exact.top_k`; a factorable similarity.
        index: faiss's factory string, and after a colon parameters: ``IVF4096,PQ32:nprobe=64``.
        device: where to prepare embeddings and to search exactly; the index itself works on the CPU.
        folder: caches the index and its recall, mapped into memory the next time; default: no cache.
        stored: storage dtype of the documents and of the index; default: float32.

    Raises:
        UsageError: as for :func:`empty_index`; too few documents to train on.
        MissingExtra: faiss is not installed.
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
        self._documents = documents
        self._index = index
        self._device = device
        self._stored = stored or Quantization("float32", documents.shape[-1])
        self.faiss_index = empty_index(index, self._similarity, documents.shape[-1], self._stored.dtype)
        self._recall: dict[int, float] = {}
        self._queries_checked = 0
        self._file = self._recall_file = None
        if folder is not None:  # the recall holds for the parameters at search
            self._file = folder / f"index-{_in_file_name(index.partition(':')[0])}.faiss"
            self._recall_file = folder / f"index-{_in_file_name(index)}.json"
        if not self._read():
            self._build()

    def _build(self) -> None:
        if not self.faiss_index.is_trained:
            rows = _sample(len(self._documents), TRAINING_NUMBERS // self._documents.shape[-1])
            self._keep_stored_numbers()
            _call(self._index, self.faiss_index.train, np.concatenate(list(self._vectors(self._documents[rows]))))
        self._keep_stored_numbers()
        with progress("indexing", len(self._documents), "documents") as advance:
            for vectors in self._vectors(self._documents):
                _call(self._index, self.faiss_index.add, vectors)
                advance(len(vectors))
        if self._file is not None:
            self._write(self._file)

    def _keep_stored_numbers(self) -> None:
        """Let an index of 8-bit numbers or halves keep the stored ones; called before its training and after it."""
        if self._stored.dtype not in _CODECS or not _PLAIN.fullmatch(self._index.partition(":")[0]):
            return
        faiss = _faiss()
        inner: Any = self.faiss_index
        inner = faiss.downcast_index(inner.storage) if hasattr(inner, "storage") else inner
        if hasattr(inner, "by_residual"):
            inner.by_residual = False  # numbers are those of documents, whatever cluster these are in
        if self._stored.ranges is not None:
            low, high = self._stored.ranges
            faiss.copy_array_to_vector(np.concatenate([low, high - low]), inner.sq.trained)

    def _vectors(self, documents: Embeddings) -> Iterator[np.ndarray]:
        """Blocks of documents as faiss takes them, float32 ``[n, d']`` or bits."""
        no_queries = np.empty((0, 0), np.float32)
        for _, prepared in prepared_documents(self._similarity, no_queries, documents, self._device):
            rows = prepared.float().cpu().numpy()
            yield self._stored.narrowed(rows) if self._stored.dtype == "binary" else rows

    def nearest(self, prepared: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and indices ``[nq, k]`` for prepared queries float32 ``[nq, d']``, as faiss has them."""
        if self._stored.dtype != "binary":
            scores, indices = _call(self._index, self.faiss_index.search, prepared, k)
            return scores, indices
        # of signs: the number of equal ones, less that of the others
        apart, indices = _call(self._index, self.faiss_index.search, self._stored.narrowed(prepared), k)
        return (self._stored.dimension - 2 * apart).astype(np.float32), indices

    @torch.inference_mode()
    def search(self, queries: Embeddings, k: int) -> Approximate:
        """About the ``k`` best documents of every query; the recall is that of the first search."""
        queries, documents, k = checked(queries, self._documents, k)
        prepared = prepared_queries(self._similarity, queries, documents, self._device).float().cpu().numpy()
        scores = np.empty((len(queries), k), dtype=np.float32)
        indices = np.empty((len(queries), k), dtype=np.int64)
        with progress("searching", len(queries), "queries") as advance:
            for start in range(0, len(queries), QUERY_BLOCK):
                block = slice(start, start + QUERY_BLOCK)
                scores[block], indices[block] = self.nearest(prepared[block], k)
                advance(len(scores[block]))
        scores[indices < 0] = -np.inf
        ordered_scores, ordered_indices = in_order(torch.from_numpy(scores), torch.from_numpy(indices))
        scores, indices = ordered_scores.numpy(), ordered_indices.numpy()
        if len(queries) and not self._queries_checked:
            self._measure_recall(queries, indices)
        return Approximate(scores, indices, self._recall, self._queries_checked)

    def _measure_recall(self, queries: Embeddings, indices: np.ndarray) -> None:
        """Take the recall of the ``indices [nq, k]`` for the queries, and cache it next to the index."""
        rows = _sample(len(queries), QUERIES_CHECKED)
        self._recall = _recall(self._similarity, queries[rows], self._documents, indices[rows], self._device)
        self._queries_checked = len(rows)
        if self._recall_file is not None and self._file is not None and self._file.is_file():
            with suppress(DataError):  # the folder may be another's
                record = {"recall": self._recall, "queries": self._queries_checked}
                write_json(self._recall_file, record, kind="index-recall")

    def account(self) -> dict[str, Any]:
        """The index and its recall, as results report them."""
        shares = {f"recall@{k}": round(share, 6) for k, share in self._recall.items()}
        return {"index": self._index, "index_recall": {**shares, "queries": self._queries_checked}}

    def _read(self) -> bool:
        """Take the index and its recall from the files, the index mapped into memory where faiss can."""
        if self._file is None or self._recall_file is None or not self._file.is_file():
            return False
        cached = self._cached_index(self._file)
        if cached is None or (cached.ntotal, cached.d) != (len(self._documents), self.faiss_index.d):
            notice(f"{self._file}: is damaged; the index is built again")
            return False
        self.faiss_index = cached
        _set_parameters(cached, self._index)
        with suppress(ValueError, DataError):
            record = read_json(self._recall_file, "a recall", {"recall": dict[str, float], "queries": int})
            self._recall = {int(k): share for k, share in record["recall"].items()}
            self._queries_checked = record["queries"]
        return True

    def _cached_index(self, path: Path) -> Any:
        """The index in the file; ``None`` if that is damaged."""
        faiss = _faiss()
        end = path.stat().st_size - _LENGTH
        with open(path, "rb") as file:
            if end < 0 or file.seek(end) != int.from_bytes(file.read(_LENGTH)):
                return None
        flags = []
        if not isinstance(self.faiss_index, faiss.IndexBinary):
            flags = [faiss.IO_FLAG_MMAP if "IVF" in self._index else faiss.IO_FLAG_MMAP_IFC]
        with suppress(RuntimeError):
            return _for_kind(self.faiss_index, "read_index")(str(path), *flags)
        return None

    def _write(self, path: Path) -> None:
        try:
            with replaced(path) as new:
                _for_kind(self.faiss_index, "write_index")(self.faiss_index, str(new))
                with open(new, "ab") as file:
                    file.write(file.tell().to_bytes(_LENGTH))
        except (DataError, RuntimeError, TypeError) as error:  # the last: faiss takes no path that is not UTF-8
            notice(f"{path}: could not be written ({first_line(error)}); the index is built again the next time")


def _in_file_name(index: str) -> str:
    return re.sub(r"[^A-Za-z0-9,.=-]", "_", index)


def factory_of(factory: str, dtype: str) -> str:
    """Faiss's name of the index ``factory`` over numbers of a type; an index with its own compression stays as it is.

    >>> factory_of("HNSW32", "int8"), factory_of("IVF64,Flat", "float16"), factory_of("IVF64,PQ32", "int8")
    ('HNSW32,SQ8', 'IVF64,SQfp16', 'IVF64,PQ32')
    >>> factory_of("Flat", "binary"), factory_of("IVF64,Flat", "binary")
    ('BFlat', 'BIVF64')
    """
    match = _PLAIN.fullmatch(factory)
    if match is None or dtype not in (*_CODECS, "binary"):
        return factory
    kind = match[2] or match[3]
    if dtype == "binary":
        return f"B{kind or 'Flat'}"
    return f"{kind},{_CODECS[dtype]}" if kind else _CODECS[dtype]


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
    named = factory_of(factory, dtype)
    if dtype == "binary":
        if named == factory or "NSG" in factory:
            raise UsageError(f"index {index}: faiss has Flat, HNSW32 and IVF64,Flat for signs, and the like")
        faiss_index = _call(index, faiss.index_binary_factory, -(-width // 8) * 8, named)
    else:
        faiss_index = _call(index, faiss.index_factory, width, named, faiss.METRIC_INNER_PRODUCT)
        if faiss_index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise UsageError(f"index {index}: faiss has it only for distances, not for inner products")
    _set_parameters(faiss_index, index)
    return faiss_index


def _set_parameters(faiss_index: Any, index: str) -> None:
    parameters = index.partition(":")[2]
    for name, _, value in (parameter.partition("=") for parameter in parameters.split(",") if parameters):
        if not re.fullmatch(r"[0-9]{1,10}", value):  # faiss cuts other numbers to 32 bits, and then finds nothing
            raise UsageError(f"index {index}: parameters are whole numbers, such as nprobe=8")
        bounds = (1, _LARGEST_BREADTH) if name.endswith(("efSearch", "nprobe")) else (0, None)
        if expected := out_of_range(int(value), *bounds):
            raise UsageError(f"index {index}: {name}={value} is out of range ({expected})")
        if isinstance(faiss_index, _faiss().IndexBinary):
            owner = getattr(faiss_index, "hnsw", faiss_index)
            if not hasattr(owner, name):
                raise UsageError(f"index {index}: faiss: could not set parameter {name}")
            setattr(owner, name, int(value))
        else:
            _call(index, _faiss().ParameterSpace().set_index_parameter, faiss_index, name, int(value))


def _faiss() -> Any:
    """The package, in as many threads as torch has."""
    check_extra("an approximate search", "faiss")
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _for_kind(faiss_index: Any, name: str) -> Callable[..., Any]:
    """Faiss's function of that name for indexes of floats, or that for indexes of bits."""
    faiss = _faiss()
    function: Callable[..., Any] = getattr(
        faiss, f"{name}_binary" if isinstance(faiss_index, faiss.IndexBinary) else name
    )
    return function


def _call(index: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What faiss returns; its complaint in one line, without the place in its source."""
    try:
        return function(*arguments)
    except RuntimeError as error:
        complaint = re.sub(r"^Error in .*? at \S+:\d+: ", "", " ".join(str(error).split()))
        raise UsageError(f"index {index}: faiss: {complaint.rpartition('failed: ')[2] or complaint}") from None


def _sample(count: int, limit: int) -> np.ndarray:
    """The rows of ``count``, in order; at most ``limit`` of them, at random."""
    rows = np.arange(count)
    return rows if count <= limit else np.sort(np.random.default_rng(0).choice(rows, limit, replace=False))


def _recall(
    similarity: Similarity, queries: Embeddings, documents: Embeddings, indices: np.ndarray, device: torch.device | str
) -> dict[int, float]:
    """Recall at the width of ``indices [nq, k]``, and at 10 where that is less."""
    k = indices.shape[1]
    exact, _ = top_k(similarity, queries, documents, k, device)
    rows, columns = np.nonzero(indices >= 0)
    scores = np.full(indices.shape, -np.inf, dtype=np.float32)
    scores[rows, columns] = pair_scores(similarity, queries, documents, rows, indices[rows, columns])
    least = exact - ROUNDING * np.abs(exact)
    return {
        depth: float((scores[:, :depth] >= least[:, depth - 1 : depth]).mean()) for depth in sorted({min(10, k), k})
    }
