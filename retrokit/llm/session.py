"""Many requests to one language model: answers from the store if it has them, else calls, within a number of calls at
once and a budget of tokens. A model that refuses everything is given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from retrokit.core.calls import PromptRefused, ServerFailed, encodable
from retrokit.core.errors import RetrokitError, ServiceError
from retrokit.core.notices import notice
from retrokit.llm.answers import Rejected
from retrokit.llm.base import LLM, Completion, CompletionRequest, Sampling, estimated_tokens
from retrokit.llm.prompts import PromptTemplate
from retrokit.llm.store import ResponseStore

IN_VAIN = 64
"""Prompts in a row without a text in answer (refused ones count) after which a model is given up."""
LAST_WAIT = 60.0
"""Seconds that the calls under way have to end after another has failed."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class BudgetSpent(RetrokitError):
    """The next call might not fit into the budget of tokens. All answers so far are stored: the same work with a larger
    budget resumes from there."""


class Session:
    """Sends prompts to one model. Use it as ``async with Session(...) as session``, which closes the model at the end,
    and raises :class:`ServiceError` if every prompt was refused.

    Args:
        llm: which (:data:`retrokit.llm.registry` creates one from a spec).
        store: where answers are looked up, and stored before they are used; ``None``: nowhere. It is not closed.
        concurrency: calls at once, at most 1,024.
        max_tokens: of prompts and answers together that calls of this session may use; ``None``: any number. A call
            starts only if its prompt and its longest possible answer still fit. Answers of the store cost nothing.
        sampling: of the requests that bring none of their own.
    """

    def __init__(
        self,
        llm: LLM,
        store: ResponseStore | None,
        *,
        concurrency: int = 16,
        max_tokens: int | None = None,
        sampling: Sampling = Sampling(),
    ) -> None:
        self.llm, self.store, self.sampling = llm, store, sampling
        self._counts = dict.fromkeys(("calls", "from_store", "prompt_tokens", "completion_tokens"), 0)
        self._slots = asyncio.Semaphore(concurrency)
        self._budget = _Budget(max_tokens, store is not None)
        self._running: dict[bytes, asyncio.Task[Completion]] = {}
        self._calling: set[asyncio.Task[Completion]] = set()
        self._in_vain, self._last_vain = 0, ""  # prompts that brought no text since one did
        self._short, self._limit = 0, sampling.max_tokens  # answers that were cut or have no text, and where
        self._cut, self._ended_any = 0, False
        self._answered_any = False

    async def ask(
        self, prompt: str, *, system: str | None = None, attempt: int = 0, sampling: Sampling | None = None
    ) -> Completion:
        """The answer to ``prompt``, once it is stored. Equal requests at the same time make one call.

        Args:
            attempt: above 0: a further answer to the same prompt. Greedy sampling gives the same again; a seed is
                raised by it.

        Raises:
            PromptRefused: the model does not take this prompt.
            ServiceError: the service failed for good, or too often; or prompt after prompt came to nothing.
            BudgetSpent: the budget is used up.
            DataError: the store cannot be written.
        """
        # what is no Unicode can neither be sent nor stored
        texts = None if system is None else encodable(system), encodable(prompt)
        sampling = sampling or self.sampling
        request = CompletionRequest(self.llm.identity, sampling, *texts, attempt)
        try:
            running = self._running.get(request.key)
            completion = None if running is not None else self._stored(request)
            if completion is None:
                if running is None:
                    running = self._running[request.key] = asyncio.create_task(self._answered(request))
                    running.add_done_callback(partial(self._done, request.key))
                completion = await asyncio.shield(running)  # who stops waiting does not take it from the others
        except PromptRefused as refusal:
            self._note_vain(str(refusal))
            raise
        self._answered_any = True
        if completion.finish == "length" or not completion.text:
            self._short, self._limit = self._short + 1, sampling.max_tokens
        if completion.text:
            self._in_vain = 0
        else:
            self._note_vain(self.shortfall)
        return completion

    async def ask_until(
        self,
        prompt: PromptTemplate,
        retry: PromptTemplate,
        retries: int,
        read: Callable[[Completion], Result],
        **fields: str,
    ) -> Result:
        """What ``read`` makes of an answer to ``prompt``, filled with ``fields``.

        Args:
            retry: what follows the prompt, with the ``reason``, after ``read`` has rejected an answer.
            retries: maximum number of further attempts.

        Raises:
            Rejected: the last answer was rejected, or (``refused``) the model does not take the prompt.
            ServiceError, BudgetSpent: as :meth:`ask`.
        """
        first = text = prompt.fill(**fields)
        for attempt in range(retries + 1):
            sampling = prompt.sampling(self.sampling, attempt)
            try:
                return read(await self.ask(text, system=prompt.system, attempt=attempt, sampling=sampling))
            except PromptRefused as refusal:
                raise Rejected("refused", str(refusal)) from refusal
            except Rejected as rejected:
                if attempt == retries:
                    raise
                text = prompt.again(first, retry, rejected.reason)
        raise AssertionError("the last attempt returns or raises")

    def whole(self, completion: Completion) -> str:
        """The text of an answer that has ended.

        Raises:
            Rejected: ``cut_off``: it has not.
            ServiceError: nor has any of the first answers.
        """
        if completion.finish != "length":
            self._ended_any = True
            return completion.text
        self._cut += 1
        if self._cut >= IN_VAIN and not self._ended_any:
            raise ServiceError(
                f"{self.llm.spec}: none of the first {self._cut:,} answers ended within {self._limit:,} tokens; add "
                "`stop=` to the model's spec, or allow longer answers"
            )
        raise Rejected("cut_off", "the answer was too long and is cut off")

    def _note_vain(self, what: str) -> None:
        self._in_vain += 1
        self._last_vain = what
        if self._in_vain >= IN_VAIN:
            raise ServiceError(f"{self._in_vain:,} prompts in a row failed; the last one: {what}")

    def check(self) -> None:
        """Raise :class:`ServiceError` if every prompt was refused."""
        if self._in_vain and not self._answered_any:
            raise ServiceError(f"the model refused all of {self._in_vain:,} prompts, at last: {self._last_vain}")

    def _stored(self, request: CompletionRequest) -> Completion | None:
        stored = self.store.get(request.key) if self.store is not None else None
        self._counts["from_store"] += stored is not None
        return stored

    def _done(self, key: bytes, task: asyncio.Task[Completion]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # seen, even where nobody waits any more

    async def _answered(self, request: CompletionRequest) -> Completion:
        task = asyncio.current_task()
        assert task is not None
        needed = estimated_tokens(request.system, request.prompt) + request.sampling.max_tokens
        used = 0
        async with self._slots:
            stored = self._stored(request)  # another process may have been faster while this waited
            if stored is not None:
                return stored
            await self._budget.set_aside(needed)
            self._calling.add(task)
            try:
                completion = await self._call(request)
                used = completion.prompt_tokens + completion.completion_tokens
                self._counts["calls"] += 1
                self._counts["prompt_tokens"] += completion.prompt_tokens
                self._counts["completion_tokens"] += completion.completion_tokens
                if self.store is not None:
                    completion = await asyncio.wrap_future(self.store.submit(request, completion))
                return completion
            finally:
                self._calling.discard(task)
                self._budget.release(needed, used)

    async def _call(self, request: CompletionRequest) -> Completion:
        sampling = request.sampling
        if sampling.seed is not None:  # a further answer comes of other draws
            sampling = replace(sampling, seed=sampling.seed + request.attempt)
        calls = self._counts["calls"]
        try:
            return (await self.llm.complete(request.prompt, request.system, sampling)).until(sampling.stop)
        except PromptRefused:
            raise
        except ServiceError as error:
            if isinstance(error, ServerFailed) and self._counts["calls"] > calls:  # others were answered meanwhile
                raise PromptRefused(str(error)) from error
            if self.store is None or not self._answered_any:
                raise
            raise ServiceError(f"{error}; the answers so far are stored: rerun the same command to resume") from error

    @property
    def counts(self) -> dict[str, int]:
        """``calls`` (answered), ``from_store``, ``prompt_tokens`` and ``completion_tokens`` of the calls."""
        return dict(self._counts)

    @property
    def shortfall(self) -> str:
        """How many answers were cut at their limit or have no text; ``""`` if none."""
        what = f"answers were cut at {self._limit:,} tokens or have no text; allow longer answers"
        return f"{self._short:,} {what}" if self._short else ""

    def summary(self) -> str:
        """The calls, the answers from the answer cache and the tokens, in a line."""
        return (
            "{calls:,} calls, {from_store:,} answers from the answer cache; tokens: {prompt_tokens:,} of prompts, "
            "{completion_tokens:,} of answers"
        ).format(**self._counts)

    async def close(self, at_once: bool = False) -> None:
        """Wait a minute for the calls that are under way (``at_once``: break them off), and close the model."""
        running = set(self._running.values())
        calling = set() if at_once else self._calling & running
        for task in running - calling:
            task.cancel()
        if calling:
            _, late = await asyncio.wait(calling, timeout=LAST_WAIT)
            for task in late:
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self.llm.close()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(at_once=kind is not None and not issubclass(kind, Exception))
        if kind is None:
            self.check()
            if self.shortfall:
                notice(f"{self.llm.spec}: {self.shortfall}")


class _Budget:
    """Tokens that may be used: those used up, and those set aside for calls under way."""

    def __init__(self, limit: int | None, stored: bool) -> None:
        self._limit = limit
        self._stored = stored
        self._used = self._set_aside = 0
        self._spent = False
        self._changed = asyncio.Event()

    async def set_aside(self, needed: int) -> None:
        """Wait until ``needed`` tokens are there, or it is certain that they will not be."""
        while self._limit is not None and (self._spent or self._used + self._set_aside + needed > self._limit):
            if self._spent or not self._set_aside:
                self._spent = True
                self._changed.set()
                advice = "; the answers so far are stored: rerun with a larger budget to resume" if self._stored else ""
                raise BudgetSpent(
                    f"the budget of {self._limit:,} tokens is used up: {self._used:,} are used, and the next call may "
                    f"take {needed:,}{advice}"
                )
            self._changed.clear()
            await self._changed.wait()
        self._set_aside += needed

    def release(self, needed: int, used: int) -> None:
        """A call is over, for which ``needed`` were set aside and which used ``used``."""
        self._set_aside -= needed
        self._used += used
        self._changed.set()


async def run_all(
    worker: Callable[[Item], Awaitable[Result]], items: Iterable[Item], limit: int = 64
) -> AsyncGenerator[Result, None]:
    """What ``worker`` returns for each item, in the order of ``items``, which are taken as they are needed.

    At most ``limit`` items are held, those that are done and wait for an earlier one included, so memory stays flat.
    If a worker fails, the others are cancelled and its exception is raised at its item's turn.
    """
    tasks: deque[asyncio.Task[Result]] = deque()
    try:
        for item in items:
            if len(tasks) >= limit:
                yield await tasks[0]
                tasks.popleft()
            tasks.append(asyncio.ensure_future(worker(item)))
        while tasks:
            yield await tasks[0]
            tasks.popleft()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
