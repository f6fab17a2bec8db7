"""A language model as one of the annotators of a sample (SURE, 4.1: the paper's M)."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrokit.core.errors import ServiceError
from retrokit.core.notices import progress
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.data.jsonl import write_jsonl
from retrokit.llm.answers import Rejected, read_verdict
from retrokit.llm.base import LLM, Completion, Sampling
from retrokit.llm.dialogue import ask_until
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.session import Session, check_limits, run_all
from retrokit.llm.store import ResponseStore
from retrokit.sure.audit import Judgeable, Sample


@dataclass(frozen=True)
class Judged:
    """What a model said: how many variants it called qualified and unqualified, and on how many it said neither."""

    qualified: int
    unqualified: int
    without_verdict: int
    counts: dict[str, int]


def judge_sample(
    sample: Sample,
    llm: LLM,
    output: str | Path,
    *,
    prompts: Mapping[str, PromptTemplate],
    store: str | Path,
    sampling: Sampling,
    concurrency: int,
    annotator: str | None = None,
    max_tokens: int | None = None,
    retries: int = 2,
) -> Judged:
    """Have a model judge a sample, and write its verdicts as the audit page exports them.

    Args:
        annotator: the name that the verdicts bear; default: the model's.
        store, concurrency, max_tokens: as for :func:`retrokit.sure.build.build`.
        retries: how often a model is asked again that says neither yes nor no; then the variant is left out.

    Raises:
        ServiceError, BudgetSpent, Interrupted: what was answered is in the store. A model that says neither yes nor no
            to anything has failed.
        DataError: a file cannot be written.
    """
    check_limits(concurrency, max_tokens)
    check_outputs([(output, FILE), (store, FILE)], [])
    prompt = prompts["judge"]
    name = annotator or llm.identity
    verdicts: Counter[bool | None] = Counter()
    rows: list[dict[str, Any]] = []
    with ResponseStore(store) as responses:

        async def work() -> dict[str, int]:
            session = Session(llm, responses, concurrency=concurrency, max_tokens=max_tokens, sampling=sampling)

            def said(completion: Completion) -> bool:
                return read_verdict(completion.text, prompt.words["yes"], prompt.words["no"])

            async def one(item: Judgeable) -> bool | None:
                texts = {"query": item.query, "passage": item.passage, "variant": item.variant}
                fields = {**texts, "requirement": prompt.words[item.kind]}
                try:
                    return await ask_until(session, prompt, prompts["retry"], retries, said, **fields)
                except Rejected:
                    return None

            async with session:
                with progress("judging", len(sample.items), "variants") as advance:
                    waiting = iter(sample.items)
                    async for verdict in run_all(one, sample.items, limit=max(2 * concurrency, 8)):
                        item = next(waiting)
                        verdicts[verdict] += 1
                        if verdict is not None:
                            judged = {"query": item.query_id, "kind": item.kind, "qualified": verdict}
                            rows.append({**judged, "annotator": name, "sample": sample.digest})
                        advance(1)
            return session.counts

        with responses.going_on():
            counts = asyncio.run(work())
    if not rows:
        raise ServiceError(
            f"the model gave no verdict on any of {len(sample.items):,} variants; see its answers in {store}"
        )
    write_jsonl(output, rows)
    return Judged(verdicts[True], verdicts[False], verdicts[None], counts)
