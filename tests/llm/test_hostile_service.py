"""A service that misbehaves on purpose: whatever it sends, a call ends, in an answer or in one line, and nothing holds
the key."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrokit.core.errors import DataError, ServiceError
from retrokit.llm import registry, retries
from retrokit.llm.base import Completion, CompletionRequest, Sampling, TryAgain, without_thinking
from retrokit.llm.secret import Secret
from retrokit.llm.service import _retry_after
from retrokit.llm.session import IN_VAIN, Session
from retrokit.llm.store import ResponseStore
from tests.llm.hostile import KEY, REPLIES, forms_of
from tests.llm.server import ChatServer, Log, Plan, completion, message


class QuickClock(retries.Clock):
    """A clock that a wait turns on."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:  # type: ignore[override]
        return self.time

    async def sleep(self, seconds: float) -> None:  # type: ignore[override]
        self.time += seconds
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[QuickClock]:
    monkeypatch.setattr(retries, "clock", QuickClock())
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return retries.clock


def asked(server: ChatServer, store: ResponseStore | None, timeout: float = 20, **options: float) -> Completion:
    async def ask() -> Completion:
        async with Session(registry.create(f"openai:m,url={server.url},timeout={timeout}"), store, **options) as opened:
            return await opened.ask("Who purrs?")

    return asyncio.run(ask())


def holds_key(text: str) -> bool:
    """Found by decoding what is searched for, and not the text, as the client does."""
    low = text.lower()
    return any(form.lower() in low for form in forms_of(KEY).values())


ANSWERS = ("tokens", "deep-finish", "deep-usage", "long", "cookies", "escapes", "half", "key-in-the-finish", "thoughts")
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
        assert not holds_key(str(failed))
    assert len(service.log.bodies) < 40
    assert not [path for path in tmp_path.iterdir() if holds_key(path.read_bytes().decode("latin-1"))]


def test_a_byte_now_and_then_does_not_keep_a_call() -> None:
    good = message(200, completion("Cats."))
    told = r"^the model failed 1 times, at last with .*: no answer in 0.3 s$"
    with (
        ChatServer(Plan(reply=lambda body: good, pace=3 / len(good))) as server,
        pytest.raises(ServiceError, match=told),
    ):
        asked(server, None, timeout=0.3, retries=0)


def test_the_key_does_not_follow_to_another_host() -> None:
    with ChatServer() as other:
        moved = message(307, b"", f"Location: {other.url}/chat/completions")
        with ChatServer(Plan(reply=lambda body: moved)) as server, pytest.raises(ServiceError, match="has moved to"):
            asked(server, None)
        assert not other.log.headers


@given(st.text() | st.floats().map(str) | st.datetimes().map(lambda when: when.strftime("%a, %d %b %Y %H:%M:%S GMT")))
def test_a_wait_is_a_positive_time_or_none(text: str) -> None:
    wait = _retry_after({"retry-after": text})
    assert wait is None or wait > 0


class Limited:
    """A model that puts every call off, by ``wait`` seconds."""

    spec = identity = "limited"

    def __init__(self, wait: float | None) -> None:
        self.wait = wait
        self.calls = 0

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        self.calls += 1
        raise TryAgain("later", self.wait, rate_limited=True)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("wait", [None, 0.0, 1e-9, 0.5, 5.0])
def test_a_service_that_puts_everybody_off_is_not_hammered(wait: float | None) -> None:
    llm = Limited(wait)

    async def ask() -> None:
        async with Session(llm, None, concurrency=16) as opened:
            await asyncio.gather(*(opened.ask(f"p{number}") for number in range(16)))

    with pytest.raises(ServiceError, match="asks to wait for too long"):
        asyncio.run(ask())
    assert llm.calls < 16 * 40  # in the quarter of an hour that a call is given


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
    with pytest.raises(ServiceError, match=r"^nothing came of 64 prompts in a row, at last: 64 answers have no text$"):
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
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("SELECT system, prompt FROM responses").fetchone() == ("\ufffd", "Who \ufffd purrs?")


# --- the key


@pytest.mark.parametrize("key", [KEY, "sk-proj-" + "aB3_-" * 20, "0123456789abcdef"])
@pytest.mark.parametrize("form", forms_of(KEY))
def test_a_key_is_found_in_every_form(key: str, form: str) -> None:
    assert Secret(key).inside(f"As you said: {forms_of(key)[form]}; is that right?")


@pytest.mark.parametrize("key", ["EMPTY", "none", "required", "ollama", "x"])
def test_a_word_in_place_of_a_key_may_stand_in_answers(key: str) -> None:
    assert not Secret(key).inside(f"The answer is {key}.")


def test_a_key_is_not_found_where_it_is_not(shared_data: Path) -> None:
    texts = (shared_data / "scifact" / "corpus.jsonl").read_text(encoding="utf-8")[:200_000]
    assert not Secret(KEY).inside(texts)
    assert repr(Secret(KEY)) == "Secret(…)"


@given(st.lists(st.sampled_from(["<think>", "</think>", "<THINKING>", "</thinking>", "a", " "]), max_size=12))
def test_no_thought_is_left(parts: list[str]) -> None:
    assert "think" not in without_thinking("".join(parts)).lower()
