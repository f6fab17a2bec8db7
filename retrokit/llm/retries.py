"""Calls of a service that are tried again: how often, after how long, and how long in all."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from retrokit.core.errors import ServiceError
from retrokit.core.notices import notice
from retrokit.llm.base import TryAgain

LONGEST_WAIT = 60.0

Answer = TypeVar("Answer")


class Clock:
    """The time, and waiting, in seconds."""

    now = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)


clock = Clock()


class Tries:
    """Calls of one service, which share what they learn of its limits.

    Args:
        retries: how often a call is tried again.
        backoff: seconds before the first of these; it doubles each time, up to a minute.
        patience: seconds in all that a call waits for a service that limits the rate.
        kept: what is said behind an error of what is not lost.

    Attributes:
        counts: ``retries``, and ``rate_limited``: those of them for there being too many calls.
        is_closing: whether nothing is tried again any more.
    """

    def __init__(self, retries: int = 7, backoff: float = 0.5, patience: float = 900.0, kept: str = "") -> None:
        self.counts = {"retries": 0, "rate_limited": 0}
        self.is_closing = False
        self._retries, self._backoff, self._patience, self._kept = retries, backoff, patience, kept
        self._calling = 0
        self._not_before = 0.0
        self._limited = 0  # calls that the service put off since the last answer
        self._noticed: set[str] = set()

    async def of(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """What ``call`` returns, once it does not raise :class:`TryAgain`.

        Raises:
            ServiceError: it failed too often.
        """
        failures = 0
        waited = 0.0  # because the service asked for it
        self._calling += 1
        try:
            while True:
                while (pause := self._not_before - clock.now()) > 0:  # until the service wants calls again
                    await clock.sleep(pause + random.uniform(0, self._backoff))
                try:
                    answer = await call()
                    self._limited = 0
                    return answer
                except TryAgain as trouble:
                    if self.is_closing:
                        raise
                    failures += not trouble.rate_limited
                    self._limited += trouble.rate_limited
                    wait = self._wait(trouble, failures)
                    waited += wait if trouble.rate_limited or trouble.wait is not None else 0
                    if failures > self._retries or waited > self._patience:
                        raise self._given_up(trouble, failures) from trouble
                    self._note(trouble, wait)
                    if trouble.wait is not None:
                        self._not_before = max(self._not_before, clock.now() + wait)
                await clock.sleep(wait)
        finally:
            self._calling -= 1

    def _wait(self, trouble: TryAgain, failures: int) -> float:
        """Seconds before the next try; ``failures`` are those before it."""
        doublings = failures - 1
        if trouble.rate_limited:
            # so often each call was put off in vain; where nobody says for how long, as after a few failures
            doublings = self._limited // max(1, self._calling) + (3 if trouble.wait is None else 0)
        own = min(LONGEST_WAIT, self._backoff * 2.0 ** min(doublings, 32)) * random.uniform(0.5, 1)
        return own if trouble.wait is None else max(own, trouble.wait + random.uniform(0, self._backoff))

    def _note(self, trouble: TryAgain, wait: float) -> None:
        self.counts["retries"] += 1
        self.counts["rate_limited"] += trouble.rate_limited
        kind = str(trouble)
        if kind not in self._noticed and len(self._noticed) < 5:
            self._noticed.add(kind)
            notice(f"{kind}; trying again" + (f" in {wait:.0f} s" if wait >= 5 else ""))

    def _given_up(self, trouble: TryAgain, failures: int) -> ServiceError:
        tried = f"failed {failures} times" if failures > self._retries else "asks to wait for too long"
        return ServiceError(f"the model {tried}, at last with {trouble}{self._kept}")
