"""Folders of local language models, damaged in every file: one line that names the folder, or a model that writes."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from retrokit.core.errors import DataError
from retrokit.llm import registry
from retrokit.llm.session import Session

WEIGHTS = "model.safetensors"


def setting(name: str, **values: Any) -> Callable[[Path], None]:
    """Change keys of a JSON file."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))

    return change


def holds(name: str, text: str | bytes) -> Callable[[Path], None]:
    """Put a text in a file's place."""
    return lambda folder: (folder / name).write_bytes(text.encode() if isinstance(text, str) else text) and None


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def renamed(folder: Path) -> None:
    save_file({f"x.{name}": row for name, row in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)


def reshaped(folder: Path) -> None:
    save_file({name: row[:2].clone() for name, row in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)


def short_table(folder: Path) -> None:
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    setting("config.json", vocab_size=2)(folder)
    weights = load_file(folder / WEIGHTS)
    save_file({name: row[:2].clone() if len(row) == rows else row for name, row in weights.items()}, folder / WEIGHTS)


def pickled(folder: Path) -> None:
    torch.save({"a": os.system}, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


DEEP = "[" * 100_000 + "]" * 100_000
DAMAGES: dict[str, Callable[[Path], None]] = {
    **{
        f"{name}: {text[:9]}": holds(name, text)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
        for text in ("", "[]", "5", DEEP)
        if (name, text) != ("generation_config.json", "")
    },
    **{
        f"config: {name}={value!r}": setting("config.json", **{name: value})
        for name, value in (
            *(("hidden_size", "x"), ("hidden_size", [1]), ("hidden_size", -1), ("hidden_size", 10**12)),
            *(("num_hidden_layers", "a"), ("num_attention_heads", 0), ("hidden_act", "nope"), ("dtype", "nope")),
            *(("model_type", "nope"), ("model_type", 5), ("eos_token_id", "x"), ("rope_scaling", "x")),
            *(("max_position_embeddings", "x"), ("max_position_embeddings", -3)),
        )
    },
    **{
        f"tokenizer: {name}={value!r}": setting("tokenizer_config.json", **{name: value})
        for name, value in (
            *(("model_max_length", "x"), ("model_max_length", -5), ("tokenizer_class", 5), ("chat_template", 5)),
            *(("chat_template", "{% if %}"), ("chat_template", "{{ raise_exception('no') }}")),
            *(("chat_template", "{{ messages[7].x.y }}"), ("chat_template", "{{ 1/0 }}"), ("chat_template", [1])),
        )
    },
    "template file": holds("chat_template.jinja", "{% if %}"),
    "end: x": setting("generation_config.json", eos_token_id="x"),
    "end: 10**30": setting("generation_config.json", eos_token_id=10**30),
    "special": setting("special_tokens_map.json", pad_token=5),
    "no tokenizer": without("tokenizer.json"),
    "no weights": without(WEIGHTS),
    "empty weights": holds(WEIGHTS, b""),
    "cut weights": lambda folder: os.truncate(folder / WEIGHTS, 500),
    "other names": renamed,
    "other shapes": reshaped,
    "short table": short_table,
    "pickled": pickled,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_told_in_a_line(damage: str, tiny_llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_llama, folder)
    DAMAGES[damage](folder)

    async def ask() -> None:
        llm = registry.create(f"local:{folder},device=cpu")
        assert damage == "short table"  # all others are found out when the model is loaded
        async with Session(llm, None) as session:
            await session.ask("the cat runs")

    with pytest.raises(DataError, match=str(folder)) as caught:
        asyncio.run(ask())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
