"""Opening the encoder of a folder. It is loaded when something has to be computed; at once if it was not known before.

The embedding cache also stores what is needed to look up embeddings: the traits of the model. Their key is a digest of
all files of its folder, of the options, and of the code that loads it. So a command whose embeddings are all there
needs neither the model nor the libraries that load it, which are the larger part of its start.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from retrokit.core.errors import DataError
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.core.registry import Spec, imported, importing
from retrokit.data.runs import read_run
from retrokit.encoders import registry
from retrokit.encoders.base import Batch, Encoder, Item, LayeredEncoder, TokenEncoder, TrainableEncoder
from retrokit.encoders.fingerprint import PACKAGES, code_of
from retrokit.encoders.folders import (
    below,
    check_folder,
    minilm_path,
    similarity_of,
    source_of,
    stands_alone,
)
from retrokit.encoders.precision import choose_precision, multiplies, name_of
from retrokit.encoders.prompts import family_of, similar_family
from retrokit.encoders.store import open_cache
from retrokit.encoders.views import EncoderView
from retrokit.similarities.base import Role

if TYPE_CHECKING:
    from retrokit.encoders.torch_encoder import TorchEncoder


def minilm(device: str | None = None, **options: Any) -> Encoder:
    """all-MiniLM-L6-v2, from the installed weights package if there, else from the hub."""
    path = minilm_path()
    return _opened("minilm", path, device, options, "load_minilm")


def model(path: str, device: str | None = None, **options: Any) -> Encoder:
    """A local folder or a hub id."""
    return _opened(path, path, device, options)


def clip(path: str, device: str | None = None, **options: Any) -> Encoder:
    """A local folder or a hub id of a model that embeds texts and images in one space."""
    return _opened(f"clip:{path}", path, device, {**options, "images": True})


def static(dim: int, tokenizer: str, device: str | None = None, **options: Any) -> Encoder:
    """A table of token embeddings with fresh weights, with the tokenizer of an encoder, a folder or a hub id."""
    path = source_of(tokenizer)
    return _remembered(f"static:{dim}", path, device, {"dim": dim, **options}, "retrokit.encoders.tables:static")


def load_run(folder: str, device: str | None = None) -> Encoder:
    """A finished run as an encoder, with the similarity that it was trained with.

    Raises:
        UsageError: the folder is no run, or its training is not finished.
    """
    read_run(folder)
    encoder: Encoder = registry.create(Spec("model", {"path": folder}, positional="path", bare=True), device=device)
    return encoder


def _opened(name: str, path: str, device: str | None, options: dict[str, Any], loader: str = "load_model") -> Encoder:
    """The encoder of a folder, loaded or remembered; or of a hub id, loaded."""
    check_folder(path)
    return _remembered(name, path, device, options, f"retrokit.encoders.loading:{loader}")


def _remembered(name: str, path: str, device: str | None, options: dict[str, Any], loader: str) -> Encoder:
    """The encoder that the function ``loader`` makes, or what is remembered of it."""

    def load() -> TorchEncoder:
        loaded: TorchEncoder = imported(loader)(name, path, device, **options)
        return loaded

    cache = open_cache()
    if cache is None or not stands_alone(path):
        return _announced(name, load())
    key = _key(path, device, options)

    def is_unchanged() -> bool:
        return _key(path, device, options) == key

    record = cache.recall(key)
    if record is not None:
        if record["assumed"]:
            notice(f"{name}: {record['assumed']}")
        return RememberedEncoder(name, path, record, load, is_unchanged)
    loaded = load()
    record = _record(loaded, path)
    if record is not None and is_unchanged():
        cache.remember(key, record, record["fingerprint"])
    return _announced(name, loaded)


def _announced(name: str, encoder: TorchEncoder) -> TorchEncoder:
    if encoder.assumed:
        notice(f"{name}: {encoder.assumed}")
    return encoder


def _key(path: str, device: str | None, options: dict[str, Any]) -> str:
    """The digest of all that decides the result of loading a folder."""
    decided_by = {
        "files": digest(path, [entry.relative_to(path).as_posix() for entry in below(path) if entry.is_file()]),
        "options": options,
        "family": [family_of(path), similar_family(path)],  # which the folder's name may decide
        "device": [device, str(torch.accelerator.current_accelerator()), os.environ.get("LOCAL_RANK")],
        "code": code_of((), map(str, Path(__file__).parent.rglob("*.py"))),
    }
    return hashlib.blake2b(json.dumps(decided_by, sort_keys=True).encode(), digest_size=16).hexdigest()


# --- what is remembered


def _record(encoder: TorchEncoder, path: str) -> dict[str, Any] | None:
    """What :class:`RememberedEncoder` takes; ``None`` if the model brings classes of its own, or has learned."""
    from retrokit.encoders.plain import plain_settings

    kinds = {type(module).__module__.partition(".")[0] for module in encoder.model.modules()}
    if encoder.similarity.state_dict() or not kinds <= {*PACKAGES, "retrokit"}:
        return None
    return {
        "assumed": encoder.assumed,
        "similarity": encoder.similarity.spec,
        "had_normalize": encoder.had_normalize,
        "fingerprint": encoder.fingerprint(),
        "document_fingerprint": encoder.document_fingerprint(),
        "code": encoder.code(),
        "device": str(encoder.device),
        "multiplies": multiplies(encoder.model),
        "dimension": encoder.dimension,
        "prompts": encoder.prompts,
        "task_prompts": encoder.task_prompts,
        "max_lengths": {role: encoder.max_length(role) for role in ("query", "document")},
        "plain": plain_settings(encoder, path),
    }


class RecordedEncoder(Encoder):
    """The traits of a model that is not loaded, from its record; it embeds nothing."""

    def __init__(self, spec: str, record: dict[str, Any]) -> None:
        self.spec = spec
        self.similarity = similarity_of(spec, record["similarity"])
        self.had_normalize = record["had_normalize"]
        self._record = record

    @property
    def dimension(self) -> int:
        dimension: int = self._record["dimension"]
        return dimension

    @property
    def device(self) -> torch.device:
        return torch.device(self._record["device"])

    @property
    def prompts(self) -> Mapping[str, str | None]:
        prompts = self._record["prompts"]
        return {"query": prompts["query"], "document": prompts["document"]}  # a record is sorted

    @property
    def task_prompts(self) -> Mapping[str, str]:
        prompts: dict[str, str] = self._record["task_prompts"]
        return prompts

    def max_length(self, role: Role) -> int | None:
        length: int | None = self._record["max_lengths"][role]
        return length

    def computes_in(self, precision: str = "auto") -> str:
        return name_of(choose_precision(precision, self.device, self._record["multiplies"]))

    def fingerprint(self) -> str:
        return str(self._record["fingerprint"])

    def document_fingerprint(self) -> str:
        return str(self._record["document_fingerprint"])

    def code(self) -> Mapping[str, str] | None:
        code: dict[str, str] | None = self._record["code"]
        return code

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        raise NotImplementedError


class RememberedEncoder(EncoderView):
    """An encoder whose traits are in the cache; the model is loaded once something has to be computed: as a plain one
    if that gives the same bits, and only embeds."""

    def __init__(
        self,
        spec: str,
        path: str,
        record: dict[str, Any],
        load: Callable[[], Encoder],
        is_unchanged: Callable[[], bool],
    ) -> None:
        super().__init__(RecordedEncoder(spec, record))
        self._path, self._load, self._is_loaded = path, load, False
        self._plain_settings, self._is_unchanged = record["plain"], is_unchanged
        self._plain: Encoder | None = None

    def computing(self) -> Encoder:
        if self._is_loaded or self._plain_settings is None:
            return self._loaded()
        if self._plain is None:
            with importing():
                from retrokit.encoders.plain import PlainEncoder

            self._plain = PlainEncoder(self._path, self._encoder, self._plain_settings)
            self._check(self._is_unchanged())
        return self._plain

    def _loaded(self) -> Encoder:
        if not self._is_loaded:
            loaded = self._load()
            self._check(loaded.fingerprint() == self._encoder.fingerprint())
            loaded.spec = self.spec
            self._encoder, self._is_loaded, self._plain = loaded, True, None
        return self._encoder

    def _check(self, is_unchanged: bool) -> None:
        if not is_unchanged:
            raise DataError(self._path, "has changed since it was opened; start again")

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        yield from self.computing().batches(items, role, precision)

    def with_tokens(self) -> TokenEncoder:
        return self._loaded().with_tokens()

    def with_layers(self) -> LayeredEncoder:
        return self._loaded().with_layers()

    def to_train(self) -> TrainableEncoder:
        return self._loaded().to_train()

    use_with = Encoder.use_with
