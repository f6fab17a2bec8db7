"""Recorded answers."""

import asyncio
import json
from pathlib import Path

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.llm import registry
from retrokit.llm.base import Completion, Sampling


def recorded(folder: Path, *rows: dict[str, str | None]) -> str:
    (folder / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"replay:{folder / 'r.jsonl'}"


def complete(spec: str, prompt: str, system: str | None = None) -> Completion:
    return asyncio.run(registry.create(spec).complete(prompt, system, Sampling()))


def test_answers_by_prompt_and_system(tmp_path: Path) -> None:
    spec = recorded(
        tmp_path,
        {"prompt": "Who purrs?", "answer": "<think>Hm.</think> Cats."},
        {"prompt": "Who purrs?", "system": "Shout.", "answer": "CATS!"},
        {"prompt": "Who purrs?", "system": None, "answer": "<think>Hm.</think> Cats."},  # the same again
    )
    assert complete(spec, "Who purrs?") == Completion("Cats.", 3, 6, "stop", estimated=True)
    assert complete(spec, "Who purrs?", "Shout.").text == "CATS!"
    assert registry.create(spec).spec == spec
    identity = registry.create(spec).identity
    assert registry.create(recorded(tmp_path, {"prompt": "p", "answer": "a"})).identity != identity


def test_what_is_not_recorded(tmp_path: Path) -> None:
    spec = recorded(tmp_path, {"prompt": "Who purrs?", "answer": "Cats."})
    with pytest.raises(DataError, match=r"r.jsonl: holds no answer to the prompt 'Who purrs\?'$"):
        complete(spec, "Who purrs?", "Shout.")
    with pytest.raises(DataError, match=r"r.jsonl: holds no answer to the prompt 'a\b.{78}…'$"):
        complete(spec, "a\n" * 100)


def test_files_that_are_no_recording(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.jsonl: does not exist"):
        registry.create(f"replay:{tmp_path / 'nowhere.jsonl'}")
    with pytest.raises(DataError, match=r"r.jsonl:1: no field 'answer'; the fields are 'prompt'"):
        registry.create(recorded(tmp_path, {"prompt": "p"}))
    rows = [{"prompt": "p", "answer": "a"}, {"prompt": "q", "answer": "a"}, {"prompt": "p", "answer": "b"}]
    with pytest.raises(DataError, match=r"r.jsonl:3: another answer to the prompt of line 1$"):
        registry.create(recorded(tmp_path, *rows))
    with pytest.raises(UsageError, match="replay needs path"):
        registry.create("replay")
