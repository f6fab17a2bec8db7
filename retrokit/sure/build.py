"""Building a benchmark: all items through the language model, and into a folder.

Everything the model answers is in a response store before it is used, so a build that is stopped in whatever way goes
on where it was, and a build that is done makes no call when it is done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.frames import flat, frame
from retrokit.core.notices import progress
from retrokit.core.outputs import check_apart, folder_in_the_making
from retrokit.data.sure import TESTBEDS
from retrokit.llm.base import LLM, Sampling, estimated_tokens
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.session import Session, check_limits, run_all
from retrokit.llm.store import ResponseStore, default_store
from retrokit.sure.folder import BenchmarkRows, check_output, write_folder
from retrokit.sure.items import Items
from retrokit.sure.prompts import SHAPES
from retrokit.sure.variants import STEPS, VariantMaker

if TYPE_CHECKING:
    from pandas import DataFrame

_SAMPLING = Sampling(max_tokens=4096)  # room for an expanded passage, and for a reasoning model's thoughts

_IN_VAIN = 50
"""After so many queries that are in no testbed a model is given up."""


@dataclass(frozen=True)
class BuildSettings:
    """What decides the benchmark besides items, prompts and model.

    Attributes:
        testbeds: keys of :data:`retrokit.data.sure.TESTBEDS`, in that order.
        retries: how often a rejected variant is made again, with the reason.
        seed: of the positions of key sentences among noise.
        language: of the texts, for cutting them into sentences: an ISO 639 code.
    """

    testbeds: tuple[str, ...] = tuple(TESTBEDS)
    retries: int = 2
    seed: int = 0
    language: str = "en"
    sampling: Sampling = _SAMPLING

    def __post_init__(self) -> None:
        unknown = [name for name in self.testbeds if name not in TESTBEDS]
        if unknown or not self.testbeds:
            what = f"unknown testbed {', '.join(map(repr, unknown))}" if unknown else "no testbed is named"
            raise UsageError(f"{what}; the testbeds are {', '.join(TESTBEDS)}")
        if not 0 <= self.retries <= 100:
            what = "`retries=` is how often a rejected variant is made again"
            raise UsageError(f"{what}: at least 0 and at most 100, not {self.retries}")
        object.__setattr__(self, "testbeds", tuple(name for name in TESTBEDS if name in self.testbeds))


@dataclass(frozen=True)
class Built:
    """What was built: the ``record`` of :mod:`retrokit.sure.folder`, and what it took (``counts`` of the session)."""

    folder: Path
    record: dict[str, Any]
    counts: dict[str, int]

    def to_frame(self) -> DataFrame:
        """A row for each kind of variant: how it went, and the statistics of its texts (SURE, Table 3)."""
        kinds, statistics = self.record["kinds"], self.record["statistics"]
        return frame(flat({"kind": kind, **kinds[kind], **statistics.get(kind, {})}) for kind in kinds)


def build(
    items: Items,
    llm: LLM,
    output: str | Path,
    *,
    prompts: Mapping[str, PromptTemplate],
    settings: BuildSettings = BuildSettings(),
    store: str | Path | None = None,
    concurrency: int = 16,
    max_tokens: int | None = None,
    overwrite: bool = False,
    inputs: Sequence[str | Path] = (),
) -> Built:
    """Build a benchmark of ``items`` into the folder ``output``.

    Args:
        store: file of the responses; several builds may share one. Default: beside ``output``, NAME.answers.sqlite.
        concurrency: calls at once.
        max_tokens: budget of prompts and answers together.
        overwrite: replace a benchmark that was built there before.
        inputs: what ``items`` and ``prompts`` were read from; a benchmark that one lies in is not replaced.

    Raises:
        UsageError: ``output`` exists, or another build writes it.
        ServiceError, BudgetSpent: the model fails for good, makes no variant that passes of any query (or of the first
            50), or the budget is used up; answers are kept in the store.
        Interrupted: by Ctrl-C; answers are kept.
        DataError: a file cannot be written.
    """
    check_limits(concurrency, max_tokens)
    output, sampling = Path(output), settings.sampling
    path = default_store(output) if store is None else Path(store)
    check = partial(check_output, output, overwrite, [*inputs, path])
    check()
    check_apart(output, [path])
    used = [*_steps(settings.testbeds), *(["retry"] if settings.retries else [])]
    described = {
        "model": llm.identity,
        "sampling": asdict(sampling),
        "seed": settings.seed,
        "retries": settings.retries,
        "language": settings.language,
        "prompts": {name: prompts[name].digest for name in used},
        "wordings": {name: prompts[name].wording for name in used},
    }
    rows = BenchmarkRows(items, described, settings.testbeds, settings.language)
    with folder_in_the_making(output, check) as unfinished, ResponseStore(path) as responses:

        async def work() -> dict[str, int]:
            session = Session(llm, responses, concurrency=concurrency, max_tokens=max_tokens, sampling=sampling)
            async with session:
                about = settings.testbeds, settings.retries, settings.seed, settings.language
                maker = VariantMaker(session, prompts, *about)
                done = 0
                with progress("building", len(items.items), "queries") as advance:
                    async for variants in run_all(maker.make, items.items, limit=max(2 * concurrency, 8)):
                        rows.add(variants, prompts)
                        advance(1)
                        done += 1
                        if done in (_IN_VAIN, len(items.items)) and (why := rows.nothing()) is not None:
                            session.check()  # says it better where everything was refused
                            what = f"the model made no variant that passes of {done:,} queries ({why})"
                            raise ServiceError(f"{what}; its answers are kept in {path}")
            return session.counts

        with responses.going_on(*(["overwrite"] if overwrite else [])):
            counts = asyncio.run(work())
        return Built(output, write_folder(unfinished, rows), counts)


def _steps(testbeds: Sequence[str]) -> list[str]:
    return [step for testbed in testbeds for chain in STEPS[testbed] for step in chain]


_STAND_INS = {"key-sentences": 0.4, "summary": 0.5, "paraphrase": 1.1}
"""Lengths of what is not written yet, as shares of its passage's: about those of the published sets."""
_WRITTEN = {"noise": 160, "expansion": 280}
"""Characters that a model adds of its own, there."""


