"""What a deployment costs: dimensions × quantisation × index, each with quality, recall, bytes and time.

Texts are encoded once. Every row is compared with exact search in float32 and all dimensions, by the paired tests of
any evaluation, corrected over all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError, check_extra
from retrokit.core.frames import frame
from retrokit.core.notices import notice, progress
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data.dtypes import quantization_name, stored_as
from retrokit.encoders.views import MemoizedEncoder
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.comparison import Comparison, evaluation_of
from retrokit.evaluation.result import Result
from retrokit.evaluation.settings import EvaluationSettings
from retrokit.evaluation.task import Request, check_measured
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.ranking.retrieval import registry_of
from retrokit.ranking.retrieval.base import account_of
from retrokit.ranking.retrieval.dense import Dense, StoredIndex, check_fits
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from retrokit.similarities.base import Similarity

if TYPE_CHECKING:
    from pandas import DataFrame

EXACT = "exact"
QUANTIZATIONS = ("float32", "int8", "binary", "binary+rescore")
_FLAT = "Flat"


@dataclass(frozen=True)
class DeploymentRow:
    """One way to deploy.

    Attributes:
        index: of faiss, or ``exact``.
        result: the metrics.
        recall: the share of what exact float32 search in all dimensions finds that is found, to the depth of the
            search; a mean over queries.
        row_bytes: of a document in faiss's index, everything in it counted: numbers, graph, lists, centroids.
        milliseconds: processor time of a query, one at a time in one thread.
        comparison: with the first row; of the first row ``None``.
    """

    dims: int
    quantize: str
    index: str
    result: Result
    recall: float
    row_bytes: float
    milliseconds: float
    comparison: Comparison | None = None

    @property
    def name(self) -> str:
        """Dimensions, quantisation and index."""
        return f"{self.dims} {self.quantize} {self.index}"

    def about(self) -> dict[str, Any]:
        """What it is and what it costs, by name."""
        names = ("name", "dims", "quantize", "index", "recall", "row_bytes", "milliseconds")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Deployment:
    """The sheet of one encoder under one similarity on one task; the first row is exact search in float32 and all
    dimensions.

    Attributes:
        metric: what is compared.
        depth: documents of a query that are searched for.
    """

    encoder: str
    similarity: str
    task: str
    metric: str
    depth: int
    rows: tuple[DeploymentRow, ...]

    def to_frame(self) -> DataFrame:
        """A row for each way: what it is, what it costs, its metrics, and the paired test."""
        rows = []
        for row in self.rows:
            test = vars(row.comparison.test) | {"corrected_p": row.comparison.corrected_p} if row.comparison else {}
            rows.append({**row.about(), **row.result.metrics, **test})
        return frame(rows)

    def front(self, cost: str) -> list[DeploymentRow]:
        """The rows that no other beats in quality at no higher ``cost``, ``row_bytes`` or ``milliseconds``; the
        cheapest first."""
        rows: list[DeploymentRow] = []
        for row in sorted(self.rows, key=lambda row: (getattr(row, cost), -row.result.metrics[self.metric])):
            if not rows or row.result.metrics[self.metric] > rows[-1].result.metrics[self.metric]:
                rows.append(row)
        return rows


def deploy_systems(settings: EvaluationSettings) -> list[Deployment]:
    """A sheet for every encoder, similarity and task.

    ``dims``, ``quantize`` and ``index`` are each one or several. Default: all dimensions, a half and a quarter, if the
    similarity takes them; every quantisation; exact search, HNSW32, and as many clusters as the root of the number
    of documents, an eighth of which is searched.

    Raises:
        UsageError: wrong names, a task that is no retrieval, a similarity that is no inner product, or dimensions,
            quantisations or indexes that do not fit.
        DataError: a task's files.
        MissingExtra: faiss is not installed.
    """
    requests = [(registry_of(spec), spec) for spec in settings.encoders]
    requests += [(tasks, spec) for spec in settings.on] + [(similarities.registry, spec) for spec in settings.sim]
    parse_all(requests)
    check_extra("`deployment=`", "faiss")
    if searchers := [spec for spec in settings.encoders if registry_of(spec) is not encoders.registry]:
        raise UsageError(f"`deployment=` is about embeddings, and {', '.join(searchers)} is no encoder")
    loaded = [tasks.create_on(spec, settings.device) for spec in settings.on]
    rankings = [task for task in loaded if isinstance(task, Retrieval)]
    if others := [task.spec for task in loaded if not isinstance(task, Retrieval)]:
        raise UsageError(f"`deployment=` is about retrieval (beir:…, bright:…), and {', '.join(others)} is not")
    for name in settings.metrics:
        check_measured(loaded, name)
    for task in rankings:
        notice(task.describe())
    sheets = []
    for spec in settings.encoders:
        encoder = MemoizedEncoder(encoders.registry.create(spec, device=settings.device))
        for similarity in [encoder.similarity_of(name) for name in settings.sim] or [encoder.similarity]:
            sheets += [_sheet(encoder, similarity, task, settings) for task in rankings]
    return sheets


deployment = taking(EvaluationSettings)(deploy_systems)


def _sheet(
    encoder: MemoizedEncoder, similarity: Similarity, task: Retrieval, settings: EvaluationSettings
) -> Deployment:
    if not similarity.factorable:
        raise UsageError(f"`deployment=`: a storage dtype needs an inner product, and {similarity.spec} is none")
    # all combinations, exact float32 search in all dimensions first
    whole, documents = encoder.dimension, max(1, len(task.documents))
    every_dims = settings.several("dims") or [n for n in (whole, whole // 2, whole // 4) if _takes(similarity, n)]
    lists = 2 ** max(0, round(math.log2(math.sqrt(documents))))
    indexes = [*settings.several("index")] or [EXACT, "HNSW32", f"IVF{lists},Flat:nprobe={max(1, lists // 8)}"]
    quantizations = [quantization_name(name) or "float32" for name in settings.several("quantize") or QUANTIZATIONS]
    grid = [(whole, "float32", EXACT), *product(every_dims, quantizations, indexes)]
    grid = list(dict.fromkeys(grid))
    for dims, quantize, index in grid:
        check_fits(similarity, dims, _FLAT if index == EXACT else index, quantize)
    names = Request(metrics=settings.metrics or (task.main_metric,)).names(task)
    depth = task.depth(names)
    sizes = {dims: SharedEmbeddings(encoder, [similarity], settings.precision, dims) for dims, _, _ in grid}
    stored: dict[tuple[int, str], StoredIndex] = {}
    rows: list[DeploymentRow] = []
    with progress("searching", len(grid), "ways") as advance:
        for dims, quantize, index in grid:
            if (dims, quantize) not in stored:
                dense = Dense(sizes[dims], similarity, None, quantize)
                stored[dims, quantize] = StoredIndex(dense, task.documents, stored_as(quantize))
            own = stored[dims, quantize]
            through = own.through(None if index == EXACT else index)
            searcher = through.searcher
            measured = task.measure_index(through, names, depth, searcher)
            way = {"dims": dims, "quantize": quantize, "index": index}
            configuration = {**account_of(searcher, through).configuration, **way}
            result = task.result(searcher.spec, searcher.similarity, names, measured, None, configuration)
            (part,) = (own.through(_FLAT) if index == EXACT else through).parts
            size, milliseconds = part.cost(own.embed_queries(task.queries), depth)
            first, run = rows[0].result.run if rows else measured.run, measured.run
            recall = np.mean(
                [len(first[query].keys() & run[query].keys()) / max(1, len(first[query])) for query in run]
            )
            row_bytes = size / len(task.documents)
            rows.append(DeploymentRow(dims, quantize, index, result, float(recall), row_bytes, milliseconds))
            advance(1)
    evaluation = evaluation_of([row.result for row in rows], {task.spec: names}, {})
    compared = {comparison.result: comparison for comparison in evaluation.comparisons if comparison.metric == names[0]}
    tested = [
        replace(row, comparison=compared.get(system.name)) for row, system in zip(rows, evaluation.systems, strict=True)
    ]
    return Deployment(encoder.spec, similarity.spec, task.spec, names[0], depth, tuple(tested))


def _takes(similarity: Similarity, dimension: int) -> bool:
    try:
        similarity.check_dimension(dimension)
    except UsageError:
        return False
    return dimension > 0
