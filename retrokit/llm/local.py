"""A model of the machine's own as one of the registry: prompts that wait together are computed together.

A model with a chat template reads prompts by it; one without reads them as they are, and continues them.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from retrokit.core.calls import PromptRefused, encodable
from retrokit.core.errors import ServiceError
from retrokit.llm.base import LLM, Completion, Prompt, Sampling, without_thinking
from retrokit.llm.generator import Generated, Generator, load_generator


@dataclass(frozen=True)
class _Waiting:
    text: str
    length: int
    new_tokens: int
    sampling: Sampling
    future: asyncio.Future[Generated]


class LocalLLM(LLM):
    """A :class:`retrokit.llm.generator.Generator` that answers prompts.

    Args:
        generator: which.
        batch: prompts that are computed at once.
    """

    spec = ""

    def __init__(self, generator: Generator, batch: int = 8) -> None:
        self.generator = generator
        self.identity = f"local {generator.fingerprint()}"
        self.batch = batch
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None
        self._stopped = False

    def fitted(self, prompt: Prompt, max_tokens: int) -> str:
        """As :class:`retrokit.llm.base.LLM` says."""
        return self.generator.fitted(prompt, max_tokens)

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt, computed with others that wait for theirs.

        Raises:
            PromptRefused: it is too long for the model.
        """
        text = self.generator.chat(prompt, system)
        length = self.generator.length(text)
        window = self.generator.window
        most = self.generator.max_length or window
        left = None if self.generator.writes_anew or window is None else window - length  # for an answer
        if (most is not None and length > most) or (left is not None and left < 1):
            raise PromptRefused(f"{self.generator.name} reads {most} tokens, and a prompt has {length}")
        new_tokens = sampling.max_tokens if left is None else min(left, sampling.max_tokens)
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(text, length, new_tokens, sampling, future))
        if self._worker is None:
            self._stopped = False
            self._worker = asyncio.create_task(self._work())
        written = await future
        return Completion(without_thinking(encodable(written.text)), length, written.tokens, written.finish)

    async def _work(self) -> None:
        """Compute batch after batch while any prompt waits; in a thread, so that others can be asked meanwhile."""
        loop = asyncio.get_running_loop()
        try:
            with ThreadPoolExecutor(1, "local model") as thread:
                while rows := self._next_rows():
                    try:
                        answers = await loop.run_in_executor(thread, self._generated, rows)
                    except Exception as error:  # whatever it is belongs to those who asked
                        for row in rows:
                            if not row.future.done():
                                row.future.set_exception(error)
                        continue
                    for row, answer in zip(rows, answers, strict=True):
                        if not row.future.done():
                            row.future.set_result(answer)
        finally:
            self._worker = None

    def _next_rows(self) -> list[_Waiting]:
        """Prompts of about the same length, to be answered with the same number of tokens.

        So none is computed beyond its own end into positions that the model does not have.
        """
        waiting = sorted(
            (row for row in self._waiting if not row.future.done()), key=lambda row: (row.new_tokens, row.length)
        )
        rows = [row for row in waiting if row.new_tokens == waiting[0].new_tokens][: self.batch]
        self._waiting = waiting[len(rows) :]
        return rows

    def _generated(self, rows: Sequence[_Waiting]) -> list[Generated]:
        texts, samplings = [row.text for row in rows], [row.sampling for row in rows]
        try:
            return self.generator.generate(texts, samplings, rows[0].new_tokens, lambda: self._stopped)
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            if len(rows) == 1:
                raise ServiceError(f"{self.generator.name}: the GPU's memory does not hold a single prompt") from error
        half = len(rows) // 2
        return self._generated(rows[:half]) + self._generated(rows[half:])

    async def close(self) -> None:
        """Leave off what is being computed."""
        self._stopped = True
        self._waiting.clear()
        if self._worker is not None:
            await asyncio.wait([self._worker])


def local_llm(path: str, max_length: int | None, batch: int, device: str | None) -> LocalLLM:
    """The model ``local``; raises as :func:`retrokit.llm.generator.load_generator` does."""
    return LocalLLM(load_generator(path, max_length, device), batch)
