"""Why a figure differs from a published one: each setting that papers leave out is changed, one at a time.

Every change is measured on a sample of queries, over the documents that rank first for them. Those that move the
figure towards the published one are then measured on the whole task.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache, partial
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice, progress
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.data.records import PrintedRecord
from retrokit.encoders.prompts import FAMILIES
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.settings import parse_gate
from retrokit.evaluation.task import Request, Task
from retrokit.extensions.studies.settings import WhySettings
from retrokit.metrics.significance import PairedTest, holm, paired_t_test

if TYPE_CHECKING:
    from retrokit.encoders.base import Encoder
    from retrokit.evaluation.result import Result
    from retrokit.similarities.base import Similarity

TOP = 20
"""Documents of a sampled query, besides those that are judged."""
POOLINGS = ("mean", "cls", "last")
LENGTHS = (32, 64, 128, 256, 512)
SIMILARITIES = ("cosine", "dot", "l2")
PRECISIONS = ("fp32", "bf16")
Change = tuple[str, str, Mapping[str, Any]]
"""The setting, its value in words, and the parameters."""
_READING_CHANGES: list[Change] = [
    *[("pooling", pooling, {"pooling": pooling}) for pooling in POOLINGS],
    *[("maximum length", str(length), {"max_length": length}) for length in LENGTHS],
    ("truncation side", "left", {"truncation": "left"}),
    ("truncation side", "right", {"truncation": "right"}),
    ("end token", "with", {"end_token": True}),
    ("end token", "without", {"end_token": False}),
]
"""How a model reads texts."""
_DATA_CHANGES: list[Change] = [
    ("titles", "joined", {"titles": True}),
    ("titles", "left out", {"titles": False}),
    ("documents with the query's id", "left out", {"ignore_identical_ids": True}),
    ("documents with the query's id", "searched", {"ignore_identical_ids": False}),
]
"""How a task reads its data."""


@dataclass(frozen=True)
class Setup:
    """How a figure is computed: what ``retrokit eval`` is given."""

    model: str
    task: str
    similarity: str | None = None
    precision: str = "auto"

    def command(self, metric: str) -> str:
        """The command line that computes it."""
        words = ["retrokit", "eval", self.model, "--on", self.task, "--metrics", metric]
        if self.similarity is not None:
            words += ["--sim", self.similarity]
        if self.precision != "auto":
            words += ["--precision", self.precision]
        return shlex.join(words)


@dataclass(frozen=True)
class ChangedSetting:
    """One setting with another value.

    Attributes:
        sampled, whole: against the present setup, on the sample and on the whole task; ``None``: not measured.
        sampled_p, whole_p: corrected by Holm over the changes measured there.
        figure: on the whole task.
    """

    setting: str
    value: str
    command: str
    sampled: PairedTest | None = None
    sampled_p: float = 1.0
    whole: PairedTest | None = None
    whole_p: float = 1.0
    figure: float | None = None


@dataclass(frozen=True)
class Why(PrintedRecord):
    """What each change does.

    Attributes:
        present: the figure without a change.
        noise: largest distance from ``published`` that rounding and precision explain.
        changes: the nearest to the published figure first.
        left_out: changes that do not fit the model or the task, and why.
    """

    metric: str
    published: float
    present: float
    noise: float
    changes: Sequence[ChangedSetting]
    left_out: Sequence[str]

    def explains(self, change: ChangedSetting) -> bool:
        """Whether the change brings the figure to the published one."""
        return change.figure is not None and abs(change.figure - self.published) <= self.noise

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        changes = [{**asdict(change), "explains": self.explains(change)} for change in self.changes]
        return {**super().to_json(), "changes": changes}

    def sheets(self) -> list[Sheet]:
        """A row for each change; below, the commands of those that explain the figure."""
        rows = []
        for change in self.changes:
            figure = "" if change.figure is None else f"{change.figure:.4f}"
            if self.explains(change):
                figure += " ="
            sampled, complete = _tested(change.sampled, change.sampled_p), _tested(change.whole, change.whole_p)
            rows.append([change.setting, change.value, sampled, complete, figure])
        title = f"{self.metric}: {self.present:.4f} here, {self.published:g} published"
        columns = ["setting", "value", "difference, sample", "difference, whole task", "figure"]
        commands = [change.command for change in self.changes if self.explains(change)]
        notes = [f"=: within {self.noise:.4f} of the published figure, by rounding and precision"]
        notes += ["differences from the present setup; p by paired t-tests with Holm's correction"]
        notes += [self.conclusion, *commands, *(f"left out: {change}" for change in self.left_out)]
        return [Sheet(title, columns, 2, rows, notes)]

    @property
    def conclusion(self) -> str:
        """Whether a change explains the figure."""
        if abs(self.present - self.published) <= self.noise:
            return "The present setup gives the published figure."
        if count := sum(map(self.explains, self.changes)):
            return (
                "One change gives the published figure:" if count == 1 else f"{count} changes give it, each by itself:"
            )
        return "No single change gives the published figure."


def _tested(test: PairedTest | None, p: float) -> str:
    if test is None:
        return ""
    return "none" if test.low == test.high == 0 else f"{test.difference:+.4f}\np={p:.2g}"


@taking(WhySettings)
def why_this_figure(settings: WhySettings) -> Why:
    """Measure which settings explain a published figure.

    Raises:
        UsageError: a wrong name, a metric that the task does not measure or that is no mean over queries, or no figure.
        DataError: files of the task or the model.
    """
    metric, published = parse_gate(settings.published, "published")
    if not 0 <= published <= 1:
        raise UsageError(f"`published=` {settings.published}: expected a share from 0 to 1, such as {metric}=0.645")
    parse_all([(encoders.registry, settings.model), (tasks, settings.on)])
    present, work = Setup(settings.model, settings.on), _Measuring(metric, settings.device)
    task = work.task(settings.on)
    task.check_metrics([metric])
    notice(task.describe())
    before = work.evaluate(present, task)
    if metric not in before.per_query:
        raise UsageError(f"{settings.on}: {metric} is no mean over queries, so that no change of it can be tested")
    sample, sought = _sample(task, before, settings.sample), published - before.metrics[metric]
    sampled = before if sample is None else work.evaluate(present, work.task(settings.on), sample)
    changes, results, left_out = _try_changes(work, present, sample)
    tests = {setup: work.test(sampled, result) for setup, result in results.items()}
    if sample is not None:
        results = _measure_completely(work, tests, sought, settings.most)
    complete_tests = {setup: work.test(before, result) for setup, result in results.items()}

    def order(setup: Setup) -> tuple[bool, float]:
        test = complete_tests.get(setup, tests[setup])
        return setup not in complete_tests, abs(test.difference - sought)

    sample_p, complete_p = _corrected(tests), _corrected(complete_tests)
    table = []
    for setup in sorted(changes, key=order):
        name, value = changes[setup]
        change = ChangedSetting(
            name,
            value,
            setup.command(metric),
            sampled=None if sample is None else tests[setup],
            sampled_p=sample_p[setup],
            whole=complete_tests.get(setup),
            whole_p=complete_p.get(setup, 1.0),
            figure=results[setup].metrics[metric] if setup in results else None,
        )
        table.append(change)
    noise = _rounding(settings.published) + _noise_of_precision(changes, tests)
    return Why(metric, published, before.metrics[metric], noise, table, left_out)


def _noise_of_precision(changes: Mapping[Setup, tuple[str, str]], tests: Mapping[Setup, PairedTest]) -> float:
    """The largest difference that another precision makes."""
    differences = [abs(tests[setup].difference) for setup, (name, _) in changes.items() if name == "precision"]
    return max(differences, default=0.0)


def _try_changes(
    work: _Measuring, present: Setup, sample: _Sample | None
) -> tuple[dict[Setup, tuple[str, str]], dict[Setup, Result], list[str]]:
    """Measure each change on the sample: the setting and value of each setup, its result, and what does not apply."""
    changes: dict[Setup, tuple[str, str]] = {}
    results: dict[Setup, Result] = {}
    left_out: list[str] = []
    decisive, changed = work.decisive(present), list(_changed(present, work.encoder(present.model).prompts))
    with progress("trying changes", len(changed), "changes") as advance:
        for name, value, setup in changed:
            try:
                if work.decisive(setup) != decisive:
                    results[setup] = work.evaluate(setup, work.task(setup.task), sample)
                    changes[setup] = name, value
            except UsageError as error:
                left_out.append(f"{name} {value}: {error}")
            advance(1)
    return changes, results, left_out


def _measure_completely(
    work: _Measuring, tests: Mapping[Setup, PairedTest], sought: float, limit: int
) -> dict[Setup, Result]:
    """Measure the setups that may explain ``sought``, at most ``limit``, on the whole task."""
    candidates = [setup for setup, test in tests.items() if _can_explain(test, sought)]
    candidates = sorted(candidates, key=lambda setup: abs(tests[setup].difference - sought))[:limit]
    results = {}
    with progress("measuring on the whole task", len(candidates), "changes") as advance:
        for setup in candidates:
            results[setup] = work.evaluate(setup, work.task(setup.task))
            advance(1)
    return results


def _can_explain(test: PairedTest, sought: float) -> bool:
    """Whether the sample leaves open that a change moves the figure by ``sought``: within twice the half-width of the
    95% interval, for the sample searches fewer documents."""
    has_effect = test.high > test.low or test.difference != 0
    return has_effect and abs(sought - test.difference) <= test.high - test.low


def _rounding(published: str) -> float:
    """Half a unit of the last digit that was published.

    >>> _rounding("ndcg@10=0.645")
    0.0005
    """
    digits = published.strip().partition("=")[2].partition(".")[2]
    return float(0.5 * 10.0 ** -len(digits))


def _corrected(tests: Mapping[Setup, PairedTest]) -> dict[Setup, float]:
    return dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))


class _Measuring:
    """Evaluates setups in one metric. A task is read once, and an encoder is opened once for all that is done next."""

    def __init__(self, metric: str, device: str | None) -> None:
        self._metric = metric
        self.task: Callable[[str], Task] = cache(partial(tasks.create_on, device=device))
        self.encoder: Callable[[str], Encoder] = lru_cache(1)(partial(encoders.registry.create, device=device))
        self._restricted: Callable[..., Task] = cache(_on_sample)

    def _similarity(self, setup: Setup) -> Similarity:
        encoder = self.encoder(setup.model)
        return encoder.similarity if setup.similarity is None else encoder.similarity_of(setup.similarity)

    def evaluate(self, setup: Setup, task: Task, sample: _Sample | None = None) -> Result:
        """The metric of a setup on ``task``, or on a sample of it."""
        if sample is not None:
            task = self._restricted(task, sample)
        encoder, similarities = self.encoder(setup.model), [self._similarity(setup)]
        (result,) = task.evaluate(Request(encoder, similarities, [self._metric], setup.precision, alone=True))
        return result

    def decisive(self, setup: Setup) -> tuple[str, ...]:
        """What decides the scores: two setups that have the same are the same."""
        encoder, on = self.encoder(setup.model), str(tasks.parse(setup.task))
        return encoder.fingerprint(), encoder.computes_in(setup.precision), self._similarity(setup).spec, on

    def test(self, before: Result, after: Result) -> PairedTest:
        """Whether the metric differs, over the queries."""
        return paired_t_test(before.per_query[self._metric], after.per_query[self._metric])


@dataclass(frozen=True)
class _Sample:
    """Ids of some queries, and of the documents that are searched for them."""

    queries: frozenset[str]
    documents: frozenset[str]


def _on_sample(task: Task, sample: _Sample) -> Task:
    restricted = task.restricted(sample.queries, sample.documents)
    assert restricted is not None
    return restricted


def _sample(task: Task, before: Result, count: int) -> _Sample | None:
    """``count`` queries at random, with the first documents of each and the judged ones; ``None`` where the task cannot
    be restricted."""
    data = task.judged()
    if data is None:
        return None
    queries = random.Random(0).sample(data.query_ids, min(count, len(data.query_ids)))
    ranked = {query: before.run[query] for query in queries}
    documents: set[str] = set()
    for query, scores in ranked.items():
        documents.update(nlargest(TOP, scores, key=scores.__getitem__))
        documents.update(data.qrels.get(query, {}))
    return _Sample(frozenset(queries), frozenset(documents))


def _changed(present: Setup, prompts: Mapping[str, str | None]) -> Iterator[tuple[str, str, Setup]]:
    """Each change that the registries have, of a model with these ``prompts``: the setting, its value, the setup."""
    for name, value, params in (*_prompt_changes(prompts), *_READING_CHANGES):
        if (spec := _with(encoders.registry, present.model, params)) is not None:
            yield name, value, replace(present, model=spec)
    for name, value, params in _DATA_CHANGES:
        if (spec := _with(tasks, present.task, params)) is not None:
            yield name, value, replace(present, task=spec)
    for similarity in SIMILARITIES:
        yield "similarity", similarity, replace(present, similarity=similarity)
    for precision in PRECISIONS:
        yield "precision", precision, replace(present, precision=precision)


def _prompt_changes(prompts: Mapping[str, str | None]) -> Iterator[Change]:
    """Each prompt left out, and those of each family of models."""
    for role, prompt in prompts.items():
        if prompt:
            yield f"{role} prompt", "none", {f"{role}_prompt": ""}
    families = {(family.query or "", family.document or ""): f"of {family.name}" for family in reversed(FAMILIES)}
    for (query, document), name in families.items():
        if query or document:
            yield "prompts", name, {"query_prompt": query, "document_prompt": document}


def _with(registry: Registry, text: str, params: Mapping[str, Any]) -> str | None:
    """The spec with other parameters; ``None`` if its entry has no such ones."""
    spec = registry.parse(text)
    names = {param.name for param in registry.entry(spec.name).params}
    return str(spec.changed(**params)) if params.keys() <= names else None
