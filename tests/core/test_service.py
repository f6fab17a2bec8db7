"""Answers of services end, whoever asks: one that comes slowly, one that is too large, and one from elsewhere."""

import gzip
import itertools

import pytest

from retrokit.core.errors import ServiceError
from retrokit.core.service import LARGEST_ANSWER, LARGEST_PER_TEXT
from tests.llm.hostile import KEY, skip_waits
from tests.llm.server import ChatServer, Plan, message
from tests.llm.test_llm_openai import ask


def complete(url: str, timeout: float) -> object:
    return ask(f"openai:m,url={url},timeout={timeout}", "Who purrs?")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("RETROKIT_CACHE", "off")
    return skip_waits(monkeypatch)


def test_an_answer_of_a_byte_now_and_then_is_given_up() -> None:
    with ChatServer(Plan(pace=0.05)) as server:
        with pytest.raises(ServiceError, match=r"no complete answer in 0\.2 s$"):
            complete(server.url, 0.2)
        assert len(server.log.bodies) == 3


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("status", [200, 503])
def test_an_answer_without_end_is_given_up(is_packed: bool, status: int) -> None:
    body = b" " * (LARGEST_ANSWER + 2 * LARGEST_PER_TEXT + 1)
    reply = message(status, body)
    if is_packed:
        reply = message(status, gzip.compress(body), "Content-Encoding: gzip")
    with ChatServer(Plan(reply=lambda body: reply)) as server:
        with pytest.raises(ServiceError, match=r": the answer is larger than 1[67] MiB, the limit; check the url$"):
            complete(server.url, 60)
        assert len(server.log.bodies) == 1


def test_an_answer_from_elsewhere_is_read() -> None:
    calls = itertools.count()

    def reply(body: dict[str, object]) -> bytes | None:
        if next(calls) == 0:
            return message(307, b"moved" * 1000, f"Location: {server.url}/chat/completions")
        return None

    with ChatServer(Plan(lambda body: "A cat.", reply=reply)) as server:
        assert ask(f"openai:m,url={server.url}", "Who purrs?")[0].text == "A cat."
