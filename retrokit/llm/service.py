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
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

import httpx2

from retrokit.errors import ServiceError, UsageError
from retrokit.llm.base import PromptRefused, TryAgain, encodable
from retrokit.llm.secret import Secret

OFFICIAL = "https://api.openai.com/v1"
_CONNECT = 15.0
_MOST_BYTES_OF_A_FAILURE = 64 << 10
# the others can make gigabytes of one piece
_ENCODINGS = ("", "identity", "gzip", "deflate")
_PASSING = {408, 409, 425, 429}
_ABOUT_THE_REQUEST = {400, 413, 422}


Answer = TypeVar("Answer")


class Reply(NamedTuple):
    """What a service sent: its status, its headers, and its JSON, ``None`` where it is none."""

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

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client that nobody else uses meanwhile, so that it has one connection: a pool of many would look at all
        of them whenever it takes one."""
        headers = {"Accept-Encoding": "gzip, deflate"}
        if self._secret is not None:
            headers["Authorization"] = f"Bearer {self._secret.key}"
        if self._idle:
            client = self._idle.pop()
        else:
            client = httpx2.AsyncClient(headers=headers, timeout=self._timeout, verify=self._tls)
        try:
            yield client
        finally:
            if _has_more(client):
                await client.aclose()
            else:
                self._idle.append(client)

    async def post(self, body: Mapping[str, Any]) -> Reply:
        """What the service answers to ``body``, whatever its status.

        Raises:
            TryAgain: no answer in time, or a broken connection.
            ServiceError: an answer that is too large, or packed otherwise than was asked for.
            UsageError: no address for HTTP.
        """
        try:
            # the client's own limit is for each piece: a byte a second would never end
            async with (
                asyncio.timeout(self._seconds),
                self._client() as client,
                client.stream("POST", self._endpoint, json=body) as response,
            ):
                return Reply(response.status_code, response.headers, _parsed(await self._read(response)))
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise TryAgain(f"{self.where}: no answer in {self._seconds:g} s") from error
        except httpx2.UnsupportedProtocol as error:
            raise UsageError(f"{self.where} is not an http:// or https:// address") from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise TryAgain(f"{self.where}: {self._told(error) or 'the connection broke'}") from error

    async def _read(self, response: httpx2.Response) -> bytes:
        """The body; of a failure, as much as a message can be made of."""
        if response.headers.get("content-encoding", "").strip().lower() not in _ENCODINGS:
            raise ServiceError(f"{self.where}: the answer is packed in a way that was not asked for")
        good = response.status_code == HTTPStatus.OK
        found = bytearray()
        async for part in response.aiter_bytes():
            found += part
            if good and len(found) > self._most_bytes:
                raise ServiceError(f"{self.where}: an answer of more than {self._most_bytes >> 20} MB")
            if not good and len(found) > _MOST_BYTES_OF_A_FAILURE:
                break
        return bytes(found)

    async def each(
        self, body: Mapping[str, Any], name: str, count: int, read: Callable[[list[Any]], Answer], what: str
    ) -> Answer:
        """What ``read`` makes of the answers to ``count`` things, a list called ``name``, in the things' order.

        Raises:
            TryAgain: they are not ``what`` was asked for; and as :meth:`post`.
            ServiceError: as :meth:`failure`.
        """
        reply = await self.post(body)
        if reply.status != HTTPStatus.OK:
            raise self.failure(reply)
        try:
            answers = sorted(reply.json[name], key=lambda answer: int(answer["index"]))
            if [answer["index"] for answer in answers] != list(range(count)):
                raise ValueError
            return read(answers)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise TryAgain(f"{self.where}: the answer is cut off or no {what}") from error

    def failure(self, reply: Reply, status: int | None = None) -> ServiceError:
        """What an answer other than 200 means, in a line."""
        status = status or reply.status
        error = error_of(reply.json)
        phrases = {known.value: known.phrase for known in HTTPStatus}
        said = self._told(error.get("message") or phrases.get(status, "it failed"))
        if status == HTTPStatus.TOO_MANY_REQUESTS and error.get("code") == "insufficient_quota":
            return ServiceError(f"{self.where}: {said} (429)")
        if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
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
    path = whole.path.rstrip("/").removesuffix(f"/{kind}") or "/v1"
    return whole.copy_with(path=f"{path}/{kind}")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _has_more(client: httpx2.AsyncClient) -> bool:
    """Whether a service sent more than its answer, which the client would take for the answer to the next call."""
    pool = client._transport._pool  # type: ignore[attr-defined]
    return any(held._connection._h11_state.trailing_data[0] for held in pool.connections if held._connection)


def error_of(body: Any) -> dict[str, str]:
    """The error that a service describes, in OpenAI's form or what others send: ``message``, ``code``, ``param``, as
    far as they are there."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return {} if error is None else {"message": _text_of(error)}
    named = {name: error.get(name) for name in ("code", "param")}
    named["message"] = error.get("message") or error.get("detail")
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
