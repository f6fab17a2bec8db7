"""An HTTP service that speaks one of OpenAI's protocols, called by OpenAI's client, which retries.

Each call has a limit of time and of size, however slowly or fast the service answers. The key comes from the
environment and is sent to the one address. No spec, store or message contains it.
"""

import json
import os
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
from openai import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    DefaultAsyncHttpxClient,
    Omit,
    Timeout,
)

from retrokit.core.calls import PromptRefused, ServerFailed, encodable
from retrokit.core.errors import ServiceError, UsageError, shortened
from retrokit.core.notices import notice

OFFICIAL = "https://api.openai.com/v1"
FEW, MANY = 2, 5
"""Retries of a call, and the further ones of a failure that may pass, once the service has answered anything."""
PATIENCE, PAUSE = 900.0, 30.0
"""Seconds that a call waits in all for a service that limits the rate after its retries, and at least each time."""
LARGEST_ANSWER, LARGEST_PER_TEXT = 16 << 20, 256 << 10
"""Bytes of an answer, and the bytes that each text of the request adds to that limit."""
_OF_SOME_TEXT = {424, 500}  # TEI answers 424 if the model fails

AnyService = TypeVar("AnyService", bound="Service")


class _BoundedClient(DefaultAsyncHttpxClient):
    """An HTTP client that ends each request, redirects included, after ``seconds`` or at ``largest`` bytes."""

    def __init__(self, where: str, seconds: float) -> None:
        super().__init__()
        self.largest = LARGEST_ANSWER
        self._where, self._seconds = where, seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The response with its content.

        Raises:
            httpx2.ReadTimeout: the response has not ended in time.
            ServiceError: it is too large.
        """
        options = {**options, "stream": True, "follow_redirects": False}
        try:
            with anyio.fail_after(self._seconds):
                response = await super().send(request, **options)
                for _ in range(self.max_redirects):
                    if response.next_request is None:
                        break
                    await response.aclose()
                    response = await super().send(response.next_request, **options)
                return await self._with_content(response)
        except TimeoutError as error:
            raise httpx2.ReadTimeout(f"no end in {self._seconds:g} s", request=request) from error

    async def _with_content(self, response: httpx2.Response) -> httpx2.Response:
        content = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > self.largest:
                    limit = f"{self.largest / (1 << 20):,.0f} MiB"
                    raise ServiceError(f"{self._where}: the answer is larger than {limit}, the limit; check the url")
        finally:
            await response.aclose()
        headers = response.headers.copy()
        headers.pop("content-encoding", None)  # the content is decoded
        return httpx2.Response(
            status_code=response.status_code,
            headers=headers,
            content=bytes(content),
            request=response.request,
            extensions=response.extensions,
        )


class Service:
    """One model of one service, used from one event loop at a time.

    Args:
        model: as the service calls it.
        url: up to ``/v1``; ``/v1`` is added if there is no path.
        path: the endpoint, such as ``chat/completions``.
        key: sent as a bearer token; ``None`` sends none.
        key_name: the environment variable of the key, for messages.
        timeout: seconds that a call may take until its answer has ended; a retry has as many again.

    Attributes:
        where: the address, for messages.
    """

    def __init__(self, model: str, url: str, path: str, key: str | None, key_name: str, timeout: float) -> None:
        self.model, self.key_name = model, key_name
        self._path, self._key, self._timeout = path, key, timeout
        self._base, self._query = _base(url, path)
        self.where = f"{self._base}/{path}"
        self._client: AsyncOpenAI | None = None
        self._http: _BoundedClient | None = None
        self._answered = self._noticed = False

    async def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def post(self, body: Mapping[str, Any], patient: bool = True, texts: int = 0) -> Any:
        """The JSON that the service answers to ``body``.

        Args:
            patient: whether a failure within the server is retried as often as others that may pass.
            texts: texts in ``body`` that have an answer each, for the limit of the answer's size.

        Raises:
            PromptRefused, ServerFailed, ServiceError: what happened, in a line that names the address.
        """
        client = self._open(LARGEST_ANSWER + texts * LARGEST_PER_TEXT)
        options = self._options()
        retries, waited = FEW, 0.0
        while True:
            options["max_retries"] = retries
            try:
                answer = await client.post(f"/{self._path}", body=dict(body), cast_to=object, options=options)
                self._answered = True
                return self._checked(answer)
            except APIStatusError as error:
                self._answered, failure = True, self._failure(error)
                if retries == FEW and _may_pass(error) and (patient or not isinstance(failure, ServerFailed)):
                    retries = MANY
                    continue
                wait = self._wait(error, failure, waited)
                waited, retries = waited + wait, 0
                await anyio.sleep(wait)
            except APIConnectionError as error:
                if self._answered and retries == FEW:
                    retries = MANY
                    continue
                raise self._no_answer(error) from error
            except (ValueError, RecursionError) as error:
                begins = self.brief(repr(str(getattr(error, "doc", ""))[:60].strip()))
                problem = f"the answer is not JSON and begins {begins}; check the url"
                raise ServiceError(f"{self.where}: {problem}") from error

    def _options(self) -> Any:
        return {} if self._key else {"headers": {"Authorization": Omit()}}

    def _wait(self, error: APIStatusError, failure: ServiceError, waited: float) -> float:
        """Seconds to wait for a service that limits the rate of calls; raises ``failure`` for any other, and if it has
        ``waited`` too long."""
        wait = max(PAUSE, _seconds(error.response.headers.get("retry-after")))
        if not _limits_rate(error) or waited + wait > PATIENCE:
            raise failure from error
        if not self._noticed:
            self._noticed = True
            notice(f"{failure}; waiting {wait:.0f} s")
        return wait

    def _open(self, largest: int) -> AsyncOpenAI:
        """The client, whose answers may have as many bytes."""
        if self._client is None or self._http is None:
            self._http = _BoundedClient(self.where, self._timeout)
            self._client = AsyncOpenAI(
                base_url=self._base,
                api_key=self._key or "none",
                timeout=Timeout(self._timeout, connect=min(self._timeout, 15.0)),
                default_query=self._query,
                http_client=self._http,
            )
        self._http.largest = max(self._http.largest, largest)
        return self._client

    def _no_answer(self, error: APIConnectionError) -> ServiceError:
        if isinstance(error, APITimeoutError):
            return ServiceError(f"{self.where}: no complete answer in {self._timeout:g} s")
        return ServiceError(f"{self.where}: {self.brief(error.__cause__ or error)}; is the service running?")

    def unexpected(self, answer: Any, expected: str) -> ServiceError:
        """The error for an answer of another shape: how it begins, and the expected shape."""
        return ServiceError(f"{self.where}: unexpected answer {self.brief(answer)}; expected {expected}")

    def redacted(self, text: str) -> str:
        """``text`` without the key, unless that is a short word such as ``EMPTY``, which any text may contain."""
        return text.replace(self._key, "…") if self._key and len(self._key) >= 8 else text

    def _checked(self, answer: Any) -> Any:
        """The JSON of an answer. Raises :class:`ServiceError` for one that reports a failure."""
        if isinstance(answer, str):
            answer = json.loads(answer)
        error = answer.get("error") if isinstance(answer, dict) else None
        if error and not {"choices", "data", "results"} & answer.keys():
            code = error.get("code", 200) if isinstance(error, dict) else 200
            raise ServiceError(f"{self.where}: {self.brief(_message(error))} ({self.brief(code)})")
        return answer

    def _failure(self, error: APIStatusError) -> ServiceError:
        """The error for an answer with another status than 200."""
        status = error.status_code
        said = f"{self.brief(_message(error.body) or error.response.reason_phrase or 'it failed')} ({status})"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            how = f"does not take the key in {self.key_name}" if self._key else f"wants a key; set {self.key_name}"
            return ServiceError(f"{self.where} {how}: {said}")
        if status == HTTPStatus.NOT_FOUND:
            return ServiceError(f"{self.where} has no model {self.model!r}, or is no such service: {said}")
        if status in (400, 413, 422):
            return PromptRefused(f"{self.where} refuses the request: {said}")
        return (ServerFailed if status in _OF_SOME_TEXT else ServiceError)(f"{self.where}: {said}")

    def brief(self, words: object) -> str:
        """The words of a service or a library on one line, not too long, and without the key."""
        return shortened(self.redacted(str(words)), 300)


def service(
    kind: type[AnyService], entry: str, model: str, url: str, path: str, key_env: str, timeout: float
) -> AnyService:
    """The service of ``url``, of a ``kind``, for the spec ``entry:model``. Its key comes from the environment variable
    ``key_env``.

    Raises:
        UsageError: no valid address, one that contains a secret, or no key although OpenAI's own service needs one.
    """
    if encodable(model) != model:
        raise UsageError(f"the model's name {model!r} is not a valid text")
    key = os.environ.get(key_env, "").strip() or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {key_env} contains characters that no key has")
    if key is None and url == OFFICIAL:
        raise UsageError(f"{entry}:{model} needs a key: set {key_env}, or give the url of another service")
    return kind(model, url, path, key, key_env, timeout)


def _base(url: str, path: str) -> tuple[str, dict[str, str]]:
    """The address in front of ``/path``, and its query."""
    try:
        address = urlsplit(url)
        is_valid = address.hostname is not None and address.port != 0 and address.scheme in ("http", "https")
    except ValueError:  # a port that is no number
        is_valid = False
    if not is_valid:
        raise UsageError("the service's url is not an address; expected one like http://localhost:8000/v1")
    query = dict(parse_qsl(address.query))
    if "@" in address.netloc or any(re.search("key|token", name, re.IGNORECASE) for name in query):
        raise UsageError(
            f"the url of {address.hostname} contains a key or password; put it into an environment variable"
        )
    folder = address.path.rstrip("/")
    if folder.endswith(f"/{path}"):
        folder = folder.removesuffix(f"/{path}")
    elif not folder:
        folder = "/v1"
    return f"{address.scheme}://{address.netloc}{folder}", query


def _may_pass(error: APIStatusError) -> bool:
    """Whether a later call may succeed."""
    if _has_no_quota(error):
        return False
    return error.status_code in (408, 409, 429) or error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR


def _limits_rate(error: APIStatusError) -> bool:
    return error.status_code == HTTPStatus.TOO_MANY_REQUESTS and not _has_no_quota(error)


def _has_no_quota(error: APIStatusError) -> bool:
    return "insufficient_quota" in (error.code, error.type)


def _message(error: object) -> str:
    """The words of an error, in OpenAI's form or in others'; none of a page in HTML."""
    if isinstance(error, dict):
        error = next(filter(None, map(error.get, ("message", "error", "detail", "msg"))), "")
    return "" if str(error).startswith("<") else str(error)


def _seconds(text: str | None) -> float:
    """Seconds that ``Retry-After`` asks to wait; 0 if it is a date or nothing sensible."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
