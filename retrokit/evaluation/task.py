"""The contract of a task: a request, and the results.

A task subclasses :class:`Task` and gives ``main_metric``, ``shown_metrics``, ``default_metrics``, ``describe`` and
``evaluate``; everything else has a default. One that embeds texts and scores them subclasses a class of
:mod:`retrokit.evaluation.tasks.base`, which has ``evaluate`` too. :meth:`Request.embeddings` and
:meth:`Request.searchers` check a request before any work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from retrokit.core.errors import UsageError, did_you_mean
from retrokit.core.notices import notice
from retrokit.metrics.names import leading_metric
from retrokit.ranking.retrieval import leaves_open

if TYPE_CHECKING:  # tasks are listed and results shown where no model is loaded
    import torch

    from retrokit.data.beir import RetrievalData
    from retrokit.data.overlap import JudgedTexts
    from retrokit.encoders.base import Encoder
    from retrokit.evaluation.result import Result
    from retrokit.ranking.reranking.kept import KeptReranker
    from retrokit.ranking.retrieval.base import Searcher, TuningQueries
    from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
    from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class Request:
    """What a task is to measure: an encoder under similarities, or a searcher.

    Attributes:
        encoder: embeds the task's texts.
        similarities: what to score embeddings with, one result each.
        metrics: names; none: the task's default ones. The main metric comes with them.
        precision: of encoding; scores are always float32.
        dims: the first dimensions of embeddings that are used; ``None``: all.
        index: the faiss index to search documents with (:mod:`ranking.retrieval.approximate`); ``None``: exact search.
        quantize: how documents are stored for the search (:mod:`ranking.retrieval.vectors`); ``None``: as float32.
        searcher: what searches in place of the encoder.
        reranker: what scores pairs of texts in place of the encoder.
        alone: compute only ``metrics``.
    """

    encoder: Encoder | None = None
    similarities: Sequence[Similarity] = ()
    metrics: Sequence[str] = ()
    precision: str = "auto"
    dims: int | None = None
    index: str | None = None
    searcher: Searcher | None = None
    reranker: KeptReranker | None = None
    alone: bool = False
    quantize: str | None = None

    @property
    def name(self) -> str:
        """Of what is measured, for messages."""
        measured = self.encoder or self.searcher or self.reranker
        return measured.spec if measured is not None else ""

    @property
    def device(self) -> torch.device:
        """The device of the encoder and of the scores."""
        assert self.encoder is not None
        return self.encoder.device

    def names(self, task: Task) -> list[str]:
        """The metrics to compute; the main one, if not requested, first."""
        metrics = list(dict.fromkeys(self.metrics or task.default_metrics))
        return metrics if self.alone or task.main_metric in metrics else [task.main_metric, *metrics]

    def embeddings(self, task: Task) -> tuple[SharedEmbeddings, list[Similarity]]:
        """The embeddings of the encoder, and the similarities that ``task`` scores with. Raises :class:`UsageError` for
        no encoder, dims, a similarity or an index that does not fit it, or an index where nothing is searched."""
        from retrokit.ranking.retrieval.dense import check_fits
        from retrokit.ranking.retrieval.embeddings import SharedEmbeddings

        encoder = self.encoder
        if encoder is None:
            raise UsageError(needs_embeddings(task, [self.name]))
        if encoder.in_chunks() is not None and not task.searches:
            problem = f"the best chunk is searched for, and {task.spec} does not"
            raise UsageError(f"{encoder.spec}: {problem}: take pool=mean")
        check_searched([task], self.index, self.quantize)
        for similarity in self.similarities:
            check_fits(similarity, self.dims or encoder.dimension, self.index, self.quantize)
        chosen = task.scored_with(encoder, self.similarities)
        return SharedEmbeddings(encoder, chosen, self.precision, self.dims), chosen

    def searchers(self, task: Task) -> list[Searcher]:
        """What is to search: the searcher, or one of each similarity over the same embeddings; raises as
        :meth:`embeddings` does."""
        if self.searcher is not None:
            return [self.searcher]
        from retrokit.ranking.retrieval.dense import Dense

        embeddings, chosen = self.embeddings(task)
        return [Dense(embeddings, similarity, self.index, self.quantize) for similarity in chosen]


class Task(Protocol):
    """What ``retrokit eval --on`` and ``retrokit finetune --eval`` can run.

    Attributes:
        spec: its name, also in messages.
        main_metric: decides which of two results is better; higher is better.
        shown_metrics: the columns of a table, and what a training run tracks.
        default_metrics: what is computed by default.
        known_metrics: all that it measures, where that is more.
        symmetric: whether the texts are of one kind, so that a similarity must not depend on the roles (MAG, 2.1).
        searches: whether it takes a searcher, and an index.
        takes_rerankers: whether it takes a reranker without a search, which scores its pairs.
    """

    spec: str = ""
    main_metric: str
    shown_metrics: tuple[str, ...]
    default_metrics: tuple[str, ...]
    known_metrics: tuple[str, ...] = ()
    symmetric: bool = False
    searches: bool = False
    takes_rerankers: bool = False
    _warned: frozenset[str] = frozenset()

    def describe(self) -> str:
        """One line of what is used and what is left out."""
        ...

    def evaluate(self, request: Request) -> list[Result]:
        """One result per similarity that the task scores with, or one of the searcher; texts are encoded once.

        Raises:
            UsageError: as for :meth:`Request.embeddings`, before anything is encoded.
            DataError: embeddings or scores that leave a metric undefined.
        """
        ...

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise :class:`UsageError` for a name that the task does not measure, with the nearest one; of many that it
        does measure the first forty are listed."""
        measured = self.known_metrics or self.default_metrics
        for name in names:
            if name not in measured:
                problem = f"unknown metric {name!r}{did_you_mean(name, measured)}"
                raise UsageError(f"{problem}; {self.spec} has {', '.join(measured[:40])}")

    def digest(self) -> str | None:
        """A digest of all data that a result depends on; ``None`` if there is none (a pipe, a service), so that no
        stored result can be used again."""
        return None

    def guessed(self, metric: str) -> Mapping[str, float] | None:
        """The ``metric`` of each item by the majority-class baseline; ``None`` if there is none."""
        return None

    def judged(self) -> RetrievalData | None:
        """The documents, queries and judgements of a task that ranks documents; ``None`` of any other."""
        return None

    def restricted(self, queries: Set[str], documents: Set[str]) -> Task | None:
        """The same task with these queries and documents, by id; ``None`` of a task that ranks no documents."""
        return None

    def judged_texts(self) -> JudgedTexts | None:
        """Queries and relevant texts, to look for in training data; ``None`` of tasks that have no pairs."""
        data = self.judged()
        if data is None:
            return None
        from retrokit.data.overlap import JudgedTexts

        return JudgedTexts.judged(data)

    def tuning(self, metric: str) -> TuningQueries | None:
        """Queries of another split of the same data, to tune a searcher on by ``metric``; ``None``: there are none."""
        return None

    def scored_with(self, encoder: Encoder, similarities: Sequence[Similarity]) -> list[Similarity]:
        """The similarities that the task scores with: the given ones, unless it has a distance of its own. A notice
        reports once what an asymmetric one does to texts of one kind (MAG, 2.1)."""
        for similarity in similarities:
            if self.symmetric and not similarity.symmetric and similarity.spec not in self._warned:
                self._warned |= {similarity.spec}
                what = "is asymmetric, and the texts are of one kind; expect low scores (MAG, 2.1)"
                notice(f"{self.spec}: {similarity.spec} {what}")
        return list(similarities)


