"""A model behind OpenAI's chat protocol (``POST …/v1/chat/completions``): vLLM, llama.cpp, Ollama, hosted ones."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from retrokit.core.calls import PromptRefused, encodable
from retrokit.core.notices import notice
from retrokit.core.service import Service, service
from retrokit.llm.base import LLM, Completion, Sampling, estimated_tokens, identified, read_stop, without_thinking

EMPTY_ANSWERS = 3
"""Answers without text that a prompt is sent again for."""
_MOST_TOKENS = 10**9
# a service may ignore max_tokens; a token of more than 64 characters is rare
_MOST_CHARACTERS, _CHARACTERS_A_TOKEN = 16_384, 64
_FINISHES = ("stop", "length", "content_filter", "tool_calls", "function_call")
# the names of gateways to Anthropic and Mistral
_CUT = ("max_tokens", "model_length", "max_output_tokens", "MAX_TOKENS")
_OPTIONAL = ("temperature", "top_p", "seed", "stop")


class OpenAILLM(LLM):
    """One model of one service."""

    spec = ""

    def __init__(self, service: Service, stop: tuple[str, ...] = ()) -> None:
        self.identity, self._stop = identified(service.model, stop), stop
        self._service = service
        self._length = "max_tokens"
        self._refused: set[str] = set()

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt; raises as :class:`retrokit.llm.base.LLM` says."""
        sampling, empty = replace(sampling, stop=(*sampling.stop, *self._stop)), 0
        while True:
            body = self._body(prompt, system, sampling)
            try:
                completion = self._completion(await self._service.post(body), prompt, system, sampling)
            except PromptRefused as refusal:
                if not self._adapts(refusal, body):
                    raise
                continue
            if completion.text or completion.finish not in ("stop", "other") or empty == EMPTY_ANSWERS:
                return completion
            empty += 1

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
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        return {name: value for name, value in body.items() if name not in self._refused}

    def _adapts(self, refusal: PromptRefused, body: Mapping[str, Any]) -> bool:
        """Whether the service only wants a setting spelled differently or left out, as the next calls then do."""
        if "max_tokens" in body and "max_completion_tokens" in str(refusal):
            self._length = "max_completion_tokens"
            return True
        error: Any = refusal.__cause__  # an error of OpenAI's client
        if error.param not in _OPTIONAL or error.param not in body or not str(error.code).startswith("unsupported"):
            return False
        if error.param not in self._refused:
            notice(f"{self._service.model} takes no {error.param.replace('_', '-')}: it goes by its own")
        self._refused.add(error.param)
        return True

    def _completion(self, answer: Any, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        try:
            content, finish = _content_of(answer)
        except (LookupError, TypeError, AttributeError) as error:
            raise self._service.unexpected(answer, "choices: list of {message: {content: text}}") from error
        text = without_thinking(encodable(self._service.redacted(content)))
        max_characters = _MOST_CHARACTERS + _CHARACTERS_A_TOKEN * sampling.max_tokens
        if len(text) > max_characters:
            text, finish = text[:max_characters], "length"
        prompt_tokens, completion_tokens = _count(answer, "prompt_tokens"), _count(answer, "completion_tokens")
        return Completion(
            text=text,
            prompt_tokens=prompt_tokens or estimated_tokens(system, prompt),
            completion_tokens=completion_tokens or estimated_tokens(content),
            finish=finish,
            estimated=prompt_tokens is None or completion_tokens is None,
        ).until(sampling.stop)


def _content_of(answer: Any) -> tuple[str, str]:
    """The text of a service's answer, and why it ended; any error for another shape."""
    if answer["choices"] == []:  # an empty answer
        return "", "other"
    choice = answer["choices"][0]
    content = choice["message"].get("content") or ""
    if isinstance(content, list):
        content = "".join(piece["text"] for piece in content if piece["type"] in ("text", "output_text"))
    if not isinstance(content, str):
        raise TypeError
    finish = choice.get("finish_reason") or "stop"
    if finish in _CUT:
        return content, "length"
    return content, finish if finish in _FINISHES else "other"


def _count(answer: Any, name: str) -> int | None:
    """A number of tokens that the service reports; ``None`` if it is missing or absurd."""
    usage = answer.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if type(count) is int and 0 <= count <= _MOST_TOKENS else None


def openai_llm(model: str, url: str, key_env: str, timeout: float, stop: str | None) -> OpenAILLM:
    """The model ``openai``; raises as :func:`retrokit.core.service.service`."""
    return OpenAILLM(service(Service, "openai", model, url, "chat/completions", key_env, timeout), read_stop(stop))
