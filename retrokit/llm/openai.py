"""A model behind OpenAI's chat protocol (``POST …/v1/chat/completions``): vLLM, llama.cpp, Ollama, hosted ones.

An answer that holds the key is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from retrokit.core.errors import ServiceError
from retrokit.core.notices import notice
from retrokit.llm.base import (
    LLM,
    REASONING,
    Completion,
    Sampling,
    TryAgain,
    encodable,
    estimated_tokens,
    without_thinking,
)
from retrokit.llm.service import Reply, Service, error_of, service

_MOST_TOKENS = 10**9
# a service may overlook max_tokens; a token of more than 64 characters is rare
_MOST_CHARACTERS, _CHARACTERS_A_TOKEN = 16_384, 64
_FINISHES = ("stop", "length", "content_filter", "tool_calls", "function_call")
# as gateways to Anthropic and Mistral call it
_CUT = ("max_tokens", "model_length", "max_output_tokens", "MAX_TOKENS")
_OPTIONAL = ("temperature", "top_p", "seed")


class OpenAILLM(LLM):
    """One model of one service."""

    spec = ""

    def __init__(self, service: Service) -> None:
        self.identity = service.model
        self._service = service
        self._length = "max_tokens"
        self._refused: set[str] = set()

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt; raises as :class:`retrokit.llm.base.LLM` says."""
        while True:
            body = self._body(prompt, system, sampling)
            reply = await self._service.post(body)
            if not self._adapts(reply, body):
                return self._completion(self._service.checked(reply), prompt, system, sampling)

    async def close(self) -> None:
        """Close the connections."""
        await self._service.close()

    def _body(self, prompt: str, system: str | None, sampling: Sampling) -> dict[str, Any]:
        messages = [{"role": "system", "content": system}] if system is not None else []
        body: dict[str, Any] = {
            "model": self._service.model,
            "messages": [*messages, {"role": "user", "content": prompt}],
            self._length: sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.top_p != 1:
            body["top_p"] = sampling.top_p
        if sampling.seed is not None:
            body["seed"] = sampling.seed
        return {name: value for name, value in body.items() if name not in self._refused}

    def _adapts(self, reply: Reply, body: Mapping[str, Any]) -> bool:
        """Whether the service only wants a setting spelled differently or left out, which the next calls then do."""
        if reply.status != HTTPStatus.BAD_REQUEST:
            return False
        error = error_of(reply.json)
        if "max_tokens" in body and "max_completion_tokens" in error.get("message", ""):
            self._length = "max_completion_tokens"
            return True
        refused = next((name for name in _OPTIONAL if name in body and name == error.get("param")), None)
        if refused is None or not error.get("code", "").startswith("unsupported"):
            return False
        if refused not in self._refused:
            notice(f"{self._service.model} takes no {refused.replace('_', '-')}: it goes by its own")
        self._refused.add(refused)
        return True

    def _completion(self, answer: Any, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        try:
            # an empty list of choices is an empty answer
            choice: Any = answer["choices"][0] if answer["choices"] != [] else {"message": {}, "finish_reason": "other"}
            said = choice["message"]
            content = said.get("content") or ""
            if isinstance(content, list):
                content = "".join(part["text"] for part in content if part["type"] in ("text", "output_text"))
            finish = choice.get("finish_reason") or "stop"
            finish = "length" if finish in _CUT else finish
            if not isinstance(content, str):
                raise TypeError
        except (LookupError, TypeError, AttributeError) as error:
            raise self._service.unexpected(answer, "choices: list of {message: {content: text}}") from error
        text = without_thinking(encodable(content))
        if not text and finish == "stop" and (content or said.get("reasoning_content") or said.get("reasoning")):
            finish = REASONING
        most = _MOST_CHARACTERS + _CHARACTERS_A_TOKEN * sampling.max_tokens
        if len(text) > most:
            text, finish = text[:most], "length"
        if self._service.holds_key(text):
            raise ServiceError(
                f"{self._service.where}: an answer holds the key of {self._service.key_name}; it is not kept"
            )
        prompt_tokens, completion_tokens = _count(answer, "prompt_tokens"), _count(answer, "completion_tokens")
        completion = Completion(
            text=text,
            prompt_tokens=prompt_tokens or estimated_tokens(system, prompt),
            completion_tokens=completion_tokens or estimated_tokens(content),
            finish=finish if finish in (*_FINISHES, REASONING) else "other",
            estimated=prompt_tokens is None or completion_tokens is None,
        )
        if not text and (completion.finish in ("stop", REASONING) or not answer["choices"]):
            kind = "of reasoning only" if completion.finish == REASONING else "without text"
            raise TryAgain(f"{self._service.where}: an answer {kind}", instead=completion)
        return completion


def _count(answer: Mapping[str, Any], name: str) -> int | None:
    """Tokens as the service counts them, if that can be."""
    usage = answer.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count <= _MOST_TOKENS else None


def openai_llm(model: str, url: str | None, key_env: str, timeout: float) -> OpenAILLM:
    """The model ``openai``; raises as :func:`retrokit.llm.service.service`."""
    return OpenAILLM(service("openai", model, url, "chat/completions", key_env, timeout))
