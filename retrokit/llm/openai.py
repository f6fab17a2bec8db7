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
            # an empty list of choices is an empty answer
            choice: Any = answer["choices"][0] if answer["choices"] != [] else {"message": {}, "finish_reason": "other"}
            message = choice["message"]
            content = message.get("content") or ""
            if isinstance(content, list):
                content = "".join(part["text"] for part in content if part["type"] in ("text", "output_text"))
            finish = choice.get("finish_reason") or "stop"
            if not isinstance(content, str):
                raise TypeError
        except (LookupError, TypeError, AttributeError) as error:
            raise self._service.unexpected(answer, "choices: list of {message: {content: text}}") from error
        finish = "length" if finish in _CUT else finish if finish in _FINISHES else "other"
        text = without_thinking(encodable(self._service.redacted(content)))
        most = _MOST_CHARACTERS + _CHARACTERS_A_TOKEN * sampling.max_tokens
        if len(text) > most:
            text, finish = text[:most], "length"
        usage = answer.get("usage")
        counts = [
            usage.get(name) if isinstance(usage, dict) else None for name in ("prompt_tokens", "completion_tokens")
        ]
        counts = [count if type(count) is int and 0 <= count <= _MOST_TOKENS else None for count in counts]
        return Completion(
            text=text,
            prompt_tokens=counts[0] or estimated_tokens(system, prompt),
            completion_tokens=counts[1] or estimated_tokens(content),
            finish=finish,
            estimated=None in counts,
        ).until(sampling.stop)


def openai_llm(model: str, url: str, key_env: str, timeout: float, stop: str | None) -> OpenAILLM:
    """The model ``openai``; raises as :func:`retrokit.core.service.service`."""
    return OpenAILLM(service("openai", model, url, "chat/completions", key_env, timeout), read_stop(stop))
