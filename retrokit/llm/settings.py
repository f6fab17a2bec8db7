"""How a language model is called, in Python and on the command line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrokit.core.errors import UsageError
from retrokit.core.settings import FILE, Settings, common, setting

if TYPE_CHECKING:
    from retrokit.llm.base import LLM, Sampling
    from retrokit.llm.session import Session
    from retrokit.llm.store import ResponseStore


@dataclass(frozen=True)
class Asking(Settings):
    """How a language model is called."""

    _: KW_ONLY
    temperature: float = setting(0.0, "Sampling temperature; 0 takes the likeliest token.", minimum=0, maximum=100)
    answer_tokens: int = setting(4096, "Longest answer in tokens, reasoning included.", minimum=1, maximum=10_000_000)
    store: str | None = setting(None, "Answer cache to share. Default: OUTPUT.answers.sqlite.", writes=FILE)
    concurrency: int = common("concurrency")
    max_tokens: int | None = common("max_tokens")

    def kept_in(self, output: str) -> str | Path:
        """The file of the answers for what is written to ``output``. Raises :class:`UsageError` where that is standard
        output and ``store`` names none."""
        from retrokit.llm.store import default_store

        if self.store is None and output == "-":
            raise UsageError("with `output=` - name the file that keeps the answers: `store=`")
        return default_store(output) if self.store is None else self.store

    def session(self, llm: LLM, store: ResponseStore) -> Session:
        """A session with these settings."""
        from retrokit.llm.session import Session

        return Session(llm, store, sampling=self.sampling, concurrency=self.concurrency, max_tokens=self.max_tokens)

    @property
    def sampling(self) -> Sampling:
        """Of each answer."""
        from retrokit.llm.base import Sampling

        return Sampling(temperature=self.temperature, max_tokens=self.answer_tokens)
