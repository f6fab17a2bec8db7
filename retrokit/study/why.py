"""Why a figure differs from a published one: each setting that papers leave out is changed, one at a time.

Every change is measured on a sample of queries, over the documents that rank first for them. Those that move the
figure towards the published one are then measured on the whole task.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice, progress
from retrokit.core.registry import Registry, parse_all
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.gates import parse_gate
from retrokit.evaluation.task import Request, Task
from retrokit.metrics.significance import PairedTest, holm, paired_t_test
from retrokit.study.settings import WhySettings

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
        words += [] if self.similarity is None else ["--sim", self.similarity]
        return shlex.join([*words, *([] if self.precision == "auto" else ["--precision", self.precision])])


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
class Why:
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
        return {**asdict(self), "changes": changes, "left_out": list(self.left_out)}

    def sheet(self) -> Sheet:
        """A row for each change; below, the commands of those that explain the figure."""
        rows = []
        for one in self.changes:
            tested = (_tested(one.sampled, one.sampled_p), _tested(one.whole, one.whole_p))
            figure = "" if one.figure is None else f"{one.figure:.4f}" + " =" * self.explains(one)
            rows.append([one.setting, one.value, *tested, figure])
        title = f"{self.metric}: {self.present:.4f} here, {self.published:g} published"
        columns = ["setting", "value", "difference, sample", "difference, whole task", "figure"]
        commands = [change.command for change in self.changes if self.explains(change)]
        notes = [f"=: within {self.noise:.4f} of the published figure, by rounding and precision"]
        notes += ["differences from the present setup; p by paired t-tests with Holm's correction"]
        notes += [self._conclusion(), *commands, *(f"left out: {one}" for one in self.left_out)]
        return Sheet(title, columns, 2, rows, notes)

    def _conclusion(self) -> str:
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


def why_this_figure_of(settings: WhySettings) -> Why:
    """Measure which settings explain a published figure.

    Raises:
        UsageError: a wrong name, a task that ranks no documents, a metric that it does not measure, or no figure.
        DataError: files of the task or the model.
    """
    metric, published = parse_gate(settings.published, "published")
    if not 0 <= published <= 1:
        raise UsageError(f"`published=` {settings.published}: expected a share from 0 to 1, such as {metric}=0.645")
    parse_all([(encoders.registry, settings.model), (tasks, settings.on)])
    present, work = Setup(settings.model, settings.on), _Measuring(metric, settings.device)
    task = work.task(present)
    task.check_metrics([metric])
    notice(task.describe())
    before = work.evaluate(present, task)
    if metric not in before.per_query:
        raise UsageError(f"{settings.on}: {metric} is no mean over queries, so that no change of it can be tested")
    sample = _sample(task, before, settings.sample)
    sampled = before if sample is None else work.evaluate(present, sample.of(task))

    tried: dict[Setup, tuple[str, str]] = {}
    tests: dict[Setup, PairedTest] = {}
    results: dict[Setup, Result] = {}
    left_out: list[str] = []
    changed = list(_changed(present, work, task))
    with progress("trying changes", len(changed), "changes") as advance:
        for name, value, setup in changed:
            try:
                if work.differs(setup, present):
                    other = work.task(setup)
                    result = work.evaluate(setup, other if sample is None else sample.of(other))
                    tried[setup], tests[setup] = (name, value), work.test(sampled, result)
                    results |= {setup: result} if sample is None else {}
            except UsageError as error:
                left_out.append(f"{name} {value}: {error}")
            advance(1)

    def distance(setup: Setup) -> float:
        figure = results[setup].metrics[metric] if setup in results else present_figure + tests[setup].difference
        return abs(figure - published)

    present_figure = before.metrics[metric]
    if sample is not None:
        possible = sorted((one for one in tried if _can_explain(tests[one], published - present_figure)), key=distance)
        with progress("measuring on the whole task", len(possible[: settings.most]), "changes") as advance:
            for setup in possible[: settings.most]:
                results[setup] = work.evaluate(setup, work.task(setup))
                advance(1)
    whole = {setup: work.test(before, result) for setup, result in results.items()}
    of_sample, of_whole = _corrected(tests), _corrected(whole)
    changes = [
        ChangedSetting(
            *tried[setup],
            setup.command(metric),
            *(None if sample is None else tests[setup], of_sample[setup]),
            *(whole.get(setup), of_whole.get(setup, 1.0)),
            results[setup].metrics[metric] if setup in results else None,
        )
        for setup in sorted(tried, key=lambda setup: (setup not in results, distance(setup)))
    ]
    digits = len(settings.published.strip().rpartition(".")[2]) if "." in settings.published.partition("=")[2] else 0
    by_precision = [abs(tests[setup].difference) for setup, (name, _) in tried.items() if name == "precision"]
    return Why(
        metric, published, present_figure, 0.5 * 10.0**-digits + max(by_precision, default=0.0), changes, left_out
    )


why_this_figure = taking(WhySettings)(why_this_figure_of)


def _can_explain(test: PairedTest, sought: float) -> bool:
    """Whether the sample leaves open that a change moves the figure by ``sought``: within twice the interval of 95%,
    for the sample searches fewer documents."""
    has_effect = test.high > test.low or test.difference != 0
    return has_effect and abs(sought - test.difference) <= test.high - test.low


def _corrected(tests: Mapping[Setup, PairedTest]) -> dict[Setup, float]:
    return dict(zip(tests, holm([test.p for test in tests.values()]), strict=True))


@dataclass(frozen=True)
class _Measuring:
    """What evaluates a setup in one metric."""

    metric: str
    device: str | None

    def task(self, setup: Setup) -> Task:
        task: Task = tasks.create_on(setup.task, self.device)
        return task

    def encoder(self, setup: Setup) -> Encoder:
        encoder: Encoder = encoders.registry.create(setup.model, device=self.device)
        return encoder

    def similarity(self, setup: Setup, encoder: Encoder) -> Similarity:
        return encoder.similarity if setup.similarity is None else encoder.similarity_of(setup.similarity)

    def evaluate(self, setup: Setup, task: Task) -> Result:
        encoder = self.encoder(setup)
        request = Request(encoder, [self.similarity(setup, encoder)], [self.metric], setup.precision, alone=True)
        (result,) = task.evaluate(request)
        return result

    def differs(self, one: Setup, other: Setup) -> bool:
        """Whether the scores or the data of two setups can differ."""
        return self._decisive(one) != self._decisive(other)

    def _decisive(self, setup: Setup) -> tuple[str, str, str, str]:
        encoder = self.encoder(setup)
        scored = self.similarity(setup, encoder).spec
        return encoder.fingerprint(), encoder.computes_in(setup.precision), scored, str(tasks.parse(setup.task))

    def test(self, before: Result, after: Result) -> PairedTest:
        return paired_t_test(before.per_query[self.metric], after.per_query[self.metric])


@dataclass(frozen=True)
class _Sample:
    """Ids of some queries, and of the documents that are searched for them."""

    queries: Set[str]
    documents: Set[str]

    def of(self, task: Task) -> Task:
        """The task on the sample."""
        part = task.restricted(self.queries, self.documents)
        assert part is not None
        return part


def _sample(task: Task, before: Result, count: int) -> _Sample | None:
    """``count`` queries at random, with the first documents of each and the judged ones; ``None`` where the task cannot
    be restricted."""
    data = task.judged()
    if data is None:
        return None
    queries = random.Random(0).sample(data.query_ids, min(count, len(data.query_ids)))
    ranked = {query: before.run[query] for query in queries}
    first = (document for scores in ranked.values() for document in nlargest(TOP, scores, key=scores.__getitem__))
    judged = (document for query in queries for document in data.qrels.get(query, {}))
    return _Sample(set(queries), {*first, *judged})


def _changed(present: Setup, work: _Measuring, task: Task) -> Iterator[tuple[str, str, Setup]]:
    """Each change that the registries have: the setting, its value, the setup."""
    prompts = work.encoder(present).prompts
    given: list[tuple[str, str, Mapping[str, Any]]] = [
        *((f"{role} prompt", "none", {f"{role}_prompt": ""}) for role, prompt in prompts.items() if prompt),
        *(("pooling", pooling, {"pooling": pooling}) for pooling in POOLINGS),
        *(("maximum length", str(length), {"max_length": length}) for length in LENGTHS),
        *(("truncation side", side, {"truncation": side}) for side in ("left", "right")),
        *(("end token", "with" if end else "without", {"end_token": end}) for end in (True, False)),
    ]
    for name, value, params in given:
        if (spec := _with(encoders.registry, present.model, params)) is not None:
            yield name, value, replace(present, model=spec)
    of_data: list[tuple[str, str, Mapping[str, Any]]] = [
        ("titles", "joined", {"titles": True}),
        ("titles", "left out", {"titles": False}),
        ("documents with the query's id", "left out", {"ignore_identical_ids": True}),
        ("documents with the query's id", "searched", {"ignore_identical_ids": False}),
    ]
    for name, value, params in of_data:
        if (spec := _with(tasks, present.task, params)) is not None:
            yield name, value, replace(present, task=spec)
    for similarity in SIMILARITIES:
        yield "similarity", similarity, replace(present, similarity=similarity)
    for precision in PRECISIONS:
        yield "precision", precision, replace(present, precision=precision)


def _with(registry: Registry, text: str, params: Mapping[str, Any]) -> str | None:
    """The spec with other parameters; ``None`` if its entry has no such ones."""
    spec = registry.parse(text)
    known = {param.name for param in registry.entry(spec.name).params}
    return str(replace(spec, params={**spec.params, **params})) if params.keys() <= known else None
