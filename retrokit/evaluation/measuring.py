"""Measures systems on tasks: with the stages that are loaded, and the results that are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from retrokit import encoders
from retrokit.core.notices import notice
from retrokit.data.dtypes import quantization_name
from retrokit.evaluation.comparison.results_folder import ResultsFolder, named, unseeded
from retrokit.evaluation.comparison.trained import Training, training_of_stages
from retrokit.evaluation.settings import EvaluationSettings
from retrokit.evaluation.task import Request, Task, tuned
from retrokit.ranking.retrieval import Stages

if TYPE_CHECKING:  # what was evaluated before is compared and shown without loading a model
    from retrokit.encoders.base import Encoder
    from retrokit.evaluation.result import Result
    from retrokit.ranking.reranking.base import Reranker
    from retrokit.ranking.retrieval.base import Searcher
    from retrokit.similarities.base import Similarity

Measured = dict[tuple[str, Stages], "list[Result]"]
"""The results by the task's spec and the system."""


@dataclass
class Bench:
    """Measures systems on ``tasks``. Encoders are loaded when they are needed, one at a time.

    Attributes:
        metrics: what is computed on each task, by its spec.
        shown: what is shown of each task.
        columns: the similarities of encoders; none: their own.
        searchers: first stages that are no encoders, by spec.
        rerankers: by spec.
        folder: of stored results.
        trainings: how the system of each result came about, by the result's name.
    """

    settings: EvaluationSettings
    tasks: Sequence[Task]
    metrics: Mapping[str, Sequence[str]]
    shown: Mapping[str, Sequence[str]]
    columns: Sequence[str]
    searchers: Mapping[str, Searcher]
    rerankers: Mapping[str, Reranker]
    folder: ResultsFolder | None
    trainings: dict[str, Training | None] = field(default_factory=dict)

    def measure(self, systems: Sequence[Stages]) -> Measured:
        """All results of all systems."""
        measured: Measured = {}
        for first in dict.fromkeys(system.first for system in systems):
            with_first = [system for system in systems if system.first == first]
            load = cache(partial(self._load, first))
            for task in self.tasks:
                if task.searches:
                    measured |= self._measure_search(task, with_first, load())
                else:
                    measured |= self._measure_texts(task, with_first, load, measured)
        for reranker in self.rerankers.values():
            if line := reranker.describe():
                notice(line)
        if self.folder is not None:
            self.folder.report()
        return measured

    def _load(self, first: str | None) -> Request:
        """The request of a first stage."""
        assert first is not None
        if first in self.searchers:
            return Request(searcher=self.searchers[first])
        settings = self.settings
        encoder: Encoder = encoders.registry.create(first, device=settings.device)
        return Request(
            encoder,
            self._similarities_of(encoder),
            precision=settings.precision,
            dims=settings.dims,
            index=settings.index,
            quantize=quantization_name(settings.quantize),
        )

    def _similarities_of(self, encoder: Encoder) -> list[Similarity]:
        """What scores an encoder's embeddings. A similarity that another encoder has learned is no column of a
        cross-evaluation."""
        chosen = [encoder.similarity_of(name) for name in self.columns]
        if self.settings.cross and not self.settings.sim:
            chosen = [s for s in chosen if s is encoder.similarity or next(s.parameters(), None) is None]
        return chosen or [encoder.similarity]

    def _measure_search(self, task: Task, systems: Sequence[Stages], first: Request) -> Measured:
        """Systems with one first stage on a task that searches: its search is done once for all of them."""
        if first.searcher is not None:
            searcher = tuned(first.searcher, str(systems[0].first), task, self.shown[task.spec])
            first = replace(first, searcher=searcher)
        firsts = [first]
        searchers: list[Searcher] = []
        if any(system.reranker is not None for system in systems):
            searchers = first.searchers(task)
            if task.judged() is not None:  # the same documents and queries for each system
                firsts, searchers = _shared(first, searchers)
        measured: Measured = {}
        for system in systems:
            requests = firsts
            if system.reranker is not None:
                requests = [self._reranked(system, searcher) for searcher in searchers]
            measured[task.spec, system] = self._results(task, system, requests)
        return measured

    def _measure_texts(
        self, task: Task, systems: Sequence[Stages], load: Callable[[], Request], before: Measured
    ) -> Measured:
        """Systems with one first stage on a task without a search: encoders, and rerankers without one; each is
        measured once."""
        from retrokit.ranking.reranking.kept import KeptReranker
        from retrokit.ranking.retrieval.two_stage import store_at

        done = {system.reranker for spec, system in before if spec == task.spec}
        measured: Measured = {}
        for system in systems:
            requests = []
            if system.reranker is None:
                requests = [replace(load(), index=None, quantize=None)] if system.embeds else []
            elif system.reranker not in done:
                reranker = KeptReranker(self.rerankers[system.reranker], store_at(system.work))
                requests = [Request(reranker=reranker)]
                done.add(system.reranker)
            alone = replace(system, first=None) if system.reranker is not None else system
            measured[task.spec, system] = self._results(task, alone, requests)
        return measured

    def _reranked(self, system: Stages, first: Searcher) -> Request:
        from retrokit.ranking.retrieval.two_stage import TwoStage, fusion_of, store_at

        assert system.reranker is not None
        reranker = self.rerankers[system.reranker]
        return Request(searcher=TwoStage(first, reranker, fusion_of(system), store_at(system.work)))

    def _results(self, task: Task, system: Stages, requests: Sequence[Request]) -> list[Result]:
        training = training_of_stages(system.first, system.reranker)
        results: list[Result] = []
        for request in requests:
            request = replace(request, metrics=self.metrics[task.spec])
            if self.folder is None:
                results += task.evaluate(request)
            else:
                keep_runs = self.settings.needs_runs
                results += self.folder.evaluate(task, request, training, keep_runs, system.label, system.spec)
        if system.label:
            results = [named(result, system.label, system.spec) for result in results]
            training = unseeded(training)
        self.trainings |= {result.name: training for result in results}
        return results


def _shared(first: Request, searchers: Sequence[Searcher]) -> tuple[list[Request], list[Searcher]]:
    """The requests of each similarity, and the searchers, which keep their last search."""
    from retrokit.ranking.retrieval.base import Shared

    shared: list[Searcher] = [Shared(searcher) for searcher in searchers]
    if first.encoder is None:
        return [replace(first, searcher=searcher) for searcher in shared], shared
    requests = []
    for searcher, similarity in zip(shared, first.similarities, strict=True):
        requests.append(replace(first, searcher=searcher, similarities=[similarity]))
    return requests, shared
