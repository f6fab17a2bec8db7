"""A model behind OpenAI's chat protocol (``POST …/v1/chat/completions``): vLLM, llama.cpp, Ollama, hosted ones.

The key comes from the environment. It is sent, and nothing else is done with it: no spec, store, message or log holds
it. One object is used from one event loop.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx2

from retrokit.errors import ServiceError, UsageError
from retrokit.llm.base import (
    Completion,
    PromptRefused,
    Sampling,
    TryAgain,
    encodable,
    estimated_tokens,
    without_thinking,
)
from retrokit.notices import notice

OFFICIAL = "https://api.openai.com/v1"
_CONNECT = 15.0
_PASSING = {408, 409, 425, 429}
_ABOUT_THE_PROMPT = {400, 413, 422}
_OPTIONAL = ("temperature", "top_p", "seed")


class OpenAILLM:
    """One model of one service.

    Args:
        model: as the service calls it.
        url: up to ``/v1``; where there is no path, ``/v1`` is added.
        key: sent as a bearer token; ``None`` sends none.
        key_name: where the key came from, or should, for messages.
        timeout: seconds to wait for an answer.
    """

    spec = ""

    def __init__(self, model: str, url: str, key: str | None, key_name: str, timeout: float) -> None:
        self.identity = model
        self._model = model
        self._endpoint = _endpoint(url)
        self._key = key
        self._key_name = key_name
        self._timeout = httpx2.Timeout(timeout, connect=min(timeout, _CONNECT))
        self._tls = httpx2.create_ssl_context()
        self._idle: list[httpx2.AsyncClient] = []
        self._length = "max_tokens"
        self._refused: set[str] = set()

    @property
    def where(self) -> str:
        """The address, for messages."""
        return str(self._endpoint.copy_with(query=None))

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt; raises as :class:`retrokit.llm.base.LLM` says."""
        while True:
            body = self._body(prompt, system, sampling)
            response = await self._sent(body)
            if response.status_code != HTTPStatus.OK:
                if self._adapts(response, body):
                    continue
                raise self._failure(response)
            return self._completion(response, prompt, system)

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop().aclose()

    def _body(self, prompt: str, system: str | None, sampling: Sampling) -> dict[str, Any]:
        messages = [{"role": "system", "content": system}] if system is not None else []
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [*messages, {"role": "user", "content": prompt}],
            self._length: sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.top_p != 1:
            body["top_p"] = sampling.top_p
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return {name: value for name, value in body.items() if name not in self._refused}

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client that nobody else uses meanwhile, so that it has one connection: a pool of many would look at all
        of them whenever it takes one."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        if self._idle:
            client = self._idle.pop()
        else:
            client = httpx2.AsyncClient(headers=headers, timeout=self._timeout, verify=self._tls)
        try:
            yield client
        finally:
            self._idle.append(client)

    async def _sent(self, body: Mapping[str, Any]) -> httpx2.Response:
        try:
            async with self._client() as client:
                return await client.post(self._endpoint, json=body)
        except httpx2.TimeoutException as error:
            raise TryAgain(f"{self.where}: no answer in time ({type(error).__name__})") from error
        except httpx2.UnsupportedProtocol as error:
            raise UsageError(f"{self.where} is no http:// or https:// address") from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise TryAgain(f"{self.where}: {self._told(error) or 'the connection broke'}") from error

    def _adapts(self, response: httpx2.Response, body: Mapping[str, Any]) -> bool:
        """Whether the service only wants a setting spelled differently or left out, which the next calls then do."""
        if response.status_code != HTTPStatus.BAD_REQUEST:
            return False
        error = _error_of(response)
        message, param = str(error.get("message") or ""), error.get("param")
        if "max_tokens" in body and "max_completion_tokens" in message:
            self._length = "max_completion_tokens"
            return True
        refused = next((name for name in _OPTIONAL if name in body and name == param), None)
        if refused is None or not str(error.get("code")).startswith("unsupported"):
            return False
        self._refused.add(refused)
        notice(f"{self._model} takes no {refused.replace('_', '-')}: it goes by its own")
        return True

    def _completion(self, response: httpx2.Response, prompt: str, system: str | None) -> Completion:
        try:
            answer = response.json()
            if "error" in answer and "choices" not in answer:  # some gateways say 200 and fail
                raise self._failure(response, _status_of(answer))
            choice = answer["choices"][0]
            content = choice["message"].get("content") or ""
            if not isinstance(content, str):
                raise TypeError
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise TryAgain(f"{self.where}: the answer is cut off or no chat completion") from error
        text = without_thinking(encodable(content))
        prompt_tokens, completion_tokens = _count(answer, "prompt_tokens"), _count(answer, "completion_tokens")
        completion = Completion(
            text=text,
            prompt_tokens=estimated_tokens(system, prompt) if prompt_tokens is None else prompt_tokens,
            completion_tokens=estimated_tokens(content) if completion_tokens is None else completion_tokens,
            finish=str(choice.get("finish_reason") or "stop"),
            estimated=prompt_tokens is None or completion_tokens is None,
        )
        if not text and completion.finish == "stop":
            raise TryAgain(f"{self.where}: an empty answer", instead=completion)
        return completion

    def _failure(self, response: httpx2.Response, status: int | None = None) -> ServiceError:
        """What an answer other than 200 means, in a line."""
        status = status or response.status_code
        error = _error_of(response)
        said = self._told(error.get("message") or _phrase(status))
        if status == HTTPStatus.TOO_MANY_REQUESTS and error.get("code") == "insufficient_quota":
            return ServiceError(f"{self.where}: {said} (429)")
        if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            limited = status == HTTPStatus.TOO_MANY_REQUESTS
            return TryAgain(f"{self.where}: {said} ({status})", _retry_after(response.headers), limited)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            how = f"does not take the key in {self._key_name}" if self._key else f"wants a key; set {self._key_name}"
            return ServiceError(f"{self.where} {how}: {said} ({status})")
        if status == HTTPStatus.NOT_FOUND:
            return ServiceError(f"{self.where} has no model {self._model!r}, or is no such service: {said} (404)")
        if response.is_redirect:
            target = httpx2.URL(response.headers.get("location", "")).copy_with(query=None)
            return ServiceError(f"{self.where} has moved to {self._told(target)} ({status}): give that as url")
        if status in _ABOUT_THE_PROMPT:
            return PromptRefused(f"{self.where} refuses the request: {said} ({status})")
        return ServiceError(f"{self.where}: {said} ({status})")

    def _told(self, what: object) -> str:
        """What a service or a library says, on one line, not too long, and without the key."""
        line = " ".join(str(what).split())
        if self._key:
            line = line.replace(self._key, "…")
        return line if len(line) <= 300 else line[:299] + "…"


