"""What a service of bad will, or a broken one, may send: each does the same to every call."""

import asyncio
import json
import time
from email.utils import formatdate
from typing import Any

import pytest

from tests.llm.server import completion, error, message

KEY = "sk-hush-7f3A91c05e-Zq8w"
"""What a test sets as key, and no text may hold afterwards."""


def skip_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no call of a service wait; the list gets the seconds that it would have waited."""
    waits = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr("anyio.sleep", sleep)
    return waits


def choice(**more: Any) -> bytes:
    """A good answer, but for what is given."""
    whole = {"choices": [{"message": {"content": "Cats."}, "finish_reason": "stop"}]} | more
    return message(200, json.dumps(whole).encode())


def usage(count: str) -> bytes:
    """A good answer with ``count``, a JSON literal, for all token counts."""
    counts = f'"usage": {{"prompt_tokens": {count}, "completion_tokens": {count}}}'
    return message(200, f'{{"choices": [{{"message": {{"content": "Cats."}}}}], {counts}}}'.encode())


def deep(depth: int) -> str:
    """Lists in lists."""
    return "[" * depth + "]" * depth


def later(status: int, when: str) -> bytes:
    """Too many calls, or not now: come back ``when``."""
    return message(status, error("later"), f"Retry-After: {when}")


def moved(status: int, *headers: str) -> bytes:
    """A redirect."""
    return message(status, b"", *headers)


WHENS = {
    **{"past": formatdate(time.time() - 9999, usegmt=True), "zero": "0", "negative": "-1", "nan": "nan", "empty": ""},
    **{"tiny": "1e-9", "huge": "1e300", "infinite": "inf", "minus-infinite": "-inf", "digits": "9" * 4000},
    **{"words": "tomorrow", "bad-date": "Fri, 99 Foo 2026 99:99:99 GMT", "far": "Fri, 31 Dec 9999 23:59:59 GMT"},
    **{"year-0": "Fri, 31 Dec 0000 23:59:59 GMT", "year-99999": "Fri, 31 Dec 99999 23:59:59 GMT"},
    **{"zone": "Fri, 31 Dec 1999 23:59:59 +9999", "no-zone": "Mon, 01 Jan 0001 00:00:00 -0000", "bytes": "\x1b[2J"},
}

REPLIES: dict[str, bytes] = {
    # the same to everything
    **{f"{status}": message(status, error("no")) for status in (204, 400, 401, 403, 404, 413, 422, 500, 503, 599, 999)},
    "html": message(200, b"<html>hello</html>"),
    "nothing": message(200, b""),
    # waiting
    **{f"429-{name}": later(429, when) for name, when in WHENS.items()},
    **{f"503-{name}": later(503, when) for name, when in WHENS.items()},
    # elsewhere
    **{f"moved-{status}": moved(status, f"Location: http://127.0.0.1:9/v1?k={KEY}") for status in (301, 302, 303, 307)},
    "moved-nowhere": moved(308),
    "moved-to-no-address": moved(301, "Location: http://[::1"),
    "moved-far": moved(301, "Location: http://" + "x" * 5000),
    # JSON of another shape
    **{
        f"json-{number}": message(200, text.encode())
        for number, text in enumerate(
            (
                *("null", "[]", "5", "NaN", '"choices"', "{}", '{"choices": null}', '{"choices": {}}', "1" * 5000),
                *('{"choices": [null]}', '{"choices": [{"message": null}]}', '{"choices": [{"message": []}]}'),
                *('{"choices": [{"message": {"content": 5}}]}', '{"choices": [{"message": {"content": {"a": 1}}}]}'),
                *('{"error": null}', '{"error": {"code": 1e400}}', '{"error": {"code": true, "message": ["x"]}}'),
                *('{"error": {"code": 200}}', f'{{"error": {{"code": {"9" * 999}}}}}', '{"error": {"message": {}}}'),
            )
        )
    },
    "not-utf-8": message(200, b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    **{
        f"deep-{where}-{depth}": message(status, (before + deep(depth) + after).encode())
        for depth in (300, 200_000)
        for where, status, before, after in (
            ("answer", 200, "", ""),
            ("error", 400, '{"error": {"message": ', "}}"),
            ("code", 400, '{"error": {"message": "no", "code": ', "}}"),
            ("error-in-200", 200, '{"error": {"message": ', "}}"),
            ("finish", 200, '{"choices": [{"message": {"content": "Cats."}, "finish_reason": ', "}]}"),
            ("content", 200, '{"choices": [{"message": {"content": ', "}}]}"),
            ("usage", 200, '{"choices": [{"message": {"content": "Cats."}}], "usage": ', "}"),
        )
    },
    # numbers
    **{
        f"tokens-{number}": usage(count)
        for number, count in enumerate(
            ("9223372036854775807", "9223372036854775808", "1" * 400, "-5", "1e400", "NaN", "true", '"12"', "2.5", "0")
        )
    },
    # sizes
    "large-answer": message(200, completion("word " * (2 << 20))),
    "large-failure": message(400, error("x" * (1 << 20))),
    "long-answer": message(200, completion("word " * 60_000)),
    "long-finish": choice(choices=[{"message": {"content": "Cats."}, "finish_reason": "x" * 10_000}]),
    "packed-badly": message(200, b"no gzip", "Content-Encoding: gzip"),
    "thoughts": message(200, completion("<think>" * 20_000)),
    "headers": message(200, completion("Cats."), *(f"X-{number}: {'x' * 900}" for number in range(200))),
    "cookies": message(200, completion("Cats."), *(f"Set-Cookie: {number}={KEY}" for number in range(50))),
    # text
    "escapes": message(200, completion("\x1b[31mred\x07\x00 and\u202eturned")),
    "escapes-in-a-failure": message(401, error("\x1b]0;title\x07\x1b[2J\u202e no\u2028line\nline")),
    "half-a-pair": message(200, json.dumps({"choices": [{"message": {"content": "\ud800"}}]}).encode()),
    # the key
    "key-in-a-failure": message(401, error(f"bad key {KEY}")),
    "key-in-a-passing-failure": message(503, error(f"bad key {KEY}")),
    "key-in-an-answer": message(200, completion(f"Cats. {KEY}")),
    "key-in-no-json": message(200, f"<p>{KEY}</p>".encode()),
    "key-in-the-type": message(200, json.dumps({KEY: 1}).encode()),
    "key-in-the-finish": choice(choices=[{"message": {"content": "Cats."}, "finish_reason": KEY}]),
    "key-in-the-address": moved(301, f"Location: http://{KEY}@127.0.0.1/{KEY}"),
}
