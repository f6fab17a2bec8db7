"""What a prompt has to hold: known where options are, before a prompt is read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PromptShape:
    """What a prompt of some name has to hold: its fields, and the words that its answer is recognised by."""

    fields: tuple[str, ...]
    words: tuple[str, ...] = ()