def tuned(searcher: Searcher, spec: str, task: Task, shown: Sequence[str]) -> Searcher:
    """The searcher of that ``spec``, its open parameters tuned for ``task`` by the metric that leads those ``shown``.
    Raises :class:`UsageError` if the task has no queries to tune on."""
    if not leaves_open(spec):
        return searcher
    return searcher.tuned(check_tunable(task, spec, leading_metric(task.main_metric, shown)))


def check_tunable(task: Task, spec: str, metric: str) -> TuningQueries:
    """The queries of ``task`` to tune ``spec`` on; raises :class:`UsageError` where there are none."""
    queries = task.tuning(metric)
    if queries is None:
        problem = f"{task.spec} has no dev or train split with other queries than those that are reported"
        raise UsageError(f"{spec}: weight=auto cannot be tuned: {problem}; give a number")
    return queries


def measures(task: Task, metric: str) -> bool:
    """Whether the task measures ``metric``."""
    try:
        task.check_metrics([metric])
    except UsageError:
        return False
    return True


def check_measured(tasks: Sequence[Task], metric: str) -> None:
    """Raise :class:`UsageError`, with what each task says of it, for a metric that no task measures."""
    problems: dict[str, None] = {}
    for task in tasks:
        try:
            return task.check_metrics([metric])
        except UsageError as error:
            problems[str(error)] = None
    raise UsageError("\n".join(problems))


def needs_embeddings(task: Task, searchers: Sequence[str]) -> str:
    """What to say to a request of ``searchers`` without embeddings."""
    return f"{task.spec} needs embeddings: give an encoder in place of {', '.join(searchers) or 'nothing'}"


def check_searched(tasks: Sequence[Task], index: str | None, quantize: str | None) -> None:
    """Raise :class:`UsageError` for an index or a quantisation if a task does not search."""
    some_search = any(task.searches for task in tasks)
    exact = [task.spec for task in tasks if not task.searches and not (task.takes_rerankers and some_search)]
    for name, value in (("index", index), ("quantize", quantize)):
        if exact and value is not None:
            raise UsageError(f"`{name}=` {value} is for what is searched, and {', '.join(exact)} is not")
