"""Families of near-misses whose edits a language model writes, many sentences at a time.

The stream of near-misses asks for one sentence after another; a model is quick only if it is asked for many at once. So
texts are read some way ahead, their sentences are asked for in a thread of their own, and a family waits for the answer
to its sentence. What comes out does not depend on which answer is there first.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from itertools import chain

from retrokit.augmentation.negatives.by_model.answers import CAUSES, SYSTEM, answered, rejections, why_rejected
from retrokit.augmentation.negatives.family import Edit, Family
from retrokit.augmentation.negatives.generator import sentences_of, why_not
from retrokit.augmentation.negatives.sentence import Sentence
from retrokit.core.errors import ServiceError
from retrokit.core.notices import progress
from retrokit.llm.base import LLM, Completion, PromptRefused
from retrokit.llm.session import Session
from retrokit.llm.store import ResponseStore

Text = str | tuple[str, str]

ENOUGH = 100
LEAST_TAKEN = 0.02
NONE_COUNTS = 0.1
"""After ``ENOUGH`` rejected answers a model of which fewer than ``LEAST_TAKEN`` as many were taken is given up. That a
sentence has no such near-miss may well be true, and counts a tenth."""


class Writer:
    """Asks a model for near-misses; use it as ``with Writer(...) as writer``.

    Args:
        llm: which.
        families: those whose prompts are asked.
        store: where answers are kept; ``None``: nowhere.
        max_tokens: budget of all calls.
        concurrency: calls at once.
        counts: ``rejected:CAUSE`` is counted here (:data:`retrokit.augmentation.negatives.by_model.answers.CAUSES`).

    Attributes:
        families: for :func:`retrokit.augmentation.negatives.generator.near_misses`. They raise what
            :meth:`retrokit.llm.session.Session.ask` raises, but for a prompt that the model does not take; and
            :class:`ServiceError` where nearly all answers are rejected.
        session: what was asked.
    """

    def __init__(
        self,
        llm: LLM,
        families: Sequence[Family],
        store: ResponseStore | None,
        max_tokens: int | None,
        concurrency: int,
        counts: Counter[str],
    ) -> None:
        self.session = Session(llm, store, concurrency=concurrency, max_tokens=max_tokens, limit="")
        self._asked_of = {family.name: family for family in families}
        self.families = tuple(replace(family, edits=partial(self._edits, family)) for family in families)
        self._counts = counts
        self._taken = 0
        self._ahead = 2 * concurrency
        self._futures: dict[tuple[str, str], Future[Completion]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_cached = self.session.store is not None
        if kind is None and is_cached:
            wait(self._futures.values())  # what was read ahead is kept, so that a second run makes no call
        at_once = not is_cached or (kind is not None and not issubclass(kind, Exception))
        asyncio.run_coroutine_threadsafe(self.session.close(at_once), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def ahead(self, texts: Iterable[Text]) -> Iterator[Text]:
        """``texts``, read ahead so that as many sentences are asked for as the model is to answer at once."""
        waiting: deque[tuple[Text, list[tuple[str, str]]]] = deque()
        with progress("asking the model", None, "texts") as advance:
            for text in chain(texts, [None]):
                if text is not None:
                    waiting.append((text, self._ask(text)))
                while waiting and (text is None or len(self._futures) >= self._ahead):
                    first, keys = waiting.popleft()
                    yield first
                    for key in keys:
                        del self._futures[key]
                    advance(1)

    def _ask(self, text: Text) -> list[tuple[str, str]]:
        anchors = [anchor for anchor, _ in sentences_of(text) if why_not(anchor) is None]
        wanted = dict.fromkeys((name, anchor) for anchor in anchors for name in self._asked_of)
        new = [key for key in wanted if key not in self._futures]
        for key in new:
            self._future(*key)
        return new

    def _future(self, family: str, anchor: str) -> Future[Completion]:
        key = (family, anchor)
        if key not in self._futures:
            question = self._asked_of[family].prompt.replace("{sentence}", anchor)
            future = self.session.ask(question, system=SYSTEM)
            self._futures[key] = asyncio.run_coroutine_threadsafe(future, self._loop)
        return self._futures[key]

    def _edits(self, family: Family, sentence: Sentence) -> list[Edit]:
        try:
            completion = self._future(family.name, sentence.text).result()
        except PromptRefused:
            return self._reject("refused")
        answer = answered(completion.text)
        cause = "cut" if completion.finish == "length" else why_rejected(sentence.text, answer, family.least_overlap)
        if cause is not None:
            return self._reject(cause)
        self._taken += 1
        return [Edit("llm", answer)]

    def _reject(self, cause: str) -> list[Edit]:
        self._counts[f"rejected:{cause}"] += 1
        rejected = sum(self._counts[f"rejected:{cause}"] for cause in CAUSES)
        weight = rejected - (1 - NONE_COUNTS) * self._counts["rejected:none"]
        if weight >= ENOUGH and self._taken < LEAST_TAKEN * weight:
            summary = f"{self._taken:,} of its answers were taken, and rejected were {rejections(self._counts)}"
            raise ServiceError(f"the model is given up: {summary}")
        return []

    def check(self) -> None:
        """Raise :class:`ServiceError` if the model refused everything, or nothing that it wrote was taken."""
        self.session.check()
        if not self._taken and (outcome := rejections(self._counts)):
            raise ServiceError(f"the model wrote no near-miss: rejected were {outcome}")
