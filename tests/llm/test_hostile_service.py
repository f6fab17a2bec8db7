"""A service that misbehaves on purpose: whatever it sends, a call ends, in an answer or in one line, and nothing holds
the key."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.core.errors import DataError, ServiceError
from retrokit.llm import registry
from retrokit.llm.base import Completion, CompletionRequest, Sampling, without_thinking
from retrokit.llm.session import IN_VAIN, Session
from retrokit.llm.store import ResponseStore
from tests.llm.hostile import KEY, REPLIES, skip_waits
from tests.llm.server import ChatServer, Log, Plan, error, message


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return skip_waits(monkeypatch)


def asked(server: ChatServer, store: ResponseStore | None, timeout: float = 20, **options: float) -> Completion:
    async def ask() -> Completion:
        async with Session(registry.create(f"openai:m,url={server.url},timeout={timeout}"), store, **options) as opened:
            return await opened.ask("Who purrs?")

    return asyncio.run(ask())


ANSWERS = (
    *("tokens", "deep-finish", "deep-usage", "long", "cookies", "escapes", "half", "thoughts", "headers"),
    *("key-in-the-finish", "key-in-an-answer", "large-answer"),
)
"""Replies that hold a sound answer in spite of all, or (thoughts) none that is asked for for ever."""


@pytest.fixture(scope="module")
def service() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.mark.parametrize("name", REPLIES)
def test_a_call_ends_and_nothing_holds_the_key(name: str, service: ChatServer, tmp_path: Path) -> None:
    service.plan, service.log = Plan(reply=lambda body: REPLIES[name]), Log()
    found = failed = None
    with ResponseStore(tmp_path / "s.db") as store:
        try:
            found = asked(service, store)
        except ServiceError as error:
            failed = error
        stored = store.get(CompletionRequest("m", Sampling(), None, "Who purrs?").key)
    assert stored == found
    if found is not None:
        assert name.startswith(ANSWERS)
        assert len(found.text) < 100_000
        assert bool(found.text) == (name != "thoughts")
        assert len(found.finish) < 20
        assert 0 < found.prompt_tokens < 2**31
        assert 0 < found.completion_tokens < 2**31
    else:
        assert failed is not None
        assert failed.exit_code == 4
        assert len(str(failed)) < 700
        assert "\n" not in str(failed)
        assert KEY not in str(failed)
    assert len(service.log.bodies) < 40
    assert not [path for path in tmp_path.iterdir() if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize("status", [302, 307])
def test_the_key_does_not_follow_to_another_host(status: int) -> None:
    with ChatServer() as other:
        moved = message(status, b"", f"Location: {other.url.replace('127.0.0.1', 'localhost')}/chat/completions")
        with ChatServer(Plan(reply=lambda body: moved)) as server, contextlib.suppress(ServiceError):
            asked(server, None)
        assert KEY not in str(other.log.headers)


@pytest.mark.parametrize(("wait", "waited"), [("60", 60), ("0", 30), ("tomorrow", 30), ("300", 300)])
def test_a_service_that_limits_the_rate_is_waited_for_a_quarter_of_an_hour(
    wait: str, waited: float, waits: list[float]
) -> None:
    limit = message(429, error("slow down"), f"Retry-After: {wait}")
    with ChatServer(Plan(reply=lambda body: limit)) as server:
        with pytest.raises(ServiceError, match=r"slow down \(429\)$"):
            asked(server, None)
        assert len(server.log.bodies) < 40
    assert waits.count(waited) >= 900 // waited
    with ChatServer(Plan(reply=lambda body: limit if len(server.log.bodies) < 4 else None)) as server:
        assert asked(server, None).text


class Wordless:
    """A model that answers some prompts without text, and the others with one."""

    spec = identity = "wordless"

    def __init__(self, every: int) -> None:
        self.every = every
        self.calls = 0

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        self.calls += 1
        return Completion("yes" if self.calls % self.every == 0 else "", 1, 1)

    async def close(self) -> None:
        pass


def test_a_model_that_says_nothing_is_given_up() -> None:
    async def ask(llm: Wordless) -> None:
        async with Session(llm, None, concurrency=1) as opened:
            for number in range(3 * IN_VAIN):
                await opened.ask(f"p{number}")

    asyncio.run(ask(Wordless(IN_VAIN)))
    silent = Wordless(10**9)
    with pytest.raises(ServiceError, match=r"^64 prompts in a row failed; the last one: 64 answers were cut at"):
        asyncio.run(ask(silent))
    assert silent.calls == IN_VAIN


# --- the store's thread


REQUEST = CompletionRequest("m", Sampling(), None, "Who purrs?")


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (REQUEST, Completion("Cats.", 2**63, 1)),
        (REQUEST, Completion("\ud800", 1, 1)),
        (CompletionRequest("m", Sampling(), None, "\ud800"), Completion("Cats.", 1, 1)),
        (REQUEST, Completion(object(), 1, 1)),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_stored_is_told_to_who_asked(
    request_: CompletionRequest, answer: Completion, tmp_path: Path
) -> None:
    with ResponseStore(tmp_path / "s.db") as store:
        with pytest.raises(DataError, match="the response store cannot be used"):
            store.submit(request_, answer).result(10)
        good = Completion("Cats.", 1, 1)
        assert store.submit(REQUEST, good).result(10) == good  # and the thread goes on


def test_a_store_whose_thread_has_ended_fails_and_does_not_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("whatever it may be")

    monkeypatch.setattr(ResponseStore, "_write", broken)
    with ResponseStore(tmp_path / "s.db") as store:
        futures = [store.submit(REQUEST, Completion("Cats.", 1, 1)) for _ in range(3)]
        for future in futures:
            with pytest.raises(DataError, match="whatever it may be"):
                future.result(10)


def test_prompts_that_are_no_unicode_are_asked_and_stored(tmp_path: Path) -> None:
    async def ask(server: ChatServer, store: ResponseStore) -> Completion:
        async with Session(registry.create(f"openai:m,url={server.url}"), store) as opened:
            return await opened.ask("Who \ud800 purrs?", system="\udfff")

    with ChatServer(Plan(lambda body: "Cats.")) as server, ResponseStore(tmp_path / "s.db") as store:
        assert asyncio.run(ask(server, store)).text == "Cats."
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("SELECT system, prompt FROM responses").fetchone() == ("\ufffd", "Who \ufffd purrs?")


@given(st.lists(st.sampled_from(["<think>", "</think>", "<THINKING>", "</thinking>", "a", " "]), max_size=12))
def test_no_thought_is_left(parts: list[str]) -> None:
    assert "think" not in without_thinking("".join(parts)).lower()
