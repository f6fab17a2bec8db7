"""An HTTP service that speaks one of OpenAI's protocols: one address, its key, and what its failures mean.

The key comes from the environment. It is sent to the one address, and nothing else is done with it: no spec, store,
message or log holds it. Nothing that a service sends is trusted to be short, sound or soon. One object is used from one
event loop.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import httpx2

from retrokit.core.errors import ServiceError, UsageError
from retrokit.llm.base import PromptRefused, ServerFailed, TryAgain, encodable
from retrokit.llm.secret import Secret

OFFICIAL = "https://api.openai.com/v1"
_CONNECT = 15.0
_MOST_BYTES_OF_A_FAILURE = 64 << 10
# the others can make gigabytes of one piece
_ENCODINGS = ("", "identity", "gzip", "deflate")
_PASSING = {408, 409, 425, 429}
_FOR_GOOD = {501, 505}
# TEI answers 424 where the model fails
_OF_SOME_TEXT = {424, 500}
_ABOUT_THE_REQUEST = {400, 413, 422}
_WORDS_FOR_PASSING = re.compile("rate.?limit|overload|unavailable|timeout|server.?error|internal", re.IGNORECASE)
_JSON_TYPES = {str: "text", int: "number", float: "number", bool: "boolean", type(None): "null"}


Answer = TypeVar("Answer")


class Reply(NamedTuple):
    """Status, headers and JSON that a service sent; ``json`` is ``None`` for a failure without JSON."""

    status: int
    headers: Mapping[str, str]
    json: Any


class Service:
    """One model of one service.

    Args:
        model: as the service calls it.
        url: up to ``/v1``; where there is no path, ``/v1`` is added.
        path: what is asked for behind it, such as ``chat/completions``.
        key: sent as a bearer token; ``None`` sends none.
        key_name: where the key came from, or should, for messages.
        timeout: seconds that a call may take, from the first connection to the last byte.
        most_bytes: of an answer.
    """

    def __init__(
        self, model: str, url: str, path: str, key: str | None, key_name: str, timeout: float, most_bytes: int = 8 << 20
    ) -> None:
        self.model = model
        self.key_name = key_name
        self._endpoint = _endpoint(url, path)
        self._secret = None if key is None else Secret(key)
        self._most_bytes = most_bytes
        self._seconds = timeout
        self._timeout = httpx2.Timeout(timeout, connect=min(timeout, _CONNECT))
        # to load the certificates takes its time, which http:// does not need
        is_safe = self._endpoint.scheme == "https"
        self._tls = httpx2.create_ssl_context() if is_safe else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._idle: list[httpx2.AsyncClient] = []

    @property
    def where(self) -> str:
        """The address, for messages."""
        return str(self._endpoint.copy_with(query=None))

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop().aclose()

    def holds_key(self, text: str) -> bool:
        """Whether the key is in a text."""
        return self._secret is not None and self._secret.inside(text)

    async def post(self, body: Mapping[str, Any]) -> Reply:
        """The reply to ``body``, whatever its status.

        Raises:
            TryAgain: no answer in time, a broken connection, or JSON that is cut off.
            ServiceError: an answer that is too large, no JSON, or packed in a way that was not requested.
            UsageError: no address for HTTP.
        """
        # each client has one connection: a pool of many looks at all of them for every call
        client = self._idle.pop() if self._idle else self._client()
        try:
            # the client's own limit is for each piece: a byte a second would never end
            async with asyncio.timeout(self._seconds), client.stream("POST", self._endpoint, json=body) as response:
                return Reply(response.status_code, response.headers, self._parsed(response, await self._read(response)))
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise TryAgain(f"{self.where}: no answer in {self._seconds:g} s") from error
        except httpx2.UnsupportedProtocol as error:
            raise UsageError(f"{self.where} is not an http:// or https:// address") from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise (ServiceError if _is_permanent(error) else TryAgain)(
                f"{self.where}: {self._told(error) or 'the connection broke'}"
            ) from error
        finally:
            self._idle.append(client)

    def _client(self) -> httpx2.AsyncClient:
        headers = {"Accept-Encoding": "gzip, deflate"}
        if self._secret is not None:
            headers["Authorization"] = f"Bearer {self._secret.key}"
        return httpx2.AsyncClient(headers=headers, timeout=self._timeout, verify=self._tls)

    def _parsed(self, response: httpx2.Response, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            if response.status_code != HTTPStatus.OK:
                return None
            begins = body[:200].decode("utf-8", "replace").strip()
            if begins[:1] in ("", "{", "[") and not isinstance(error, RecursionError):
                raise TryAgain(f"{self.where}: the answer is {'cut off' if begins else 'empty'}") from error
            kind = response.headers.get("content-type", "unknown type")
            words = self._told(f"{begins[:60]!r} ({kind})")
            raise ServiceError(f"{self.where}: the answer is not JSON and begins {words}; check the url") from error

    async def _read(self, response: httpx2.Response) -> bytes:
        """The body; of a failure, as much as a message can be made of."""
        if response.headers.get("content-encoding", "").strip().lower() not in _ENCODINGS:
            raise ServiceError(f"{self.where}: the answer is packed in a way that was not asked for")
        good = response.status_code == HTTPStatus.OK
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if good and len(body) > self._most_bytes:
                raise ServiceError(f"{self.where}: an answer of more than {self._most_bytes >> 20} MB")
            if not good and len(body) > _MOST_BYTES_OF_A_FAILURE:
                break
        return bytes(body)

    async def each(
        self,
        body: Mapping[str, Any],
        names: tuple[str, ...],
        count: int,
        read: Callable[[Any, int], tuple[int, Answer]],
        expected: str,
    ) -> list[Answer]:
        """The answers to ``count`` items, in the items' order.

        Args:
            names: fields that may hold the list of answers; a bare list is read too.
            read: an answer and its place in the list to the item's index and the value; what it raises of LookupError,
                TypeError, ValueError means that the answer has another shape.
            expected: the shape of an answer, for messages.

        Raises:
            TryAgain: as :meth:`post`.
            ServiceError: answers of another shape or number; and as :meth:`checked`.
        """
        answer = self.checked(await self.post(body))
        fields = answer if isinstance(answer, dict) else {}
        rows = answer if isinstance(answer, list) else next((fields[name] for name in names if name in fields), None)
        if not isinstance(rows, list):
            raise self.unexpected(answer, f"{names[0]}: list of {count} of {expected}")
        if len(rows) != count:
            raise ServiceError(f"{self.where}: {len(rows):,} answers for {count:,} texts; expected one for each")
        values: dict[int, Answer] = {}
        for place, row in enumerate(rows):
            try:
                index, value = read(row, place)
                if index in values or index not in range(count):
                    wrong = f"the index {self._told(repr(index))} in answer {place}"
                    raise ServiceError(f"{self.where}: {wrong}; expected each of 0 to {count - 1} once")
                values[index] = value
            except (LookupError, TypeError, ValueError, OverflowError) as error:
                raise self.unexpected(row, f"{expected} for each text") from error
        return [values[index] for index in range(count)]

    def checked(self, reply: Reply) -> Any:
        """The JSON of a reply of status 200. Raises as :meth:`failure` for others, and for an error in place of it."""
        if reply.status != HTTPStatus.OK:
            raise self.failure(reply)
        answer = reply.json
        if isinstance(answer, dict) and answer.get("error") and not {"choices", "data", "results"} & answer.keys():
            error = error_of(answer)
            code, kind = error.get("code", ""), error.get("type", "")
            if code in map(str, range(400, 600)):
                raise self.failure(reply, int(code))
            raise self.failure(reply, 502 if _WORDS_FOR_PASSING.search(f"{code} {kind}") else None)
        return answer

    def unexpected(self, answer: Any, expected: str) -> ServiceError:
        """The error for an answer of another shape: the fields and types that came, and those expected."""
        words = error_of(answer).get("message") if isinstance(answer, dict) else None
        says = f" and says {self._told(words)}" if words else ""
        return ServiceError(f"{self.where}: the answer is {self._told(shape_of(answer))}{says}; expected {expected}")

    def failure(self, reply: Reply, status: int | None = None) -> ServiceError:
        """What an answer other than 200 means, in a line."""
        status = status or reply.status
        error = error_of(reply.json)
        phrases = {known.value: known.phrase for known in HTTPStatus}
        said = self._told(error.get("message") or phrases.get(status, "it failed"))
        if status == HTTPStatus.TOO_MANY_REQUESTS and "insufficient_quota" in (error.get("code"), error.get("type")):
            return ServiceError(f"{self.where}: {said} (429)")
        if status in _OF_SOME_TEXT:
            return ServerFailed(f"{self.where}: {said} ({status})", _retry_after(reply.headers))
        if status in _PASSING or (status >= HTTPStatus.INTERNAL_SERVER_ERROR and status not in _FOR_GOOD):
            limited = status == HTTPStatus.TOO_MANY_REQUESTS
            return TryAgain(f"{self.where}: {said} ({status})", _retry_after(reply.headers), limited)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            takes_none = f"wants a key; set {self.key_name}"
            how = takes_none if self._secret is None else f"does not take the key in {self.key_name}"
            return ServiceError(f"{self.where} {how}: {said} ({status})")
        if status == HTTPStatus.NOT_FOUND:
            return ServiceError(f"{self.where} has no model {self.model!r}, or is no such service: {said} (404)")
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST and "location" in reply.headers:
            target = self._told(reply.headers["location"].partition("?")[0])
            return ServiceError(f"{self.where} has moved to {target} ({status}): give that as url")
        if status in _ABOUT_THE_REQUEST:
            return PromptRefused(f"{self.where} refuses the request: {said} ({status})")
        return ServiceError(f"{self.where}: {said} ({status})")

    def _told(self, what: object) -> str:
        """What a service or a library says, on one line, not too long, and without the key."""
        line = " ".join(str(what).split())
        if self._secret is not None:
            line = line.replace(self._secret.key, "…")
            if self._secret.inside(line):
                return "(what it says holds the key)"
        return line if len(line) <= 300 else line[:299] + "…"


def service(
    entry: str, model: str, url: str | None, path: str, key_env: str, timeout: float, most_bytes: int = 8 << 20
) -> Service:
    """The service of ``url``, by default ``OPENAI_BASE_URL`` or OpenAI's own, for the spec ``entry:model``. Its key
    comes from the environment variable ``key_env``.

    Raises:
        UsageError: an address that is none or holds a secret, or no key where OpenAI's own service needs one.
    """
    url = url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL
    if encodable(model) != model:
        raise UsageError(f"the model's name {model!r} is not a valid text")
    key = os.environ.get(key_env, "").strip() or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {key_env} holds characters that no key has")
    if key is None and url == OFFICIAL:
        raise UsageError(f"{entry}:{model} needs a key: set {key_env}, or give the url of another service")
    return Service(model, url, path, key, key_env, timeout, most_bytes)


def _endpoint(url: str, kind: str) -> httpx2.URL:
    try:
        whole = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        whole = httpx2.URL()
    if whole.scheme not in ("http", "https") or not whole.host:
        raise UsageError("the service's url is not an address; expected one like http://localhost:8000/v1")
    if whole.userinfo or any("key" in name.lower() or "token" in name.lower() for name in whole.params):
        raise UsageError(f"the url of {whole.host} holds a key or password; put it into an environment variable")
    path = whole.path.rstrip("/")
    return whole.copy_with(path=path if path.endswith(f"/{kind}") else f"{path or '/v1'}/{kind}")


def _is_permanent(error: BaseException | None) -> bool:
    """Whether a connection failed for an unknown host, or for a certificate or protocol of TLS."""
    while error is not None and not isinstance(error, httpx2.ReadError | httpx2.WriteError):
        if isinstance(error, ssl.SSLError) or getattr(error, "errno", None) == socket.EAI_NONAME:
            return True
        error = error.__cause__ or error.__context__
    return False


def shape_of(value: Any, depth: int = 5) -> str:
    """The fields and types of JSON, of a list those of its first element.

    >>> shape_of({"data": [{"index": 0, "embedding": [[0.5, 1], [2, 3]]}], "model": None})
    '{data: list of 1 of {index: number, embedding: list of 2 of list of 2 of number}, model: null}'
    """
    if isinstance(value, dict) and depth:
        fields = [f"{name}: {shape_of(inside, depth - 1)}" for name, inside in islice(value.items(), 8)]
        return f"{{{', '.join([*fields, *(['…'] if len(value) > len(fields) else [])])}}}"
    if isinstance(value, list):
        return f"list of {len(value)}" + (f" of {shape_of(value[0], depth - 1)}" if value and depth else "")
    return _JSON_TYPES.get(type(value), "object")


def error_of(body: Any) -> dict[str, str]:
    """The error that a service describes, in OpenAI's form or what others send: ``message``, ``code``, ``param`` and
    ``type``, as far as they are there."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return {} if error is None else {"message": _text_of(error)}
    named = {name: error.get(name) for name in ("code", "param", "type")}
    named["message"] = next(filter(None, map(error.get, ("message", "detail", "msg"))), None)
    return {name: _text_of(value) for name, value in named.items() if value is not None}


def _text_of(value: Any) -> str:
    """A string as it is, and else its JSON, unless that is nested too deep."""
    try:
        return value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        return ""


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``Retry-After`` asks to wait, written as seconds or as a date; ``None`` if it says neither, or a
    time that is over."""
    text = headers.get("retry-after", "")
    try:
        wait = float(text)
    except ValueError:
        try:
            wait = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, IndexError, OverflowError, OSError):
            return None
    return wait if wait > 0 and not math.isnan(wait) else None
