"""What may be wrong with a model's folder: damages by name, each of which changes a copy of a good one."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path], None]

NESTED = "[" * 100_000
CONTENTS = {
    "empty": "",
    "null": "null",
    "list": "[]",
    "list of numbers": "[1, 2]",
    "text": '"text"',
    "number": "5",
    "nested": NESTED,
    "nested within": f'{{"a": {NESTED}',
    "cut": '{"a": ',
    "binary": "\x00\ufffd\x7f",
}
VALUES: dict[str, Any] = {"null": None, "text": "x", "negative": -1, "list": [], "object": {}, "huge": 10**30}


def damages(folder: Path) -> Iterator[tuple[str, Damage]]:
    """All that fit a folder."""
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    for file in files:
        if file.suffix == ".json":
            for name, content in CONTENTS.items():
                yield f"{file} {name}", _write(file, content)
            yield from _values(folder, file)
        if file.suffix == ".safetensors":
            yield f"{file} emptied", _write(file, "")
            yield f"{file} cut", _cut(file)
            yield f"{file} of noise", _write(file, "noise" * 1000)
            for name, change in WEIGHTS.items():
                yield f"{file} {name}", _weights(file, change)
            yield f"{file} pickled", _pickled(file)
        yield f"{file} removed", _remove(file)
        yield f"{file} a folder", _folder(file)


SETTINGS = {
    "config.json": ("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"),
    "modules.json": (),
    "config_sentence_transformers.json": ("prompts", "similarity_fn_name", "default_prompt_name", "__version__"),
    "sentence_bert_config.json": ("max_seq_length", "do_lower_case", "query_length", "modality_config"),
    "tokenizer_config.json": ("model_max_length", "tokenizer_class", "pad_token", "padding_side"),
    "tokenizer.json": ("model", "added_tokens", "post_processor", "normalizer", "version"),
    "1_Pooling/config.json": ("embedding_dimension", "pooling_mode", "include_prompt"),
    "2_Dense/config.json": ("in_features", "out_features", "activation_function"),
}


def _values(folder: Path, file: Path) -> Iterator[tuple[str, Damage]]:
    told = json.loads((folder / file).read_text(encoding="utf-8"))
    for key in SETTINGS.get(str(file), ()):
        if key in told or file.name != "tokenizer.json":
            for name, value in VALUES.items():
                yield f"{file} {key} {name}", _set(file, key, value)
    if file.name == "modules.json":
        for key in ("type", "path", "idx", "name"):
            for name, value in [*VALUES.items(), ("foreign", "os.system"), ("outside", "../elsewhere")]:
                yield f"{file} {key} {name}", _set_module(file, key, value)
    if str(file) == "config_sentence_transformers.json":
        for name, value in VALUES.items():
            yield f"{file} a prompt {name}", _set(file, "prompts", {"query": value})


def _write(file: Path, content: str) -> Damage:
    return _bytes(file, lambda _: content.encode())


def _cut(file: Path) -> Damage:
    return _bytes(file, lambda raw: raw[: len(raw) // 2])


def _bytes(file: Path, change: Callable[[bytes], bytes]) -> Damage:
    def damage(folder: Path) -> None:
        (folder / file).write_bytes(change((folder / file).read_bytes()))

    return damage


def _remove(file: Path) -> Damage:
    return lambda folder: (folder / file).unlink()


def _folder(file: Path) -> Damage:
    def damage(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return damage


def _set(file: Path, key: str, value: Any) -> Damage:
    return _bytes(file, lambda raw: json.dumps({**json.loads(raw), key: value}).encode())


def _set_module(file: Path, key: str, value: Any) -> Damage:
    def change(raw: bytes) -> bytes:
        *modules, last = json.loads(raw)
        return json.dumps([*modules, {**last, key: value}]).encode()

    return _bytes(file, change)


Weights = dict[str, torch.Tensor]
WEIGHTS: dict[str, Callable[[Weights], Weights]] = {
    "of other names": lambda weights: {f"other.{name}": tensor for name, tensor in weights.items()},
    "without one": lambda weights: dict(list(weights.items())[1:]),
    "without the last": lambda weights: dict(list(weights.items())[:-1]),
    "none": lambda weights: {},
    "renamed": lambda weights: {name.replace("layer", "block"): tensor for name, tensor in weights.items()},
    "of another layer": lambda weights: {
        **weights,
        **{name.replace(".1.", ".7."): tensor.clone() for name, tensor in weights.items()},
    },
    "of another shape": lambda weights: {name: tensor[..., :-1].contiguous() for name, tensor in weights.items()},
    "with fewer rows": lambda weights: {
        name: tensor[:-3].clone() if "embed" in name and tensor.ndim == 2 else tensor
        for name, tensor in weights.items()
    },
    "not finite": lambda weights: {name: tensor * torch.nan for name, tensor in weights.items()},
    "of whole numbers": lambda weights: {name: tensor.to(torch.int32) for name, tensor in weights.items()},
}


def _weights(file: Path, change: Callable[[Weights], Weights]) -> Damage:
    return lambda folder: save_file(change(load_file(folder / file)), folder / file, {"format": "pt"})


def _pickled(file: Path) -> Damage:
    def change(folder: Path) -> None:
        weights = load_file(folder / file)
        (folder / file).unlink()
        torch.save({**weights, "harm": Path("harm")}, (folder / file).with_name("pytorch_model.bin"))

    return change


def damaged(folder: Path, place: Path, damage: Damage) -> Path:
    """A copy of ``folder`` at ``place`` with the damage."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    damage(place)
    return place
