"""Build a benchmark: send all items through the language model and write a folder.

Every answer of the model is stored in the answer cache before it is used. An interrupted build therefore resumes where
it stopped, and rerunning a finished build makes no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from retrokit import llm as llms
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.frames import flat, frame
from retrokit.core.notices import progress
from retrokit.core.outputs import check_apart, folder_in_the_making
from retrokit.core.registry import estimating
from retrokit.core.settings import taking
from retrokit.data.jsonl import COUNT, restored
from retrokit.data.records import PrintedRecord
from retrokit.llm.base import LLM, estimated_tokens
from retrokit.llm.prompts import OURS, PromptTemplate, wording_for
from retrokit.llm.session import run_all
from retrokit.llm.store import ResponseStore
from retrokit.sure.config import SureConfig
from retrokit.sure.folder import BenchmarkRows, check_output, write_folder
from retrokit.sure.items import Items
from retrokit.sure.prompts import SHAPES, load_prompts
from retrokit.sure.variants import STEPS, VariantMaker

if TYPE_CHECKING:
    from pandas import DataFrame

_IN_VAIN = 50
"""A build fails if none of its first N queries is in any testbed."""


_KIND = {**dict.fromkeys(("tried", "at_once", "after_retries", "dropped"), COUNT), "rejections": dict[str, COUNT]}
_RECORD = {"testbeds": {"*": {"kept": COUNT, "dropped": dict[str, COUNT]}}, "kinds": {"*": _KIND}}
"""What is read of a record."""


@dataclass(frozen=True)
class Built(PrintedRecord):
    """A finished build: the ``record`` of :mod:`retrokit.sure.folder`, and the ``counts`` of the session."""

    folder: Path
    record: Annotated[dict[str, Any], _RECORD]
    counts: Annotated[
        dict[str, int], dict.fromkeys(("calls", "from_store", "prompt_tokens", "completion_tokens"), COUNT)
    ]

    def to_json(self) -> dict[str, Any]:
        """The record, and the counts as ``calls``."""
        return {**self.record, "calls": self.counts}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Built:
        """What :meth:`to_json` gave, which does not contain the folder."""
        record = {name: value for name, value in plain.items() if name != "calls"}
        return restored(cls, {"folder": Path(), "record": record, "counts": plain.get("calls")})

    def to_frame(self) -> DataFrame:
        """A row for each kind of variant: how it went, and the statistics of its texts (SURE, Table 3)."""
        kinds, statistics = self.record["kinds"], self.record["statistics"]
        return frame(flat({"kind": kind, **kinds[kind], **statistics.get(kind, {})}) for kind in kinds)


def build(config: SureConfig, items: Items, llm: LLM, prompts: Mapping[str, PromptTemplate]) -> Built:
    """Build a benchmark of ``items`` into the folder ``config.output``.

    Raises:
        UsageError: the folder exists, or another build writes it.
        ServiceError, BudgetSpent: the model fails for good, no variant of any query (or of the first 50) passes, or the
            budget is used up. Answers stay in the answer cache.
        Interrupted: by Ctrl-C. Answers stay in the answer cache.
        DataError: a file cannot be written.
    """
    assert config.output is not None
    output, path = Path(config.output), Path(config.kept_in(config.output))
    check = partial(check_output, output, config.overwrite, [*config.inputs, path])
    check()
    check_apart(output, [path])
    used = _steps(config.chosen)
    if config.retries:
        used.append("retry")
    described = {
        "model": llm.identity,
        "sampling": config.sampling.to_json(),
        "seed": config.seed,
        "retries": config.retries,
        "language": config.language,
        "prompts": {name: prompts[name].digest for name in used},
        "wordings": {name: prompts[name].wording for name in used},
    }
    rows = BenchmarkRows(items, described, config.chosen, config.language)
    with folder_in_the_making(output, check) as unfinished, ResponseStore(path) as responses:

        async def work() -> dict[str, int]:
            async with config.session(llm, responses) as session:
                maker = VariantMaker(session, prompts, config.chosen, config.retries, config.seed, config.language)
                done, ahead = 0, max(2 * config.concurrency, 8)
                with progress("building", len(items.items), "queries") as advance:
                    async for variants in run_all(maker.make, items.items, limit=ahead):
                        rows.add(variants, prompts)
                        advance(1)
                        done += 1
                        if done in (_IN_VAIN, len(items.items)) and (why := rows.nothing()) is not None:
                            session.check()  # its message is better if everything was refused
                            what = f"the model made no variant that passes of {done:,} queries ({why})"
                            raise ServiceError(f"{what}; its answers are in {path}")
            return session.counts

        repeated_options = ["overwrite"] if config.overwrite else []
        with responses.going_on(*repeated_options):
            counts = asyncio.run(work())
        return Built(output, write_folder(unfinished, rows), counts)


def _steps(testbeds: Sequence[str]) -> list[str]:
    chains = chain.from_iterable(STEPS[testbed] for testbed in testbeds)
    return list(chain.from_iterable(chains))


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


def estimate(config: SureConfig, items: Items, prompts: Mapping[str, PromptTemplate]) -> Estimate:
    """Count the calls of a build and estimate its tokens, from the items and prompts only."""
    steps = _steps(config.chosen)
    prompted = written = 0
    for item in items.items:
        half = item.passage[: len(item.passage) // 2 + 1]  # about as long as what is not written yet
        item_texts = {"query": item.query, "passage": item.passage}
        for step in steps:
            prompt, fields = prompts[step], SHAPES[step].fields
            filled = prompt.fill(**{name: item_texts.get(name, half) for name in fields})
            prompted += estimated_tokens(prompt.system, filled)
            written += estimated_tokens(*prompt.words.values(), half if "marker" in prompt.words else None)
    calls = len(steps) * len(items.items)
    return Estimate(len(items.items), calls, calls * (config.retries + 1), prompted, written)


@taking(SureConfig)
@estimating()
def estimate_sure(config: SureConfig) -> Estimate:
    """Count the calls that a build would make and estimate its tokens. No model is called, and none need be named.

    Raises:
        UsageError, DataError: as :func:`build_sure` does before the first call.
    """
    llm = None if config.llm is None else llms.registry.create(config.llm)
    if config.output is not None:
        check_output(config.output, config.overwrite, config.inputs)
    return estimate(config, config.items(), load_prompts(config.prompts or wording_for(llm)))


@taking(SureConfig)
def build_sure(config: SureConfig) -> Built:
    """Build a benchmark: variants of each query's passage, verified (SURE 3.2).

    Raises:
        UsageError: wrong names; ``output`` exists, or another build writes it.
        DataError: a file that cannot be read or written.
        ServiceError: the model fails for good. Its answers stay in the answer cache.
        Interrupted: by Ctrl-C. Answers stay in the answer cache.
    """
    if config.llm is None or config.output is None:
        missing = "a language model: `llm=`" if config.llm is None else "the folder to write: `output=`"
        raise UsageError(f"name {missing} (or only count: `dry_run=`)")
    spec, prompts, items = llms.registry.parse(config.llm), load_prompts(config.prompts or OURS), config.items()
    llm = llms.registry.create(spec)
    return build(config, items, llm, load_prompts(wording_for(llm)) if config.prompts is None else prompts)
