"""A server on loopback that speaks the protocols of chat, embeddings and reranking, and misbehaves when told to.

In a thread of the test (:class:`ChatServer`), or as a process of its own: ``python -m tests.llm.server --help``.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

Answer = Callable[[dict[str, Any]], str]

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


def prompt_of(body: dict[str, Any]) -> str:
    """The last message of a request; what is to be embedded, or asked."""
    return body["messages"][-1]["content"] if "messages" in body else json.dumps(body.get("input") or body["query"])


def echo(body: dict[str, Any]) -> str:
    """An answer that depends on all that is sent, and on nothing else."""
    return "answer " + hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]


def letters(text: str) -> list[float]:
    """How often some letters occur."""
    return [text.count(letter) + 0.5 for letter in "abcdefgh"]


def shared_words(query: str, document: str) -> float:
    """How many words the two share."""
    return float(len(set(query.split()) & set(document.split())))


@dataclass
class Plan:
    """How the server behaves.

    Attributes:
        answer: what it says to a request's body.
        embed: what it makes of a text that is to be embedded.
        score: of a query and a document.
        reply: what it sends to a request's body, as a whole HTTP message; ``None``: the answer.
        faults: what goes wrong, by name (:data:`FAULTS`); the calls with one body go through the list from a place
            that the body decides, one fault a call, and then are answered.
        each: how many faults each body meets before its answer.
        delay: seconds before each answer.
        pace: seconds before each byte; 0: all at once.
        key: what a caller must send; ``None``: nothing.
        models: which there are; ``None``: any.
        log: whether what is asked is remembered.
    """

    answer: Answer = echo
    reply: Callable[[dict[str, Any]], bytes | None] | None = None
    faults: Sequence[str] = ()
    each: int = 1
    delay: float = 0.0
    pace: float = 0.0
    key: str | None = None
    models: Sequence[str] | None = None
    log: bool = True
    embed: Callable[[str], list[float]] = letters
    score: Callable[[str, str], float] = shared_words


@dataclass
class Log:
    """What was asked: every request's body and headers in order, how often each prompt was, and was answered well."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0


