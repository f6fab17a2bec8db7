"""Requests to a language model, its answers, and its failures.

An answer is decided by the model, the sampling settings, and the prompt with its system message;
:class:`CompletionRequest` is all of that, and its ``key`` is what answers are stored under.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol


@dataclass(frozen=True)
class Sampling:
    """What decides an answer besides the model and the prompt.

    Attributes:
        temperature: 0 is greedy: the likeliest token each time.
        top_p: the share of the probability that is sampled from, the likeliest tokens first.
        max_tokens: of the answer, what a reasoning model thinks included.
        seed: of the draws; ``None``: none is requested.
        stop: texts that end an answer and are no part of it.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    seed: int | None = None
    stop: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``stop`` only if there is one."""
        return {name: value for name, value in asdict(self).items() if name != "stop" or value}


@dataclass(frozen=True)
class Completion:
    """An answer.

    Attributes:
        text: without what a reasoning model thought, and without white space around it.
        prompt_tokens, completion_tokens: as the model counts them, else estimated.
        finish: ``stop``, ``length`` if it was cut off, or what else the service says.
        estimated: whether the token counts are estimates.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish: str = "stop"
    estimated: bool = False

    def until(self, stop: Sequence[str]) -> "Completion":
        r"""The same up to the first of the texts ``stop``, where it then has ended.

        >>> Completion("a cat\n\nText: a", 1, 9, "length").until(["\n\n"])
        Completion(text='a cat', prompt_tokens=1, completion_tokens=9, finish='stop', estimated=False)
        """
        text = cut_at(self.text, stop)
        return self if text == self.text else replace(self, text=text.strip(), finish="stop")


@dataclass(frozen=True)
class CompletionRequest:
    """All that decides an answer.

    Attributes:
        identity: of the model (:attr:`LLM.identity`).
        attempt: from 0; a higher one asks for a further answer to the same prompt.
    """

    identity: str
    sampling: Sampling
    system: str | None
    prompt: str
    attempt: int = 0

    @cached_property
    def key(self) -> bytes:
        """Digest of all of it (32 bytes)."""
        settings = self.sampling.to_json()
        for name in ("temperature", "top_p"):
            settings[name] = float(settings[name])  # 0 and 0.0 are the same setting
        decisive = [self.identity, settings, self.system, self.prompt, self.attempt]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).digest()


class Prompt(NamedTuple):
    """A prompt in three parts, of which the end of the middle one goes where all of it is too long."""

    before: str
    middle: str
    after: str

    @property
    def text(self) -> str:
        """The whole of it."""
        return self.before + self.middle + self.after


class LLM(Protocol):
    """What answers a prompt.

    Attributes:
        spec: the canonical spec it was created from, without any secret.
        identity: what of the model decides an answer: its name at a service, or a digest of its weights, and its own
            stop string.
        continues: whether it is a base model, which continues a text and follows no instruction.
    """

    spec: str
    identity: str
    continues: bool = False

    async def complete(self, prompt: str, system: str | None, sampling: Sampling) -> Completion:
        """One answer to one prompt.

        Raises:
            :class:`~retrokit.core.calls.PromptRefused`: this prompt cannot be answered; others may be.
            ServerFailed: the server failed, maybe on this prompt only.
            ServiceError: it failed for good.
        """

    async def close(self) -> None:
        """Let go of connections and threads. A later call opens new ones, in another event loop if need be."""

    def fitted(self, prompt: Prompt, max_tokens: int) -> str:
        """The prompt as it fits into the model together with an answer of ``max_tokens``. It stays whole, unless the
        model knows its limit. Then the end of the middle is cut.

        Raises:
            UsageError: the text before and after the middle is too long even without the middle.
        """
        return prompt.text


def read_stop(stop: str | None) -> tuple[str, ...]:
    r"""The stop string of a spec, in which ``\n`` is a line's end.

    >>> read_stop(r"\n\n"), read_stop(None)
    (('\n\n',), ())
    """
    return () if stop is None else (stop.replace("\\n", "\n"),)


def identified(identity: str, stop: Sequence[str]) -> str:
    """The identity of a model with a stop string of its own."""
    return f"{identity} stop={list(stop)}" if stop else identity


def cut_at(text: str, stop: Sequence[str]) -> str:
    """``text`` up to the first of the texts ``stop``; all of it if it contains none."""
    starts = [text.find(end) for end in stop]
    return text[: min([start for start in starts if start >= 0], default=len(text))]


