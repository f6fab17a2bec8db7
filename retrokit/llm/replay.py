"""Recorded answers in place of a model: what a run with ``replay:FILE`` gets does not depend on any service."""

import hashlib
from pathlib import Path

from retrokit.core.calls import encodable
from retrokit.core.errors import DataError, shortened
from retrokit.data.jsonl import read_jsonl
from retrokit.llm.base import LLM, Completion, Sampling, estimated_tokens, identified, read_stop, without_thinking

_EXPECTED = 'lines like {"prompt": "...", "answer": "..."}'


class ReplayLLM(LLM):
    """Answers from a file, regardless of the sampling settings.

    Raises:
        DataError: no such file, a line without prompt and answer, or two answers to one prompt.
    """

    spec = ""

    def __init__(self, path: str | Path, stop: str | None = None) -> None:
        self.path, self._stop = Path(path), read_stop(stop)
        self._answers: dict[bytes, str] = {}
        lines: dict[bytes, int] = {}
        seen = hashlib.sha256()
        for number, row in read_jsonl(path, _EXPECTED, seen.update):
            system = None if row.get("system") is None else row.text("system")
            key, answer = _key(row.text("prompt"), system), row.text("answer")
            if self._answers.setdefault(key, answer) != answer:
                raise row.wrong(f"another answer to the prompt of line {lines[key]}")
            lines.setdefault(key, number)
        self.identity = identified(f"replay sha256:{seen.hexdigest()}", self._stop)

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """The recorded answer.

        Raises:
            DataError: there is none.
        """
        answer = self._answers.get(_key(prompt, system))
        if answer is None:
            raise DataError(self.path, f"contains no answer to the prompt {shortened(prompt, 80)!r}")
        tokens = estimated_tokens(system, prompt), estimated_tokens(answer)
        return Completion(without_thinking(encodable(answer)), *tokens, estimated=True).until(self._stop)

    async def close(self) -> None:
        """There is nothing to let go of."""


def _key(prompt: str, system: str | None) -> bytes:
    return hashlib.sha256(f"{system is not None}\0{system or ''}\0{prompt}".encode("utf-8", "surrogatepass")).digest()
