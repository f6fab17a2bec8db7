"""What is compared on a task: a result, or the mean of the results of models that differ only in their seeds.

MAG averages over seeds before it tests anything (Q.1): otherwise luck of one seed would count as a difference.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import commonprefix
from typing import Any

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.sheet import grouped
from retrokit.data.prompted import prompts_in_words
from retrokit.evaluation.comparison.trained import Training
from retrokit.evaluation.result import Result, draws_of, known
from retrokit.metrics.significance import Draws, alike, mean_of

_DISTINCTIVE = ("dims", "precision", "device", "index", "quantize")


@dataclass(frozen=True)
class System:
    """One row of a comparison on one task.

    Attributes:
        results: one; or one for each of ``seeds``, of one task and one similarity.
        trained_with: the similarity of the training, where that is known.
        distinction: the difference from another system of the same name, such as its number of dimensions.
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
        shared = in_common([result.similarity for result in self.results])
        several = len({result.similarity for result in self.results}) > 1
        counted_already = len({result.encoder for result in self.results}) > 1
        return f"{shared} ({len(self.results)} seeds)" if several and not counted_already else shared

    @property
    def encoder(self) -> str:
        """The encoder; of several seeds, what their specs have in common, and how many there are."""
        specs = [result.encoder for result in self.results]
        name = in_common(specs) + (f" ({len(specs)} seeds)" if len(set(specs)) > 1 else "")
        return f"{name}, {self.distinction}" if self.distinction else name

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"{self.encoder} {self.similarity}"

    @property
    def precision(self) -> str:
        """What it was computed in, such as ``bfloat16``; empty if unknown, as of BM25."""
        return " and ".join(dict.fromkeys(result.precision for result in self.results if result.precision))

    @property
    def prompts(self) -> str:
        """What is put before its texts, in words; empty if unknown."""
        prompts = self.first.configuration.get("prompts")
        return "" if prompts is None else prompts_in_words(prompts)

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Each metric; of several seeds, its mean."""
        names = [name for name in self.first.metrics if all(name in result.metrics for result in self.results)]
        return {name: statistics.fmean(result.metrics[name] for result in self.results) for name in names}

    def deviation(self, metric: str) -> float | None:
        """The sample SD (n − 1) of a metric over the seeds; ``None`` for a single result."""
        values = [result.metrics[metric] for result in self.results]
        return statistics.stdev(values) if len(values) > 1 else None

    def per_item(self, metric: str) -> dict[str, float] | None:
        """The value of each query (text, pair) that all results have, mean over seeds; ``None`` if it is no mean."""
        if not all(metric in result.per_query for result in self.results):
            return None
        columns = [result.per_query[metric] for result in self.results]
        shared = [item for item in columns[0] if all(item in column for column in columns[1:])]
        return {item: statistics.fmean(column[item] for column in columns) for item in shared}

    def draws(self, metric: str) -> Draws | None:
        """A metric that is no mean on resampled items, mean over seeds; ``None`` if it cannot be."""
        if metric not in self._draws:
            draws = [draws_of(result.resampled[metric]) for result in self.results if metric in result.resampled]
            self._draws[metric] = mean_of(draws) if len(draws) == len(self.results) and alike(draws) else None
        return self._draws[metric]

    @cached_property
    def _draws(self) -> dict[str, Draws | None]:
        return {}


def comparable(first: System, other: System, metric: str) -> bool:
    """Whether both have a value of ``metric``, and on one scale."""
    defined = all(known(system.metrics.get(metric)) is not None for system in (first, other))
    return defined and not any(metric in result.own_scale for result in (*first.results, *other.results))


def precisions_of(systems: Sequence[System]) -> dict[str, list[str]]:
    """The names of the systems computed in each precision, if there are several precisions; else nothing."""
    by_precision = _names_by(systems, "precision")
    return by_precision if len(by_precision) > 1 else {}


def prompts_of(systems: Sequence[System]) -> dict[str, list[str]]:
    """The names of the systems with the same prompts, by what these are, as far as results contain them."""
    return _names_by(systems, "prompts")


def _names_by(systems: Sequence[System], attribute: str) -> dict[str, list[str]]:
    """The names of the systems by what they have there, without those that have nothing."""
    groups = grouped(systems, attribute)
    groups.pop("", None)
    return {value: list(dict.fromkeys(system.name for system in group)) for value, group in groups.items()}


def in_common(specs: Sequence[str]) -> str:
    """What specs have in common, a star for the rest: ``runs/q-0`` and ``runs/q-1`` are ``runs/q-*``."""
    if len(set(specs)) == 1:
        return specs[0]
    start = commonprefix(specs)  # noqa: RUF071 - letters are meant
    end = commonprefix([spec[len(start) :][::-1] for spec in specs])[::-1]  # noqa: RUF071
    return f"{start}*{end}"


def systems_of(results: Sequence[Result], trainings: Mapping[str, Training | None]) -> list[System]:
    """The systems behind ``results``, in the order of their first results.

    ``trainings`` has the training of each encoder's spec, or of each result's name. Results of one task, similarity and
    configuration become one system if their trainings differ in nothing but seeds; the same seed a second time is a
    system of its own.
    """
    groups: dict[tuple[Any, ...], list[tuple[Result, Training | None]]] = {}
    for number, result in enumerate(results):
        training = trainings.get(result.name, trainings.get(result.encoder))
        key: tuple[Any, ...] = (number,)
        if training is not None and training.seed:
            of_seeds = _group_of_seeds(result, training, includes_reranker=result.name in trainings)
            seeds_before = [other.seed for _, other in groups.get(of_seeds, ()) if other is not None]
            if training.seed not in seeds_before:
                key = of_seeds
        groups.setdefault(key, []).append((result, training))
    systems = [_system_of(members) for members in groups.values()]
    rivals: dict[tuple[str, str], list[System]] = {}
    for system in systems:
        rivals.setdefault((system.task, system.name), []).append(system)
    return [_distinguished(system, rivals[system.task, system.name]) for system in systems]


def _group_of_seeds(result: Result, training: Training, includes_reranker: bool) -> tuple[Any, ...]:
    """What the results of one system have in common, whose trainings differ only in their seeds."""
    similarity, reranker = result.similarity, result.configuration.get("reranker")
    if reranker is not None and includes_reranker:  # the training's group stands for its spec
        similarity = similarity.replace(reranker, "")
    configuration = tuple(result.configuration.get(name) for name in _DISTINCTIVE)
    return result.task, similarity, configuration, training.group


def _system_of(members: Sequence[tuple[Result, Training | None]]) -> System:
    """The system of a group of results; of one result, without seeds."""
    _, first_training = members[0]
    seeds: tuple[str, ...] = ()
    if len(members) > 1:
        seeds = tuple(training.seed for _, training in members if training is not None)
    trained_with = first_training.similarity if first_training is not None else None
    return System(tuple(result for result, _ in members), seeds, trained_with)


def _distinguished(system: System, rivals: Sequence[System]) -> System:
    """The system with what distinguishes it from its ``rivals``, the systems of its name on its task."""
    configuration = system.first.configuration
    differences = []
    for name in _DISTINCTIVE:
        values = {str(rival.first.configuration.get(name)) for rival in rivals}
        is_hidden = name == "quantize" and str(configuration.get(name)) not in system.first.encoder
        if name in configuration and (len(values) > 1 or is_hidden):
            differences.append(f"{name} {configuration[name]}")
    return replace(system, distinction=", ".join(differences))


def led_by(name: str, results: Sequence[Result], systems: Sequence[System]) -> list[Result]:
    """The results in the same order, but on each task those of the system ``name`` first; an encoder's name means its
    first system. A notice names a task without it; :class:`UsageError` if no task has it."""
    tasks = list(dict.fromkeys(result.task for result in results))
    leading: set[int] = set()
    for task in tasks:
        of_task = [system for system in systems if system.task == task]
        leader = _named(name, of_task)
        if leader is None:
            notice(f"`baseline_system=` {name}: is not on {task}; the others are compared with {of_task[0].name}")
        else:
            leading |= {id(result) for result in leader.results}
    if not leading:
        there = ", ".join(dict.fromkeys(system.name for system in systems))
        raise UsageError(f"`baseline_system=` {name}: there is none of that name; there are {there}")
    return sorted(results, key=lambda result: (tasks.index(result.task), id(result) not in leading))


def _named(name: str, systems: Sequence[System]) -> System | None:
    """The system of that name, else the first one of that encoder, without a reranker if there is such a one."""
    for system in systems:
        if name in (system.name, *(result.name for result in system.results)):
            return system
    of_encoder = [
        system for system in systems if name in (system.encoder, *(result.encoder for result in system.results))
    ]
    alone = [system for system in of_encoder if "reranker" not in system.first.configuration]
    return next(iter([*alone, *of_encoder]), None)
