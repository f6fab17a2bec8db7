"""What queries of a corpus are asked for, and the record of what came of it."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from retrokit.augmentation.settings import FLAGS, OUTPUT
from retrokit.core.settings import FILE, listed, setting
from retrokit.llm.settings import Asking, PromptShape

NONE = "none"
TYPES = ("keywords", "question", "claim", "how-to", "situation")
SHAPES = {
    **dict.fromkeys(TYPES, PromptShape(("passage",), ("marker", "none"))),
    "judge": PromptShape(("query", "passage"), ("marker",)),
    "retry": PromptShape(("reason",)),
}
"""The prompts by name; each is a file NAME.toml."""

CAUSES = {
    "none": "the model says that the passage has none",
    "refused": "the model does not take the prompt",
    "off_format": "the answer is not in the form that was asked for",
    "cut_off": "the answer is cut off at its longest",
    "too_long": "longer than any query",
    "copied": "a sentence of the passage",
    "refers": "it speaks of the passage, which nobody who asks has seen",
    "existing": "among the existing queries",
    "repeated": "written before, of this passage or another",
    "round_trip": "the search does not bring the passage back",
    "low_grade": "the judge's grade is too low",
    "no_grade": "the judge gives no grade",
}
"""Why a query is dropped, by the name that it is counted under, in the order of the filters."""


@dataclass(frozen=True)
class QuerySettings(Asking):
    """Queries for which passages, by which model, and what they have to stand."""

    source: str = setting(
        help="Passages: JSON lines of id, text and optionally title, .gz too; a BEIR folder; - is standard input.",
        argument=True,
        metavar="CORPUS",
    )
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    llm: str = setting(help="Language model that writes the queries, e.g. openai:MODEL,url=ADDRESS.")
    types: Sequence[str] = setting(
        ",".join(TYPES), "Types of queries, each passage one of each, with commas between.", read=listed
    )
    searcher: str = setting(
        "minilm",
        "Encoder, or another searcher such as bm25, that has to bring the passage back; none: no round trip.",
        flags=("--encoder",),
    )
    k: int = setting(10, "How many first hits the passage has to be among.", flags=("-k",), minimum=1)
    negatives: int = setting(
        0, "Hard negatives of a query: the best hits that score below its passage.", minimum=0, maximum=1000
    )
    judge: str | None = setting(
        None, "Language model that grades query and passage from 0 to 3; none: no grades. Default: the one that writes."
    )
    grade: int = setting(2, "Lowest grade that is kept.", minimum=0, maximum=3)
    existing: Sequence[str] = setting(
        (), "Queries that are not to be made again: JSON lines or TSV of id and text, or a BEIR folder. Repeatable."
    )
    limit: int | None = setting(None, "Passages to write queries for, drawn by the seed. Default: all.", minimum=1)
    retries: int = setting(
        2, "How often a rejected answer is asked for again, with the reason.", minimum=0, maximum=100
    )
    prompts: str = setting("ours", "Wording: ours, or a folder whose NAME.toml take the place of ours.")
    seed: int = setting(0, "Seed of the passages that `limit=` draws.", minimum=0)
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if unknown := [name for name in self.types if name not in TYPES]:
            yield f"`types=` {', '.join(unknown)}: no such type of query; the types are {', '.join(TYPES)}"
        elif len(set(self.types)) < len(self.types):
            yield "`types=`: a type is named twice"
        if self.searcher == NONE and self.negatives:
            yield "`negatives=` are hits of the round trip, which `encoder=` none leaves out"


@dataclass
class TypeCounts:
    """Of one type: how many queries were asked for and kept, and a key of :data:`CAUSES` → how many were dropped."""

    asked: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class WrittenQueries:
    """What was written.

    Attributes:
        output: the file.
        counts: ``passages`` (asked about), ``passages_without_text``, ``passages_repeated``, ``passages_with_queries``.
        types: what became of the queries of each type.
        rejections: a key of :data:`CAUSES` → answers that were rejected, those included that a further answer mended.
        calls: what the models were asked, and tokens (:attr:`retrokit.llm.session.Session.counts`).
    """

    output: str
    counts: Mapping[str, int]
    types: Mapping[str, TypeCounts]
    rejections: Mapping[str, int]
    calls: Mapping[str, int]

    @property
    def kept(self) -> int:
        """How many queries were kept."""
        return sum(type_counts.kept for type_counts in self.types.values())

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        types = {name: {**vars(counts), "dropped": dict(counts.dropped)} for name, counts in self.types.items()}
        return {**vars(self), "types": types, "kept": self.kept}

    def summary(self) -> list[str]:
        """What came of it: a line for all, one for each type, and one for what it took."""
        counts, calls = self.counts, self.calls
        requested = sum(type_counts.asked for type_counts in self.types.values())
        whole = f"{self.kept:,} of {requested:,} queries kept, of {counts['passages_with_queries']:,} of "
        whole += f"{counts['passages']:,} passages"
        for name, why in (("without_text", "without text"), ("repeated", "repeated")):
            whole += f"; {counts[f'passages_{name}']:,} {why}, left out" if counts[f"passages_{name}"] else ""
        lines = [whole]
        for name, type_counts in self.types.items():
            why = listed_causes(type_counts.dropped)
            lines.append(f"{name}: {type_counts.kept:,} of {type_counts.asked:,}{f' ({why})' if why else ''}")
        if self.rejections:
            lines.append(f"{sum(self.rejections.values()):,} answers were rejected ({listed_causes(self.rejections)})")
        tokens = calls["prompt_tokens"] + calls["completion_tokens"]
        lines.append(f"{calls['calls']:,} calls ({tokens:,} tokens), {calls['from_store']:,} answers from the store")
        return lines


def listed_causes(counts: Mapping[str, int]) -> str:
    """How many for each cause, in the order of :data:`CAUSES`."""
    return "; ".join(f"{counts[cause]:,}: {CAUSES[cause]}" for cause in CAUSES if counts.get(cause))
