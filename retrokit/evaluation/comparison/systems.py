"""What is compared on a task: a result, or the mean of the results of models that differ in their seeds alone.

MAG averages over seeds before it tests anything (Q.1): otherwise luck of one seed would count as a difference.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import commonprefix
from typing import Any

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result, draws_of, known
from retrokit.metrics.bootstrap import Draws, alike, mean_of

_TELLING = ("dims", "precision", "device", "index", "quantize")


@dataclass(frozen=True)
class System:
    """One row of a comparison on one task.

    Attributes:
        results: one; or one for each of ``seeds``, of one task and one similarity.
        trained_with: the similarity of the training, where that is known.
        distinction: what tells it from another system of the same name, such as its number of dimensions.
    """

    results: tuple[Result, ...]
    seeds: tuple[str, ...] = ()
    trained_with: str | None = None
    distinction: str = ""

    @property
    def first(self) -> Result:
        """The result of the first seed, for what all have in common."""
        return self.results[0]

    @property
    def task(self) -> str:
        """Spec of the task."""
        return self.first.task

    @property
    def similarity(self) -> str:
        """Spec of the similarity that scored, with what reranked; of several seeds' rerankers, what they share."""
        return self._shared([result.similarity for result in self.results], bool(self._encoders[1:]))

    @property
    def encoder(self) -> str:
        """The encoder; of several seeds, what their specs have in common, and how many there are."""
        name = self._shared(self._encoders, False)
        return f"{name}, {self.distinction}" if self.distinction else name

    @property
    def _encoders(self) -> list[str]:
        return list(dict.fromkeys(result.encoder for result in self.results))

    def _shared(self, specs: Sequence[str], is_counted: bool) -> str:
        """What ``specs`` have in common, with the number of the seeds where they differ, unless that is told."""
        different = list(dict.fromkeys(specs))
        if len(different) == 1:
            return different[0]
        return in_common(different) + ("" if is_counted else f" ({len(self.results)} seeds)")

    @property
    def name(self) -> str:
        """What tells it from the others of a table."""
        return f"{self.encoder} {self.similarity}"

    @property
    def precision(self) -> str:
        """What it was computed in, such as ``bfloat16``; empty where nothing tells, as of words counted."""
        return " and ".join(dict.fromkeys(result.precision for result in self.results if result.precision))

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Each metric; of several seeds, its mean."""
        names = [name for name in self.first.metrics if all(name in result.metrics for result in self.results)]
        return {name: statistics.fmean(result.metrics[name] for result in self.results) for name in names}

    def deviation(self, metric: str) -> float | None:
        """The sample standard deviation (n − 1) of a metric over the seeds; ``None`` for a single result."""
        if len(self.results) < 2:
            return None
        return statistics.stdev(result.metrics[metric] for result in self.results)

    def per_item(self, metric: str) -> dict[str, float] | None:
        """The value of each query (text, pair) that all results have, mean over seeds; ``None`` if it is no mean."""
        if not all(metric in result.per_query for result in self.results):
            return None
        columns = [result.per_query[metric] for result in self.results]
        shared = [item for item in columns[0] if all(item in column for column in columns[1:])]
        return {item: statistics.fmean(column[item] for column in columns) for item in shared}

    def draws(self, metric: str) -> Draws | None:
        """A metric that is no mean on items drawn anew, mean over seeds; ``None`` if it cannot be."""
        if metric not in self._drawn:
            seed_draws = [draws_of(result.resampled[metric]) for result in self.results if metric in result.resampled]
            complete = len(seed_draws) == len(self.results) and alike(seed_draws)
            self._drawn[metric] = mean_of(seed_draws) if complete else None
        return self._drawn[metric]

    @cached_property
    def _drawn(self) -> dict[str, Draws | None]:
        return {}


def comparable(first: System, other: System, metric: str) -> bool:
    """Whether both have a value of ``metric``, and on one scale."""
    defined = all(known(system.metrics.get(metric)) is not None for system in (first, other))
    return defined and not any(metric in result.own_scale for result in (*first.results, *other.results))


def precisions_of(systems: Sequence[System]) -> dict[str, list[str]]:
    """The names of the systems computed in each precision, if there are several precisions; else nothing."""
    by_precision: dict[str, list[str]] = {}
    for system in systems:
        if system.precision and system.name not in by_precision.setdefault(system.precision, []):
            by_precision[system.precision].append(system.name)
    return by_precision if len(by_precision) > 1 else {}


def in_common(specs: Sequence[str]) -> str:
    """What specs have in common, a star for the rest: ``runs/q-0`` and ``runs/q-1`` are ``runs/q-*``."""
    start = commonprefix(specs)  # noqa: RUF071 - letters are meant
    end = commonprefix([spec[len(start) :][::-1] for spec in specs])[::-1]  # noqa: RUF071
    return f"{start}*{end}"


def systems_of(results: Sequence[Result], trainings: Mapping[str, Training | None]) -> list[System]:
    """The systems behind ``results``, in the order of their first results.

    ``trainings`` says of each encoder's spec, or of each result's name, how it came about. Results of one task,
    similarity and configuration become one system if what made them differs in nothing but seeds; the same seed a
    second time stays by itself.
    """
    groups: dict[tuple[Any, ...], list[Result]] = {}
    seen: set[tuple[tuple[Any, ...], str]] = set()
    for position, result in enumerate(results):
        training = _training(result, trainings)
        configuration = tuple(result.configuration.get(key) for key in _TELLING)
        if training is None or not training.seed:
            groups[position,] = [result]
            continue
        similarity, reranker = result.similarity, result.configuration.get("reranker")
        if reranker is not None and result.name in trainings:  # the group tells the reranker
            similarity = similarity.replace(reranker, "")
        key: tuple[Any, ...] = (result.task, similarity, configuration, training.group)
        if (key, training.seed) in seen:
            key = (position,)
        seen.add((key, training.seed))
        groups.setdefault(key, []).append(result)
    systems = [_system(members, trainings) for members in groups.values()]
    return [_distinguished(system, systems) for system in systems]


def _system(members: list[Result], trainings: Mapping[str, Training | None]) -> System:
    member_trainings = [_training(result, trainings) for result in members]
    seeds = tuple(training.seed for training in member_trainings if training) if len(members) > 1 else ()
    return System(tuple(members), seeds, member_trainings[0].similarity if member_trainings[0] else None)


def _training(result: Result, trainings: Mapping[str, Training | None]) -> Training | None:
    return trainings.get(result.name, trainings.get(result.encoder))


def _is_untold(key: str, result: Result) -> bool:
    """Whether it is a quantisation that the spec does not tell."""
    return key == "quantize" and str(result.configuration[key]) not in result.encoder


def _distinguished(system: System, systems: Sequence[System]) -> System:
    """The system with whatever of its configuration differs from one of the same name on the same task, and with its
    quantisation, if it has any."""
    rivals = [other for other in systems if (other.task, other.name) == (system.task, system.name)]
    distinctions = [
        f"{key} {system.first.configuration[key]}"
        for key in _TELLING
        if key in system.first.configuration
        and (len({str(rival.first.configuration.get(key)) for rival in rivals}) > 1 or _is_untold(key, system.first))
    ]
    if not distinctions:
        return system
    return System(system.results, system.seeds, system.trained_with, ", ".join(distinctions))


def led_by(name: str, results: Sequence[Result], systems: Sequence[System]) -> list[Result]:
    """The results in the same order, but on each task those of the system ``name`` first: of an encoder's name alone,
    the first that it has there. A notice names a task that has none; :class:`UsageError` where no task has one."""
    tasks, leading = list(dict.fromkeys(result.task for result in results)), set()
    for task in tasks:
        of_task = [system for system in systems if system.task == task]
        own = [system for system in of_task if name in (system.name, *(result.name for result in system.results))]
        own += [
            system for system in of_task if name in (system.encoder, *(result.encoder for result in system.results))
        ]
        if not own:
            notice(f"`baseline_system=` {name}: is not on {task}; the others are compared with {of_task[0].name}")
        leading |= {id(result) for system in own[:1] for result in system.results}
    if not leading:
        there = ", ".join(dict.fromkeys(system.name for system in systems))
        raise UsageError(f"`baseline_system=` {name}: there is none of that name; there are {there}")
    return sorted(results, key=lambda result: (tasks.index(result.task), id(result) not in leading))
