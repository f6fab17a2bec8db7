"""A sample of a benchmark for people to judge: one self-contained HTML page (SURE, 4.1).

All texts go into the page as data and reach the document as text, never as markup; the page's policy lets no other
script run than its own and nothing be loaded or sent. Verdicts stay in the browser until they are exported as JSON
lines.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import html
import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from importlib import resources
from itertools import groupby
from pathlib import Path

from retrokit.augmentation.draws import bits
from retrokit.core.errors import UsageError
from retrokit.core.files import writing
from retrokit.core.notices import progress
from retrokit.data.sure import kinds_of, read_sure
from retrokit.llm.prompts import PromptTemplate

_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")

COMPARED = 40_000
"""Tokens of one text times those of the other up to which a stretch is compared token by token."""

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

    Long texts are compared between the words that both have once (patience diff); a stretch without such a word that is
    too long to compare differs as a whole.

    >>> differences("A cat sat.", "A dog sat.")[1]
    [(False, 'A '), (True, 'dog'), (False, ' sat.')]
    """
    before, after = _TOKEN.findall(passage), _TOKEN.findall(variant)
    old, new = [], []
    start = other = 0
    for before_at, after_at, size in [*_matches(before, after), (len(before), len(after), 0)]:
        old += [(True, before[start:before_at]), (False, before[before_at : before_at + size])]
        new += [(True, after[other:after_at]), (False, after[after_at : after_at + size])]
        start, other = before_at + size, after_at + size
    return _joined(old), _joined(new)


def _joined(pieces: Iterable[tuple[bool, list[str]]]) -> Marked:
    """Neighbours of a kind in one."""
    kinds = groupby(((differs, "".join(tokens)) for differs, tokens in pieces if tokens), lambda piece: piece[0])
    return [(differs, "".join(text for _, text in same)) for differs, same in kinds]


def _matches(before: Sequence[str], after: Sequence[str], depth: int = 3) -> Iterator[tuple[int, int, int]]:
    """Where stretches of ``before`` stand in ``after``, in order: both places, and how many tokens."""
    anchors = _anchors(before, after) if depth else []
    if not anchors:
        yield from _compared(before, after)
        return
    start = other = 0  # of what no stretch has yet
    for before_at, after_at in [*anchors, (len(before), len(after))]:
        if before_at < start:  # the stretch around an anchor before it holds it
            continue
        size = _alike(before, after, range(before_at - 1, start - 1, -1), range(after_at - 1, other - 1, -1))
        for a, b, length in _matches(before[start : before_at - size], after[other : after_at - size], depth - 1):
            yield start + a, other + b, length
        more = _alike(before, after, range(before_at, len(before)), range(after_at, len(after)))
        yield before_at - size, after_at - size, size + more
        start, other = before_at + more, after_at + more


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """The same of texts that have no anchor: how they begin, how they end, and, if it is not too long, between."""
    head = _alike(before, after, range(len(before)), range(len(after)))
    tail = _alike(before, after, range(len(before) - 1, head - 1, -1), range(len(after) - 1, head - 1, -1))
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    yield 0, 0, head
    if len(left) * len(right) <= COMPARED:
        for a, b, size in difflib.SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
            yield head + a, head + b, size
    yield len(before) - tail, len(after) - tail, tail


def _alike(before: Sequence[str], after: Sequence[str], before_range: range, after_range: range) -> int:
    """How many tokens are the same from the start of both ranges on."""
    differing = (
        count for count, (i, j) in enumerate(zip(before_range, after_range, strict=False)) if before[i] != after[j]
    )
    return next(differing, min(len(before_range), len(after_range)))


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """Where the tokens stand that both texts have once: the longest series that is in order in both."""
    once = [_once(side) for side in (before, after)]
    pairs = [(place, once[1][token]) for token, place in once[0].items() if token in once[1]]
    # the last pairs of series of each length, and the pair before each (Fredman, "On computing the length of longest
    # increasing subsequences", 1975)
    ends: list[int] = []
    lasts: list[int] = []
    previous: list[int] = []
    for number, (_, there) in enumerate(pairs):
        length = bisect_left(ends, there)
        ends[length : length + 1], lasts[length : length + 1] = [there], [number]
        previous.append(lasts[length - 1] if length else -1)
    series = []
    number = lasts[-1] if lasts else -1
    while number >= 0:
        series.append(pairs[number])
        number = previous[number]
    return series[::-1]


def _once(tokens: Sequence[str]) -> dict[str, int]:
    """Where each token stands that comes once, in their order."""
    counts = Counter(tokens)
    return {token: place for place, token in enumerate(tokens) if counts[token] == 1}


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
        "data": _script_safe(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], page)


def code_source(code: str) -> str:
    """How a content security policy names a piece of inline code that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def _script_safe(data: object) -> str:
    """JSON that can stand in a script element: nothing in it looks like markup."""
    text = json.dumps(data)  # ASCII alone
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_audit_page(path: str | Path, sample: Sample, judge: PromptTemplate) -> None:
    """Write the page; raises :class:`DataError` if it cannot be written."""
    page = audit_page(sample, judge)
    with writing(path) as stream:
        stream.write(page)
