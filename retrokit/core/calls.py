"""Calls of services, without their client: failures, texts that can be sent, and waiting from synchronous code."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from retrokit.core.errors import ServiceError

Result = TypeVar("Result")


class ServerFailed(ServiceError):
    """A failure within the server, which may come from one text that its model cannot compute."""


class PromptRefused(ServiceError):
    """The model does not take this prompt (too long, say); it may take others."""


def encodable(text: str) -> str:
    """``text`` with a mark in place of lone surrogates, which JSON can spell and UTF-8 cannot."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def wait_for(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, for code that is not asynchronous, also within a notebook's running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
