"""Several retrieval sets as one task, whose figures are unweighted means over the sets: CQADupStack, NanoBEIR.

The mean of a set counts once, however many queries it has, as BEIR reports CQADupStack. Differences between systems are
tested over the sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import UsageError, did_you_mean
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request, Task
from retrokit.metrics.ranking import DEFAULT_METRICS, check_metric

if TYPE_CHECKING:
    from retrokit.data.overlap import JudgedTexts


class RetrievalSets(Task):
    """The ``sets`` by name. A metric is the mean over them; ``SET:METRIC`` is that of one set."""

    main_metric = "ndcg@10"
    searches = True

    def __init__(self, name: str, sets: Mapping[str, Task]) -> None:
        self.name = name
        self.sets = sets
        of_sets = [f"{name}:{self.main_metric}" for name in sets]
        self.shown_metrics = (self.main_metric, *of_sets)
        self.default_metrics = (*DEFAULT_METRICS, *of_sets)

    def describe(self) -> str:
        of_sets = [task.describe() for task in self.sets.values()]
        return f"{self.name}: the mean over {len(self.sets)} sets; {'; '.join(of_sets)}"

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise :class:`UsageError` for a name that is no ranking metric, or of no set."""
        for name in names:
            of_set, _, metric = name.rpartition(":")
            check_metric(metric)
            if of_set and of_set not in self.sets:
                hint = did_you_mean(of_set, self.sets)
                raise UsageError(f"unknown set {of_set!r}{hint}; {self.spec} has {', '.join(self.sets)}")

    def digest(self) -> str | None:
        digests = [task.digest() for task in self.sets.values()]
        if None in digests:
            return None
        return " ".join(f"{name}={digest}" for name, digest in zip(self.sets, digests, strict=True))

    def judged_texts(self) -> JudgedTexts | None:
        from retrokit.data.overlap import JudgedTexts

        texts_of_sets = [texts for task in self.sets.values() if (texts := task.judged_texts()) is not None]
        return JudgedTexts.of(pair for texts in texts_of_sets for pair in texts.pairs)

    def evaluate(self, request: Request) -> list[Result]:
        """One result per similarity, or one of the searcher."""
        names = request.names(self)
        metrics = [*dict.fromkeys(name.rpartition(":")[2] for name in names)]
        results_by_set = {}
        for name, task in self.sets.items():
            searcher = None if request.searcher is None else request.searcher.within(name)
            of_set = replace(request, metrics=metrics, alone=True, searcher=searcher)
            results_by_set[name] = task.evaluate(of_set)
        return [
            self._mean(dict(zip(self.sets, results, strict=True)), names)
            for results in zip(*results_by_set.values(), strict=True)
        ]

    def _mean(self, results: Mapping[str, Result], names: Sequence[str]) -> Result:
        """The result over the sets, given the one of each set."""
        metrics: dict[str, float] = {}
        per_query: dict[str, dict[str, float]] = {}
        for name in names:
            of_set, _, metric = name.rpartition(":")
            if of_set:
                metrics[name] = results[of_set].metrics[metric]
                per_query[name] = results[of_set].per_query[metric]
            else:
                values = {set_name: result.metrics[metric] for set_name, result in results.items()}
                metrics[name] = fmean(values.values())
                per_query[name] = values  # a mean over sets is compared over sets
        first = next(iter(results.values()))
        return replace(
            first,
            task=self.spec,
            main_metric=self.main_metric,
            metrics=metrics,
            per_query=per_query,
            counts=self._counts(results.values()),
            norms={},
            configuration=_common(results.values()),
            run=dict(_run(results)),
        )

    def _counts(self, results: Iterable[Result]) -> dict[str, int | float]:
        """The sums of what the sets count; shares are left out."""
        sums: Counter[str] = Counter()
        for result in results:
            sums.update({name: count for name, count in result.counts.items() if isinstance(count, int)})
        return {"sets": len(self.sets), **sums}


def _common(results: Iterable[Result]) -> dict[str, Any]:
    """What is configured alike for all sets."""
    first, *others = results
    return {
        name: value
        for name, value in first.configuration.items()
        if all(result.configuration.get(name) == value for result in others)
    }


def _run(results: Mapping[str, Result]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """The rankings of all sets, each query under ``SET/QUERY``."""
    for name, result in results.items():
        for query, scores in result.run.items():
            yield f"{name}/{query}", scores
