"""Bases of the tasks that embed texts, score them and measure the scores; and of those among them that search.

A task over texts of one kind is symmetric: it wants ``score(a, b) == score(b, a)``. All its texts are therefore
encoded in one role, as documents, so that no prompt distinguishes them. An asymmetric similarity runs nevertheless, one
text counting as the query, and a notice says why it will do badly (MAG, 2.1). Over queries and documents any fits.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from retrokit.evaluation.result import Resampled, Result
from retrokit.evaluation.task import Request, Task
from retrokit.ranking.retrieval.base import Index, Ranking, Searcher, TextList, account_of
from retrokit.ranking.retrieval.embeddings import norm_statistics, row_norms
from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class Measured:
    """What a task measured under one similarity, as in :class:`retrokit.evaluation.result.Result`; counts and
    configuration in addition to those that every similarity shares. It may be more than requested. A metric that is not
    among ``metrics`` is the mean of its values in ``per_query``, or what is ``resampled``, of all items."""

    metrics: dict[str, float] = field(default_factory=dict)
    per_query: dict[str, dict[str, float]] = field(default_factory=dict)
    resampled: dict[str, Resampled] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    own_scale: tuple[str, ...] = ()
    counts: dict[str, int | float] = field(default_factory=dict)
    run: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def value(self, name: str) -> float:
        """A metric."""
        if name in self.metrics:
            return self.metrics[name]
        if name in self.per_query:
            return float(np.mean(list(self.per_query[name].values())))
        return self.resampled[name].value(np.arange(self.resampled[name].items))


class MeasuringTask(Task):
    """A task over data in memory.

    Attributes:
        counts: what is used and what is left out.
        data_digest: of all its data as they were read; ``None``: there is no telling if they changed.
    """

    counts: Mapping[str, int | float]
    data_digest: str | None = None

    def digest(self) -> str | None:
        return self.data_digest

    def result(
        self,
        encoder: str,
        similarity: str,
        names: Sequence[str],
        measured: Measured,
        norms: Mapping[str, float] | None = None,
        configuration: Mapping[str, Any] | None = None,
    ) -> Result:
        """The measured metrics ``names``, as a result under the names ``encoder`` and ``similarity``."""
        return Result(
            encoder,
            similarity,
            self.spec,
            self.main_metric,
            metrics={name: measured.value(name) for name in names},
            per_query={name: measured.per_query[name] for name in names if name in measured.per_query},
            counts={**self.counts, **measured.counts},
            norms=dict(norms or {}),
            configuration={**(configuration or {}), **measured.configuration},
            run=measured.run,
            resampled={name: measured.resampled[name] for name in names if name in measured.resampled},
            own_scale=measured.own_scale,
        )


class SymmetricTask(MeasuringTask):
    """A task over ``texts`` of one kind. A subclass says what it measures, and measures it."""

    symmetric = True

    def __init__(self, texts: Sequence[str], counts: Mapping[str, int | float]) -> None:
        self.texts = texts
        self.counts = counts

    @abstractmethod
    def measure(
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """The metrics ``names`` under ``similarity``, given the raw embeddings ``[n, d]`` of the texts."""

    def evaluate(self, request: Request) -> list[Result]:
        """One result per similarity that the task scores with; the texts are encoded once."""
        names = request.names(self)
        embedded, chosen = request.embeddings(self)
        embeddings = embedded.of(self.texts, "document")
        configuration = embedded.configuration()
        norms = norm_statistics(row_norms(embeddings), "text")
        counts = embedded.counts(self.texts, "document", "texts")
        results = []
        for similarity in chosen:
            measured = self.measure(request, similarity, embeddings, names)
            measured = replace(measured, counts={**counts, **measured.counts})
            about = {**configuration, **similarity.statistics()}
            results.append(self.result(request.name, similarity.spec, names, measured, norms, about))
        return results


class SearchTask(MeasuringTask):
    """A task that searches ``documents`` for ``queries``, with any searcher.

    Documents stand in descending order of their ids, so that equal scores rank as trec_eval ranks them.
    """

    searches = True
    queries: TextList
    documents: TextList

    @abstractmethod
    def depth(self, names: Sequence[str]) -> int:
        """How many documents must be found for the metrics ``names``."""

    @abstractmethod
    def measure_index(self, index: Index, names: Sequence[str], depth: int, searcher: Searcher) -> Measured:
        """The metrics ``names`` of the best ``depth`` documents that ``searcher`` has in ``index``."""

    def evaluate(self, request: Request) -> list[Result]:
        """One result per similarity, or that of the searcher; texts are encoded once."""
        names, results = request.names(self), []
        depth = self.depth(names)
        for searcher in request.searchers(self):
            index = searcher.index(self.documents)
            measured = self.measure_index(index, names, depth, searcher)
            account = account_of(searcher, index)
            measured = replace(measured, counts={**account.counts, **measured.counts})
            results.append(
                self.result(
                    searcher.spec,
                    searcher.similarity,
                    names,
                    measured,
                    norms=account.norms,
                    configuration=account.configuration,
                )
            )
        return results


def run_of(
    lists: Sequence[Ranking], query_ids: Sequence[str], document_ids: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The scores of the documents of each query, by their ids."""
    return {
        query: {document_ids[i]: score for i, score in zip(positions.tolist(), scores.tolist(), strict=True)}
        for query, (scores, positions) in zip(query_ids, lists, strict=True)
    }


def left_out(counts: Mapping[str, int | float], words: Mapping[str, str]) -> str:
    """For a line of what is used: each count that is not zero, with the words for it."""
    return "".join(f"; {counts[name]:,} {what}" for name, what in words.items() if counts.get(name))


def moderate(numbers: np.ndarray) -> np.ndarray:
    """``numbers`` times the power of two that brings the largest to between ½ and 1: not a digit changes, and their
    squares neither overflow nor vanish."""
    scaled: np.ndarray = np.ldexp(numbers, -np.frexp(np.abs(numbers).max(initial=0))[1])
    return scaled
