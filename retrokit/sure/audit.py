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
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from retrokit.augmentation.draws import bits
from retrokit.data.files import writing
from retrokit.data.sure import ORIGINAL, TESTBEDS, SureData, read_sure
from retrokit.errors import UsageError
from retrokit.sure.prompts import Prompt

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
            parts = (item.query_id, item.kind, item.query, item.passage, item.variant)
            whole.update(json.dumps(parts).encode())
        return whole.hexdigest()[:12]


def draw_sample(folder: str | Path, count: int = 50, seed: int = 0) -> Sample:
    """All variants of ``count`` queries of a SURE folder (the release's, too), drawn by the seed.

    Queries that are in all testbeds come first, as in the paper, where each brings five variants.

    Raises:
        UsageError: ``count`` is below 1.
        DataError: no SURE folder.
    """
    if count < 1:
        raise UsageError(f"--sample is how many queries are drawn: at least 1, not {count}")
    data = read_sure(folder)
    kinds_of: dict[str, list[str]] = {}
    for testbed, queries in data.testbeds.items():
        for query in queries:
            kinds_of.setdefault(query, []).extend(kind for kind in TESTBEDS[testbed] if kind != ORIGINAL)
    drawn = sorted(kinds_of, key=lambda query: (-len(kinds_of[query]), bits(seed, "audit", query), query))[:count]
    return Sample(data.name, [_judgeable(data, query, kind) for query in drawn for kind in kinds_of[query]], len(drawn))


def _judgeable(data: SureData, query: str, kind: str) -> Judgeable:
    passage = data.originals[query]
    return Judgeable(query, kind, data.queries[query], data.passages[passage], data.variants[kind][passage])


def differences(passage: str, variant: str) -> tuple[Marked, Marked]:
    """The passage and the variant in pieces, each with whether the other lacks it there.

    >>> differences("A cat sat.", "A dog sat.")[1]
    [(False, 'A '), (True, 'dog'), (False, ' sat.')]
    """
    before, after = _TOKEN.findall(passage), _TOKEN.findall(variant)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    old: Marked = []
    new: Marked = []
    for operation, start, end, other_start, other_end in matcher.get_opcodes():
        _extend(old, operation != "equal", before[start:end])
        _extend(new, operation != "equal", after[other_start:other_end])
    return old, new


def _extend(pieces: Marked, differs: bool, tokens: Sequence[str]) -> None:
    text = "".join(tokens)
    if text and pieces and pieces[-1][0] == differs:
        pieces[-1] = (differs, pieces[-1][1] + text)
    elif text:
        pieces.append((differs, text))


def audit_page(sample: Sample, judge: Prompt) -> str:
    """The page as HTML; ``judge`` is the prompt that holds what a variant of each kind has to be."""
    items = []
    for item in sample.items:
        old, new = differences(item.passage, item.variant)
        items.append(
            {
                "query_id": item.query_id,
                "kind": item.kind,
                "requirement": judge.words[item.kind],
                "query": item.query,
                "passage": old,
                "variant": new,
            }
        )
    data = {"name": sample.name, "sample": sample.digest, "items": items}
    parts = resources.files("retrokit.sure") / "page"
    style, script = ((parts / name).read_text("utf-8") for name in ("audit.css", "audit.js"))
    page = (parts / "audit.html").read_text("utf-8")
    filled = {
        "title": html.escape(f"Audit of {sample.name}"),
        "policy": f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src {_source(script)}; style-src {_source(style)}",
        "style": style,
        "script": script,
        "data": _script_safe(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], page)


def _source(code: str) -> str:
    """How a content security policy names a piece of inline code that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def _script_safe(data: object) -> str:
    """JSON that can stand in a script element: nothing in it looks like markup."""
    text = json.dumps(data)  # ASCII alone
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_audit_page(path: str | Path, sample: Sample, judge: Prompt) -> None:
    """Write the page; raises :class:`DataError` if it cannot be written."""
    page = audit_page(sample, judge)
    with writing(path) as stream:
        stream.write(page)
