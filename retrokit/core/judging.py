"""A page on which a person judges items: one self-contained HTML file.

All texts go into the page as data and reach the document as text, never as markup; the page's policy lets no other
script run than its own and nothing be loaded or sent. Verdicts stay in the browser until they are exported as JSON
lines.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any

Marked = list[tuple[bool, str]]
"""A text in pieces: whether the piece differs from the other text, and the piece."""


@dataclass(frozen=True)
class JudgedItem:
    """An item to judge.

    Attributes:
        row: what its line of verdicts has besides the verdict.
        query: shown as the heading, below its ``kind``; the ``requirement`` is below it.
        passage, variant: the texts that are compared; without a variant, the passage only.
    """

    key: str
    row: dict[str, Any]
    query: str
    passage: Marked
    variant: Marked = field(default_factory=list)
    kind: str = ""
    requirement: str = ""


@dataclass(frozen=True)
class PageWords:
    """The words of a page: its title, the heading of the passage, and the buttons; ``verdict`` is the field of a
    verdict."""

    title: str
    first: str
    yes: str
    no: str
    verdict: str


def judging_page(name: str, sample: str, items: Sequence[JudgedItem], words: PageWords) -> str:
    """The page as HTML. ``sample`` is the digest of the texts, which all verdicts name."""
    data = {"name": name, "sample": sample, "verdict": words.verdict, "items": [asdict(item) for item in items]}
    parts = resources.files("retrokit.core") / "page"
    style, script = ((parts / file).read_text("utf-8") for file in ("judging.css", "judging.js"))
    page = (parts / "judging.html").read_text("utf-8")
    filled = {
        **{key: html.escape(getattr(words, key)) for key in ("title", "first", "yes", "no")},
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
