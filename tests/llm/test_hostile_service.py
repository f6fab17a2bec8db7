"""A service that misbehaves on purpose: whatever it sends, a call ends, in an answer or in one line, and nothing holds
the key."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from retrokit.core.errors import DataError, ServiceError
from retrokit.llm import registry
from retrokit.llm.base import Completion, CompletionRequest, Sampling
from retrokit.llm.session import Session
from retrokit.llm.store import ResponseStore
from tests.llm.hostile import KEY, REPLIES, skip_waits
from tests.llm.server import ChatServer, Log, Plan, message


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