def _endpoint(url: str) -> httpx2.URL:
    try:
        whole = httpx2.URL(url)
    except (httpx2.InvalidURL, TypeError):
        raise UsageError("the LLM's url is no address; expected one like http://localhost:8000/v1") from None
    if whole.scheme not in ("http", "https") or not whole.host:
        raise UsageError("the LLM's url is no address; expected one like http://localhost:8000/v1")
    if whole.userinfo or any("key" in name.lower() or "token" in name.lower() for name in whole.params):
        raise UsageError(f"the url of {whole.host} holds a key or password; put it into an environment variable")
    path = whole.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return whole.copy_with(path=f"{path}/chat/completions")


def _error_of(response: httpx2.Response) -> dict[str, Any]:
    """The error that a service describes, in OpenAI's form or what others send."""
    try:
        body = response.json()
    except ValueError:
        return {}
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        return {"message": error.get("message") or error.get("detail"), **error} if "message" not in error else error
    return {"message": error if isinstance(error, str) else json.dumps(error)}


def _status_of(answer: Mapping[str, Any]) -> int:
    error = answer["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else int(HTTPStatus.BAD_GATEWAY)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "it failed"


def _count(answer: Mapping[str, Any], name: str) -> int | None:
    usage = answer.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``Retry-After`` asks to wait, written as seconds or as a date; ``None`` without a sound one."""
    text = headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def openai_llm(model: str, url: str | None, key_env: str, timeout: float) -> OpenAILLM:
    """The model ``openai``: the key from the environment variable ``key_env``.

    Raises:
        UsageError: an address that is none or holds a secret, or no key where OpenAI's own service needs one.
    """
    url = url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL
    key = os.environ.get(key_env, "").strip() or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key in {key_env} holds characters that no key has")
    if key is None and url == OFFICIAL:
        raise UsageError(f"openai:{model} needs a key: set {key_env}, or give the url of another service")
    return OpenAILLM(model, url, key, key_env, timeout)
