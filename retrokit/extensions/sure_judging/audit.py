"""A sample of a benchmark for people to judge, on an HTML page (SURE, 4.1)."""

import asyncio
import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from retrokit.augmentation.draws import bits
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.files import writing
from retrokit.core.judging import JudgedItem, Marked, PageWords, judging_page
from retrokit.core.notices import progress
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.data.jsonl import write_jsonl
from retrokit.data.sure import kinds_of, read_sure
from retrokit.extensions.sure_judging.settings import JudgeConfig
from retrokit.llm.answers import Rejected, read_verdict
from retrokit.llm.base import LLM, Completion
from retrokit.llm.prompts import OURS, PromptTemplate
from retrokit.llm.session import run_all
from retrokit.llm.store import ResponseStore
from retrokit.sure.prompts import PAPER, load_prompts

_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True)
class Judgeable:
    """A variant to judge: whether it is what a variant of its kind has to be."""

    query_id: str
    kind: str
    query: str
    passage: str
    variant: str


@dataclass(frozen=True)
class Sample:
    """Variants of some queries, in the order they are judged.

    Attributes:
        name: of the benchmark.
        digest: of the texts and kinds; verdicts name it, so that verdicts on other texts are not compared with them.
        queries: how many the variants are of.
    """

    name: str
    items: list[Judgeable]
    queries: int

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits."""
        digest = hashlib.sha256()
        for item in self.items:
            digest.update(json.dumps(astuple(item)).encode())
        return digest.hexdigest()[:12]


def draw_sample(folder: str | Path, count: int = 50, seed: int = 0) -> Sample:
    """All variants of ``count`` queries of a SURE folder (the release's, too), drawn by the seed.

    Queries that are in all testbeds come first, as in the paper, where each brings five variants.

    Raises:
        DataError: no SURE folder.
    """
    data = read_sure(folder)
    kinds: dict[str, list[str]] = {}
    for testbed, queries in data.testbeds.items():
        for query in queries:
            kinds.setdefault(query, []).extend(kinds_of([testbed]))
    drawn = sorted(kinds, key=lambda query: (-len(kinds[query]), bits(seed, "audit", query), query))[:count]
    items = []
    for query in drawn:
        passage = data.originals[query]
        texts = data.queries[query], data.passages[passage]
        items += [Judgeable(query, kind, *texts, data.variants[kind][passage]) for kind in kinds[query]]
    return Sample(data.name, items, len(drawn))


def differences(passage: str, variant: str) -> tuple[Marked, Marked]:
    """The passage and the variant in pieces, each with whether the other lacks it there.

    >>> differences("A cat sat.", "A dog sat.")[1]
    [(False, 'A '), (True, 'dog'), (False, ' sat.')]
    """
    before, after = _TOKEN.findall(passage), _TOKEN.findall(variant)
    old: Marked = []
    new: Marked = []
    for tag, start, end, other_start, other_end in difflib.SequenceMatcher(None, before, after).get_opcodes():
        for pieces, tokens in ((old, before[start:end]), (new, after[other_start:other_end])):
            if tokens and pieces and pieces[-1][0] == (tag != "equal"):  # the other text has something in between
                pieces[-1] = (tag != "equal", pieces[-1][1] + "".join(tokens))
            elif tokens:
                pieces.append((tag != "equal", "".join(tokens)))
    return old, new


def judge_prompts(folder: str | Path | None = None) -> dict[str, PromptTemplate]:
    """Ours, or those of ``folder`` in their place; raises as :func:`load_prompts`, and :class:`UsageError` for the
    paper's wording, which has none for judging."""
    if folder == PAPER:
        raise UsageError("`prompts=` paper: SURE gives no wording for judging; leave it out, or name a folder")
    return load_prompts(OURS if folder is None else folder)


def write_audit_page(path: str | Path, sample: Sample, judge: PromptTemplate) -> None:
    """Write the page; raises :class:`DataError` if it cannot be written. For ``judge`` see :func:`audit_page`."""
    page = audit_page(sample, judge)
    with writing(path) as stream:
        stream.write(page)


def audit_page(sample: Sample, judge: PromptTemplate) -> str:
    """The page as HTML. ``judge`` is the prompt whose ``words`` state the requirement for each kind of variant."""
    items = []
    with progress("comparing", len(sample.items), "variants") as advance:
        for item in sample.items:
            old, new = differences(item.passage, item.variant)
            row, key = {"query": item.query_id, "kind": item.kind}, f"{item.query_id}#{item.kind}"
            items.append(JudgedItem(key, row, item.query, old, new, item.kind, judge.words[item.kind]))
            advance(1)
    words = PageWords(f"Audit of {sample.name}", "Passage", "qualified", "unqualified", "qualified")
    return judging_page(sample.name, sample.digest, items, words)


@dataclass(frozen=True)
class Judged:
    """Verdicts of a model: numbers of variants judged qualified, judged unqualified, and without a verdict."""

    qualified: int
    unqualified: int
    without_verdict: int
    counts: dict[str, int]


def judge_sample(config: JudgeConfig, llm: LLM, prompts: Mapping[str, PromptTemplate]) -> Judged:
    """Have a model judge a sample, and write its verdicts as the audit page exports them. A variant on which it gives
    no verdict after two more requests is left out.

    Raises:
        ServiceError, BudgetSpent, Interrupted: the answers so far are in the answer cache. A model that gives no
            verdict at all has failed.
        DataError: a file cannot be written.
    """
    sample, store = draw_sample(config.folder, config.sample, config.seed), config.kept_in(config.output)
    check_outputs([(config.output, FILE), (store, FILE)], [])
    prompt = prompts["judge"]
    with ResponseStore(store) as responses:

        async def work() -> tuple[list[bool | None], dict[str, int]]:

            def verdict(completion: Completion) -> bool:
                return read_verdict(completion.text, prompt.words["yes"], prompt.words["no"])

            async def judged(item: Judgeable) -> bool | None:
                texts = {"query": item.query, "passage": item.passage, "variant": item.variant}
                fields = {**texts, "requirement": prompt.words[item.kind]}
                try:
                    return await session.ask_until(prompt, prompts["retry"], 2, verdict, **fields)
                except Rejected:
                    return None

            verdicts = []
            async with config.session(llm, responses) as session:
                with progress("judging", len(sample.items), "variants") as advance:
                    async for result in run_all(judged, sample.items, limit=max(2 * config.concurrency, 8)):
                        verdicts.append(result)
                        advance(1)
            return verdicts, session.counts

        with responses.going_on():
            verdicts, counts = asyncio.run(work())
    annotator, digest = config.annotator or llm.identity, sample.digest
    rows = []
    for item, verdict in zip(sample.items, verdicts, strict=True):
        if verdict is not None:
            row = {"query": item.query_id, "kind": item.kind, "qualified": verdict}
            rows.append({**row, "annotator": annotator, "sample": digest})
    if not rows:
        problem = f"the model gave no verdict on any of {len(sample.items):,} variants"
        raise ServiceError(f"{problem}; see its answers in {store}")
    write_jsonl(config.output, rows)
    return Judged(verdicts.count(True), verdicts.count(False), verdicts.count(None), counts)
