"""How a language model is asked, for Python and on the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrokit.core.errors import UsageError
from retrokit.core.settings import FILE, Settings, setting

if TYPE_CHECKING:
    from retrokit.llm.base import Sampling


@dataclass(frozen=True)
class PromptShape:
    """What a prompt has to contain: its fields, and the words that its answer is recognised by."""

    fields: tuple[str, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asking(Settings):
    """How a language model is asked."""

    _: KW_ONLY
    temperature: float = setting(0.0, "Temperature of sampling; 0 takes the likeliest token each time.", minimum=0)
    answer_tokens: int = setting(4096, "Longest answer in tokens, what a reasoning model thinks included.")
    store: str | None = setting(
        None,
        "File that keeps every answer; several commands may share one. Default: OUTPUT.answers.sqlite.",
        writes=FILE,
    )
    concurrency: int = setting(16, "Calls at once.", minimum=1, maximum=1024)
    max_tokens: int | None = setting(
        None, "Stop before prompts and answers exceed this many tokens. Default: no limit.", minimum=1, maximum=2**53
    )

    def kept_in(self, output: str) -> str | Path:
        """The file of the answers for what is written to ``output``. Raises :class:`UsageError` where that is standard
        output and ``store`` names none."""
        from retrokit.llm.store import default_store

        if self.store is None and output == "-":
            raise UsageError("with `output=` - name the file that keeps the answers: `store=`")
        return default_store(output) if self.store is None else self.store

    @property
    def sampling(self) -> Sampling:
        """Of each answer."""
        from retrokit.llm.base import Sampling

        return Sampling(temperature=self.temperature, max_tokens=self.answer_tokens)
