"""What decides an embedding: a model's weights, tokenizer and settings, and the code that computes with them."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import torch
from torch import Tensor

from retrokit.core.files import digest
from retrokit.encoders.towers import has_routes, towers

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def attention_of(config: Any) -> str | None:
    """The name, such as ``sdpa``; ``None`` where there is none."""
    name: str | None = getattr(config, "_attn_implementation", None)
    return name


def use_attention(config: Any, name: str) -> None:
    """Have a model of that configuration compute with the implementation ``name``."""
    config._attn_implementation = name


def digest_of_weights(weights: Mapping[str, Tensor]) -> Any:
    """A SHA-256 object that was fed the names, types, shapes and bits of ``weights``; the caller may feed it more."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name}:{tensor.dtype}:{list(tensor.shape)}".encode())
        digest.update(_bytes(tensor.detach().cpu()).numpy().tobytes())
    return digest


def tokenizer_settings(tokenizer: Any) -> dict[str, Any]:
    """All of a fast tokenizer (of tokenizers or transformers) but what calls leave in it: lengths and padding."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    settings: dict[str, Any] = json.loads(backend.to_str())
    side = getattr(tokenizer, "truncation_side", None) or (backend.truncation or {}).get("direction", "right")
    decisive = {key: value for key, value in settings.items() if key not in ("truncation", "padding")}
    return decisive if side == "right" else {**decisive, "truncation_side": side}


class Weights:
    """The digest of a model's weights, their names and types; computed again only when they have changed."""

    def __init__(self) -> None:
        self._stamp: list[tuple[Any, ...]] | None = None
        self._digest = hashlib.sha256()

    def __reduce__(self) -> tuple[type[Weights], tuple[()]]:
        return Weights, ()  # a copy starts anew: a digest cannot be pickled, and the copied weights lie elsewhere

    def digest(self, model: SentenceTransformer) -> Any:
        """A SHA-256 object that was fed the weights of ``model``; the caller may feed it more."""
        weights = model.state_dict()
        now = stamp(weights)
        if now != self._stamp:
            self._digest = digest_of_weights(weights)
            self._stamp = now
        return self._digest.copy()


def stamp(weights: Mapping[str, Tensor]) -> list[tuple[Any, ...]]:
    """What differs once ``weights``, of one model in one process, have changed; far cheaper than a digest."""
    return [(name, *_stamp(tensor)) for name, tensor in sorted(weights.items())]


def _stamp(tensor: Tensor) -> tuple[Any, ...]:
    """Where a tensor lies, PyTorch's count of changes in place, and the sum of its bits: changes through ``.data`` are
    not counted, but they show in the sum. It costs one pass over the memory, as a forward pass does."""
    changes = 0 if tensor.is_inference() else tensor._version
    raw = _bytes(tensor.detach())
    is_whole = raw.numel() % 8 == 0 and raw.storage_offset() % 8 == 0
    # a sum of another type than its own converts each word, which takes ten times as long
    words = raw.view(torch.int64) if is_whole else raw
    return str(tensor.dtype), tuple(tensor.shape), tensor.data_ptr(), changes, int(words.sum(dtype=torch.int64))


def _bytes(tensor: Tensor) -> Tensor:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.zeros(0, dtype=torch.uint8)


def describe(model: SentenceTransformer) -> dict[str, Any]:
    """Architecture, modules with their settings, and tokenizer; of several towers those of each."""
    if has_routes(model):
        return {"towers": [describe(tower) for tower in towers(model)]}
    modules: list[dict[str, Any]] = []
    for module in model:
        modules.append({"class": type(module).__name__, "config": getattr(module, "get_config_dict", dict)()})
    tokenizer = model.tokenizer
    is_fast = hasattr(getattr(tokenizer, "backend_tokenizer", tokenizer), "to_str")
    description: dict[str, Any] = {
        "architecture": _architecture(model[0]),
        "modules": modules,
        "tokenizer": tokenizer_settings(tokenizer) if is_fast else sorted(tokenizer.get_vocab().items()),
    }
    if model.truncate_dim is not None:
        description["truncate_dim"] = model.truncate_dim
    if any((model.module_kwargs or {}).values()):
        description["keywords"] = model.module_kwargs
    if model.supports("image"):
        processor = model[0].processor
        description["images"] = getattr(processor, "image_processor", processor).to_dict()
        description["pillow"] = version("pillow")
    return description


def _architecture(first: Any) -> dict[str, Any]:
    """The settings of a model's first module that decide embeddings."""
    config = getattr(first, "config", None)
    settings = {"class": type(first).__name__} if config is None else config.to_dict()
    attention = attention_of(config)
    if attention not in (None, "sdpa"):
        settings["attention"] = attention
    return {name: value for name, value in settings.items() if name not in _CONFIG_WITHOUT_EFFECT}


_CONFIG_WITHOUT_EFFECT = ("_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures", "use_cache")


# --- the code

_LIBRARIES = ("torch", "transformers", "tokenizers", "sentence-transformers")
PACKAGES = {name.replace("-", "_") for name in _LIBRARIES}


def code_of(kinds: Iterable[type], files: Iterable[str] = ()) -> Mapping[str, str] | None:
    """Versions of the libraries that compute embeddings, and the digest of the source of all other classes among
    ``kinds`` and of ``files``; ``None`` if a class comes from no file (an interactive session)."""
    sources = set(files)
    for kind in kinds:
        if kind.__module__.partition(".")[0] in PACKAGES:
            continue
        try:
            sources.add(inspect.getfile(kind))
        except (TypeError, OSError):
            return None
    if not all(map(os.path.isfile, sources)):
        return None
    return {**{name: version(name) for name in _LIBRARIES}, "source": " ".join(sorted(map(_digest, sources)))}


_SCORING = ("encoders", "ranking/reranking", "similarities")  # folders of the package


def environment(scorer: type, device: object) -> str:
    """What decides the bits of a score in addition to the fingerprint of a ``scorer`` on ``device``: libraries, code,
    and the kind of device. If the code cannot be determined, no two calls agree."""
    package = Path(__file__).parents[1]
    files: list[str] = []
    for folder in _SCORING:
        files += map(str, (package / folder).rglob("*.py"))
    code = code_of([scorer], files)
    return json.dumps([uuid4().hex if code is None else dict(code), str(device).partition(":")[0]], sort_keys=True)


@cache
def _digest(file: str) -> str:
    return digest(file)