def estimated_tokens(*texts: str | None) -> int:
    """About how many tokens texts have: four bytes of UTF-8 a token, which suits English and most of the rest.

    >>> estimated_tokens("The cat sleeps.", None)
    4
    """
    return sum(-(-len(text.encode("utf-8", "replace")) // 4) for text in texts if text)


_NAMES = (
    "think|thinking|thoughts?|reason|reasoning|reflect|reflection|analysis|scratchpad|deliberation|monologue|"
    "inner_monologue|cot|chain_of_thought"
)
_CHANNEL = r"(?:<\|end\|>\s*)?(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*"
REASONING = (
    (rf"<(?:\w+:)?(?:{_NAMES})(?:\s[^<>]*)?>", rf"</(?:\w+:)?(?:{_NAMES})\s*>"),
    (rf"<\|(?:{_NAMES})\|>", rf"<\|/(?:{_NAMES})\|>"),
    (rf"<\|(?:begin|start)_(?:of_)?(?:{_NAMES})\|>", rf"<\|end_(?:of_)?(?:{_NAMES})\|>"),
    (rf"◁(?:{_NAMES})▷", rf"◁/(?:{_NAMES})▷"),
    (r"\[(?:think|thinking|thought|reasoning)\]", r"\[/(?:think|thinking|thought|reasoning)\]"),
    # Gemma's channel
    (r"<\|channel>", r"<channel\|>"),
    # OpenAI's harmony; and without its special tokens, as a tokenizer may decode it
    (rf"{_CHANNEL}(?:analysis|commentary).{{0,200}}?<\|message\|>", rf"{_CHANNEL}final.{{0,200}}?<\|message\|>"),
    (r"\Aanalysis(?=.*assistantfinal)", r"assistantfinal"),
)
"""Regular expressions of what opens and what closes a model's reasoning; a row for each markup."""
_ROWS = "|".join(f"(?P<opening{row}>{opening})|{closing}" for row, (opening, closing) in enumerate(REASONING))
_EITHER = re.compile(rf"(?=[<\[◁a])(?:{_ROWS})", re.IGNORECASE | re.DOTALL)  # first a character that begins one
_AROUND_ANSWER = re.compile(
    r"</?(?:answer|response|final_answer)>|<\|(?:start|end|begin_of|end_of)_(?:response|solution)\|>", re.IGNORECASE
)
_END_OF_TURN = re.compile(
    r"(?:(?:</s>|<end_of_turn>|<[|｜](?:im_end|end|eot_id|endoftext|end_of_text|return|end▁of▁sentence)[|｜]>)\s*)+\Z"
)
_SPECIAL = re.compile(r"<[|｜][^<>]{0,100}>|<[^<>]{0,100}[|｜]>")
_NO_REASONING = r"(?:br|hr|img|li|p)\b|[a-z-]+-[0-9a-f]{8}>"  # HTML that need not be closed, and tags of prompts
_TAG = re.compile(
    rf"<(/?)(?!{_NO_REASONING})([a-z][\w:.-]*)(?:\s[^<>]*)?>|\[(/?)([a-z_]+)\]|◁(/?)(\w+)▷", re.IGNORECASE
)


def without_thinking(text: str) -> str:
    """``text`` without a reasoning model's thoughts (:data:`REASONING`), the marks around its answer, and the white
    space around it. An answer with other marks that are not in pairs may contain thoughts: nothing is left of it.

    Some chat templates open the thoughts in the prompt, so that an answer only closes them; an answer that was cut off
    may only open them.

    >>> without_thinking("<think>Cats? No.</think> Dogs.")
    'Dogs.'
    >>> without_thinking("Cats? No.</think> Dogs."), without_thinking("<think>Cats, or")
    ('Dogs.', '')
    >>> without_thinking("Cats? No.</ponder> Dogs.")
    ''
    """
    parts: list[str] = []
    answer_start: int | None = 0  # None: within thoughts
    for mark in _EITHER.finditer(text):
        if mark.lastgroup is not None:
            if answer_start is not None:
                parts.append(text[answer_start : mark.start()])
            answer_start = None
        else:
            if answer_start is not None:
                parts = []
            answer_start = mark.end()
    if answer_start is not None:
        parts.append(text[answer_start:])
    answer = _END_OF_TURN.sub("", _AROUND_ANSWER.sub("", "".join(parts))).strip()
    return "" if has_unpaired_marks(answer) else answer


def has_unpaired_marks(text: str) -> bool:
    """Whether ``text`` contains a special token, a tag that closes nothing, or begins with one that nothing closes."""
    if _SPECIAL.search(text):
        return True
    open_tags: Counter[str] = Counter()
    for tag in _TAG.finditer(text):
        slash, name = [group for group in tag.groups() if group is not None]
        if not slash:
            open_tags[name] += 1
        elif open_tags[name]:
            open_tags[name] -= 1
        else:
            return True
    first = _TAG.match(text)
    if first is None or first[4]:  # [yes] is an answer
        return False
    return open_tags[first[2] or first[6]] > 0
