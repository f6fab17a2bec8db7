"""A sample of a benchmark for people to judge: one self-contained HTML page (SURE, 4.1).

All texts go into the page as data and reach the document as text, never as markup; the page's policy lets no other
script run than its own and nothing be loaded or sent. Verdicts stay in the browser until they are exported as JSON
lines.
"""

import asyncio
import base64
import difflib
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from retrokit.augmentation.draws import bits
from retrokit.core.errors import ServiceError, UsageError
from retrokit.core.files import writing
from retrokit.core.notices import progress
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.data.jsonl import write_jsonl
from retrokit.data.sure import kinds_of, read_sure
from retrokit.llm.answers import Rejected, read_verdict
from retrokit.llm.base import LLM, Completion, Sampling
from retrokit.llm.dialogue import ask_until
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.session import Session, check_limits, run_all
from retrokit.llm.store import ResponseStore

_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")

Marked = list[tuple[bool, str]]
"""A text in pieces: whether the piece differs from the other text, and the piece."""


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
        whole = hashlib.sha256()
        for item in self.items:
            whole.update(json.dumps(astuple(item)).encode())
        return whole.hexdigest()[:12]


def draw_sample(folder: str | Path, count: int = 50, seed: int = 0) -> Sample:
    """All variants of ``count`` queries of a SURE folder (the release's, too), drawn by the seed.

    Queries that are in all testbeds come first, as in the paper, where each brings five variants.

    Raises:
        UsageError: ``count`` is below 1.
        DataError: no SURE folder.
    """
    if count < 1:
        raise UsageError(f"`sample=` is how many queries are drawn: at least 1, not {count}")
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


def write_audit_page(path: str | Path, sample: Sample, judge: PromptTemplate) -> None:
    """Write the page; raises :class:`DataError` if it cannot be written. For ``judge`` see :func:`audit_page`."""
    page = audit_page(sample, judge)
    with writing(path) as stream:
        stream.write(page)


def audit_page(sample: Sample, judge: PromptTemplate) -> str:
    """The page as HTML; ``judge`` is the prompt that holds what a variant of each kind has to be."""
    items = []
    with progress("comparing", len(sample.items), "variants") as advance:
        for item in sample.items:
            old, new = differences(item.passage, item.variant)
            about = {"query_id": item.query_id, "kind": item.kind, "requirement": judge.words[item.kind]}
            items.append({**about, "query": item.query, "passage": old, "variant": new})
            advance(1)
    data = {"name": sample.name, "sample": sample.digest, "items": items}
    parts = resources.files("retrokit.sure") / "page"
    style, script = ((parts / name).read_text("utf-8") for name in ("audit.css", "audit.js"))
    page = (parts / "audit.html").read_text("utf-8")
    filled = {
        "title": html.escape(f"Audit of {sample.name}"),
        "policy": f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src {code_source(script)}; style-src {code_source(style)}",
        "style": style,
        "script": script,
        # nothing in it looks like markup
        "data": json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], page)


def code_source(code: str) -> str:
    """How a content security policy names a piece of inline code that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


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
