"""What to build a SURE benchmark of, with which model, and how: the settings of ``build-sure``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from retrokit.core.errors import UsageError
from retrokit.core.settings import FILE, FOLDER, common, listed, setting
from retrokit.llm.settings import Asking

if TYPE_CHECKING:
    from retrokit.sure.items import Items


@dataclass(frozen=True)
class SureConfig(Asking):
    """A benchmark to build (SURE 3.2)."""

    first = (
        *("llm", "output", "split", "queries", "passages", "qrels", "testbeds", "limit", "prompts", "max_tokens"),
        *("seed", "dry_run"),
    )

    data: str | None = setting(
        None, "BEIR folder with judgements, or a BEIR set's name.", argument=True, metavar="DATA"
    )
    llm: str | None = setting(None, "Language model, e.g. openai:MODEL,url=ADDRESS.", names="llms")
    output: str | None = common("output", default=None, writes=FOLDER)
    split: str = setting("test", "Split whose queries are used.")
    queries: str | None = setting(None, "JSON lines of id, text, passage_id; replaces DATA.", reads=FILE)
    passages: str | None = setting(None, "JSON lines of id, text and optionally title.", reads=FILE)
    qrels: str | None = setting(None, "Judgements (BEIR or TREC) in place of passage_id.")
    testbeds: str = setting("precision,abstraction,equivalence", "Testbeds to build, comma-separated.")
    limit: int | None = setting(None, "Queries to try, drawn by the seed. Default: all.", minimum=1)
    retries: int = setting(2, "Retries of a rejected variant, with the reason.", minimum=0, maximum=100)
    prompts: str | None = setting(None, "ours, paper (SURE, A), few-shot, or a folder. Default: by model.")
    language: str = setting("en", "Language of the texts: en, de, zh …")
    seed: int = common("seed", help="Seed of queries, ties and key-sentence positions.")
    overwrite: bool = common("overwrite", help="Replace an existing benchmark.")

    @property
    def chosen(self) -> tuple[str, ...]:
        """The testbeds, in the order of :data:`retrokit.data.sure.TESTBEDS`."""
        from retrokit.data.sure import TESTBEDS

        return tuple(name for name in TESTBEDS if name in listed(self.testbeds))

    def problems(self) -> Iterator[str]:
        from retrokit.data.sure import TESTBEDS

        yield from super().problems()
        if unknown := [name for name in listed(self.testbeds) if name not in TESTBEDS]:
            yield f"`testbeds=` {', '.join(unknown)}: unknown testbed; expected some of {', '.join(TESTBEDS)}"

    @property
    def inputs(self) -> list[str]:
        """The paths that are read."""
        given = (self.data, self.queries, self.passages, self.qrels, self.prompts)
        return [path for path in given if path is not None]

    def items(self) -> Items:
        """The queries and their passages; raises :class:`UsageError` unless one source is given, and it whole."""
        from retrokit.sure.items import beir_items, jsonl_items

        if self.data is not None and (self.queries or self.passages or self.qrels):
            raise UsageError("give DATA, or `queries=` and `passages=`, not both")
        if self.data is not None:
            return beir_items(self.data, self.split, self.limit, self.seed)
        if not self.queries or not self.passages:
            raise UsageError("give a BEIR folder, or both `queries=` and `passages=`")
        return jsonl_items(self.queries, self.passages, self.qrels, self.limit, self.seed)
