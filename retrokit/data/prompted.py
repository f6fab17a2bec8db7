"""What is put before texts: a prompt that a user gives, and a text that brings the instruction of its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

WEB_SEARCH = "Given a web search query, retrieve relevant passages that answer the query"
"""The instruction of a template that has none of its own."""
_INSTRUCTION, _TEXT = "{instruction}", "{text}"


PROMPT = r"(?s)(?!.*\{(text|instruction)\}).*|((?!\{text\}).)*\{text\}"
"""What a user may give as a prompt: a text without places; or a template, whose place for the text is at its end."""


def given_prompt(given: str | None) -> str | None:
    """What is put before a text where a user gives a text or a template (:data:`PROMPT`).

    >>> given_prompt("Find: {instruction}. Query: {text}")[:32]
    'Find: Given a web search query, '
    """
    return None if given is None else given.removesuffix(_TEXT).replace(_INSTRUCTION, WEB_SEARCH)


def prompts_in_words(prompts: Mapping[str, str | None]) -> str:
    """The prompts for a message.

    >>> prompts_in_words({"query": "query: ", "document": None})
    "query 'query: '"
    """
    return ", ".join(f"{role} {text!r}" for role, text in prompts.items() if text) or "none"


class Prompted(str):
    """A text of a benchmark's task, which prints with ``prefix`` before it.

    Attributes:
        text: the text only.
        prefix: what a system without a prompt of its own puts before it.
        instruction: of the task, for the template of a model; ``default`` if the task has none.
        names: of the task and of its type, the most special first, under which a model may have a prompt.
    """

    prefix: str
    text: str
    instruction: str
    default: str
    names: tuple[str, ...]

    def __new__(
        cls, prefix: str, text: str, instruction: str = "", default: str = "", names: Sequence[str] = ()
    ) -> Prompted:
        whole = super().__new__(cls, prefix + text)
        whole.prefix, whole.text = prefix, text
        whole.instruction, whole.default, whole.names = instruction, default, tuple(names)
        return whole

    def __reduce__(self) -> tuple[Any, ...]:
        return Prompted, (self.prefix, self.text, self.instruction, self.default, self.names)

    def part(self, start: int, end: int) -> Prompted:
        """The part of the text between two characters."""
        return Prompted(self.prefix, self.text[start:end], self.instruction, self.default, self.names)

    def prompt(self, own: str | None, template: str | None, by_name: Mapping[str, str]) -> str | None:
        """What a model puts before the text: its prompt for the task, else the instruction in its ``template``, else
        its ``own`` prompt of the role."""
        for name in self.names:
            if name in by_name:
                return by_name[name]
        instruction = self.instruction or (self.default if own else "")
        return own if template is None or not instruction else template.replace(_INSTRUCTION, instruction)


def texts_of(items: Sequence[str]) -> list[str]:
    """The texts only of items that are prompted."""
    return [item.text if isinstance(item, Prompted) else item for item in items]