def message(status: int, body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A whole HTTP message; ``length``: what it says its length is."""
    head = [f"HTTP/1.1 {status} {REASONS.get(status, 'Oops')}", "Content-Type: application/json", *headers]
    head.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*head, "", ""]).encode() + body


def completion(text: str | None, finish: str = "stop", prompt: str = "") -> bytes:
    """The body of a good answer."""
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len((text or "").split())}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def embeddings(vectors: Sequence[Sequence[float]]) -> bytes:
    """The body of a good answer to texts, the last one first."""
    data = [{"object": "embedding", "index": place, "embedding": list(one)} for place, one in enumerate(vectors)]
    return json.dumps({"object": "list", "data": data[::-1]}).encode()


def ranking(scores: Sequence[float]) -> bytes:
    """The body of a good answer to a query with documents, the best first."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    return json.dumps({"results": [{"index": place, "relevance_score": scores[place]} for place in order]}).encode()


def error(text: str, **more: Any) -> bytes:
    """The body of a failure."""
    return json.dumps({"error": {"message": text, **more}}).encode()


def _truncated(good: bytes) -> bytes:
    return message(200, good[: len(good) // 2])


FAULTS: dict[str, Callable[[bytes], bytes]] = {
    "429": lambda good: message(429, error("slow down"), "Retry-After: 0.05"),
    "429-date": lambda good: message(
        429, error("slow down"), f"Retry-After: {formatdate(time.time() + 1, usegmt=True)}"
    ),
    "429-bare": lambda good: message(429, error("slow down")),
    "500": lambda good: message(500, b"<html>Internal Server Error</html>"),
    "503": lambda good: message(503, error("loading"), "Retry-After: 0.05"),
    "drop": lambda good: b"",
    "drop-in-head": lambda good: b"HTTP/1.1 200 OK\r\nContent-",
    "drop-in-body": lambda good: message(200, good[: len(good) // 2], length=len(good)),
    "truncated": _truncated,
    "no-choices": lambda good: message(200, b'{"choices": []}'),
    "error-in-200": lambda good: message(200, error("upstream failed", code=502)),
    "not-http": lambda good: b"ready\r\n\r\n",
    "null": lambda good: message(200, completion(None)),
    "empty": lambda good: message(200, completion(" \n")),
    "slow": lambda good: message(200, good),  # after longer than the caller waits
}
PASSING = [name for name in FAULTS if name not in ("truncated", "error-in-200")]
"""Faults that a call gets over; the others are reported at once."""
CLOSING = {"drop", "drop-in-head", "drop-in-body", "not-http"}
SLOW = 1.5


GOOD: dict[str, Callable[[Plan, dict[str, Any]], bytes]] = {
    "chat/completions": lambda plan, body: completion(plan.answer(body), prompt=prompt_of(body)),
    "embeddings": lambda plan, body: embeddings([plan.embed(text) for text in body["input"]]),
    "rerank": lambda plan, body: ranking([plan.score(body["query"], text) for text in body["documents"]]),
}


class ChatServer:
    """The server in a thread: ``with ChatServer(Plan(...)) as server``."""

    def __init__(self, plan: Plan | None = None, port: int = 0) -> None:
        self.plan = plan or Plan()
        self.log = Log()
        self.port = port
        self._met: Counter[bytes] = Counter()
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True)

    @property
    def url(self) -> str:
        """The address up to ``/v1``."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def serve(self, ready: Callable[[int], object] | None = None) -> None:
        """Serve until told to stop."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        if ready is not None:
            ready(self.port)
        self._started.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answered(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the caller left, or the server ends
        finally:
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        self.log.at_once += 1
        self.log.most_at_once = max(self.log.most_at_once, self.log.at_once)
        try:
            fault, reply = self._reply(head[0], headers, raw)
            if fault == "slow":
                await asyncio.sleep(SLOW)
            elif self.plan.delay:
                await asyncio.sleep(self.plan.delay)
            for start in range(0, len(reply), 1 if self.plan.pace else len(reply)):
                await asyncio.sleep(self.plan.pace)
                writer.write(reply[start : start + 1] if self.plan.pace else reply)
                await writer.drain()
            return fault not in CLOSING
        finally:
            self.log.at_once -= 1

    def _reply(self, line: str, headers: dict[str, str], raw: bytes) -> tuple[str | None, bytes]:
        plan = self.plan
        kind = line.removeprefix("POST /v1/").split(" ")[0]
        if kind not in GOOD:
            return None, message(404, b'{"detail": "Not Found"}')
        body = json.loads(raw)
        prompt = prompt_of(body)
        log = self.log if plan.log else Log()
        log.bodies.append(body)
        log.headers.append(headers)
        log.times.append(time.monotonic())
        log.asked[prompt] += 1
        if plan.key is not None and headers.get("authorization") != f"Bearer {plan.key}":
            given = headers.get("authorization", "nothing")
            return None, message(401, error(f"Incorrect API key provided: {given}", code="invalid_api_key"))
        if plan.models is not None and body["model"] not in plan.models:
            said = f"The model `{body['model']}` does not exist."
            return None, message(404, error(said, code="model_not_found"))
        if plan.reply is not None and (reply := plan.reply(body)) is not None:
            return None, reply
        good = GOOD[kind](plan, body)
        met = self._met[digest := hashlib.sha256(raw).digest()]
        if plan.faults and met < plan.each:
            self._met[digest] += 1
            fault = plan.faults[(digest[0] + met) % len(plan.faults)]
            return fault, FAULTS[fault](good)
        log.answered[prompt] += 1
        return None, message(200, good)


def main() -> None:
    """Print the port, and serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", default="", help="with commas between: " + ",".join(FAULTS))
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--forget", action="store_true", help="keep no log, so that memory stays flat")
    given = parser.parse_args()
    faults = [name for name in given.faults.split(",") if name]
    plan = Plan(faults=faults, each=given.each, delay=given.delay, log=not given.forget)
    asyncio.run(ChatServer(plan).serve(lambda port: print(port, flush=True)))


if __name__ == "__main__":
    main()
