"""The data files of the near-misses: prompts and word lists, each read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def text(package: str, name: str) -> str:
    """The text of a file beside the modules of ``package``."""
    return (files(package) / name).read_text(encoding="utf-8").strip()