@dataclass(frozen=True)
class Estimate:
    """What a build takes, if every answer is right at once, and at the most.

    Attributes:
        calls, most_calls: without and with all retries.
        prompt_tokens, completion_tokens: about, without retries and without what a reasoning model thinks.
    """

    queries: int
    calls: int
    most_calls: int
    prompt_tokens: int
    completion_tokens: int


def estimate(
    items: Items, prompts: Mapping[str, PromptTemplate], settings: BuildSettings = BuildSettings()
) -> Estimate:
    """Count the calls of a build and estimate its tokens, from the items and prompts alone."""
    steps = _steps(settings.testbeds)
    prompted = written = 0
    for item in items.items:
        length, double = len(item.passage), item.passage * 2
        texts = {kind: double[: max(1, round(share * length))] for kind, share in _STAND_INS.items()}
        given = {"query": item.query, "passage": item.passage, "sentences": texts["key-sentences"], **texts}
        answers = {
            **{"key-sentences": texts["key-sentences"], "pronouns": texts["key-sentences"]},
            **{"noise": "x" * _WRITTEN["noise"], "summary": texts["summary"]},
            **{"expansion": item.passage + "x" * _WRITTEN["expansion"], "paraphrase": item.query + texts["paraphrase"]},
        }
        for step in steps:
            prompt = prompts[step]
            fields = {name: given[name] for name in SHAPES[step].fields}
            if step == "verify-paraphrase":
                fields["passage"] = texts["paraphrase"]
            prompted += estimated_tokens(prompt.system, prompt.fill(**fields))
            written += estimated_tokens(" ".join([*prompt.words.values(), answers.get(step, "")]))
    calls = len(steps) * len(items.items)
    return Estimate(len(items.items), calls, calls * (settings.retries + 1), prompted, written)
