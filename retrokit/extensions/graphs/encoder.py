"""An encoder whose transformer is a graph, computed on the CPU by an engine: a module of this package.

The transformer is converted at the first computation, compared with the model, and cached in a folder
under a digest of all that decides it. Tokens, pooling and what follows are the model's own. An engine names the
``PACKAGES`` that decide what is computed. Its ``write(traced, dtype, calibration, folder)`` converts a transformer to
``fp32`` or ``int8`` (weights and activations), the latter calibrated by batches of inputs; ``read(folder, threads)``
gives what computes the graph.
"""

import hashlib
import io
import json
import logging
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import notice
from retrokit.encoders.base import Encoder, Item, LayeredEncoder, TrainableEncoder
from retrokit.encoders.kept import Note, kept
from retrokit.encoders.torch_encoder import TorchEncoder, gives_tokens
from retrokit.similarities.base import Role

OUTPUT = "token_embeddings"
CALIBRATION, MEASURED, BATCH = 96, 200, 8  # texts
LEAST = {"fp32": 0.9999, "int8": 0.8}  # median cosine to the model; below, the conversion has failed
_IN_CI = {"CI": "true", "NNCF_CI": "1"}

Inputs = Mapping[str, np.ndarray]
"""Token ids, mask and any other input of the transformer, by name: int64 ``[n, t]`` each."""
Compute = Callable[[Inputs], np.ndarray]
"""Inputs → token embeddings, float32 ``[n, t, d]``."""
Forward = Callable[[dict[str, Any]], dict[str, Any]]
"""Features of a batch → the features, and token embeddings among them."""


class Traced(nn.Module):
    """A transformer as a function of tensors ``[n, t]``, in the order of ``example``, for a tracer."""

    def __init__(self, transformer: Transformer, example: Inputs) -> None:
        super().__init__()
        self.transformer = transformer
        self.example = {name: torch.from_numpy(array) for name, array in example.items()}
        self.eval()

    def forward(self, *inputs: Tensor) -> Tensor:
        """The token embeddings ``[n, t, d]``."""
        embeddings: Tensor = self.transformer(dict(zip(self.example, inputs, strict=True)))[OUTPUT]
        return embeddings


class GraphTransformer(nn.Module):
    """Replaces the transformer of a SentenceTransformer: tokenises as that does, and computes by the graph."""

    def __init__(self, transformer: Transformer, compute: Callable[[], Compute]) -> None:
        super().__init__()
        self.__dict__["_transformer"] = transformer  # no part of this module: its weights are not what computes
        self._open = compute
        self._compute: Compute | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_transformer"], name)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Adds the token embeddings, float32 ``[n, t, d]``."""
        if self._compute is None:
            self._compute = self._open()
            self.__dict__["_transformer"].model.to("meta")  # its weights are in the graph
        return _computed(self._compute, features)


def openvino(encoder: str, dtype: str, device: str | None = None) -> "GraphEncoder":
    """``encoder``, whose transformer OpenVINO computes."""
    return GraphEncoder(encoder, "openvino", dtype, device)


def onnx(encoder: str, dtype: str, device: str | None = None) -> "GraphEncoder":
    """``encoder``, whose transformer ONNX Runtime computes."""
    return GraphEncoder(encoder, "onnx", dtype, device)


class GraphEncoder(TorchEncoder):
    """An encoder whose transformer the engine ``backend`` computes in ``dtype``; all it can do is embed."""

    def __init__(self, encoder: str, backend: str, dtype: str, device: str | None = None) -> None:
        """Load ``encoder``.

        Raises:
            UsageError: it is no transformer of texts, or the ``device`` is no CPU.
        """
        name = f"{backend}:{encoder}"
        if device not in (None, "cpu"):
            raise UsageError(f"{name} computes on the CPU; leave `device=` {device} out")
        plain, transformer = _loaded(name, encoder)
        with _quietly():
            engine: Any = import_module(f"{__package__}.{backend}")
        self._versions = {package: version(package) for package in engine.PACKAGES}
        super().__init__(name, plain.model, plain.similarity, plain.had_normalize)
        self._dtype = dtype
        texts = manual()
        calibrated = hashlib.sha256("".join(texts).encode()).hexdigest() if dtype == "int8" else ""
        self._decided_by = [backend, dtype, self._versions, calibrated]
        self._fingerprint = self._digest_with(plain.fingerprint())
        self._document_fingerprint = self._digest_with(plain.document_fingerprint())

        def write(folder: Path) -> Note:
            notice(f"{self.spec}: converting the transformer, which happens once and takes a while")
            random.Random(0).shuffle(texts)
            sample = sorted(texts[:CALIBRATION], key=len)
            text_batches = [sample[start : start + BATCH] for start in range(0, len(sample), BATCH)]
            batches = [_inputs_of(self.model.preprocess(batch)) for batch in text_batches]
            with _quietly():
                engine.write(Traced(transformer, batches[0]), dtype, batches, folder)
            computed = partial(_computed, engine.read(folder, torch.get_num_threads()))
            measured = texts[CALIBRATION:][:MEASURED]
            before, after = (_embedded(self.model, way, measured) for way in (transformer, computed))
            cosines = torch.cosine_similarity(before.double(), after.double())
            low, median = cosines.min(), cosines.median()
            if not median >= LEAST[dtype]:
                problem = f"cannot convert to {backend}: the median cosine to the model is {median:.4f}"
                raise DataError(self.spec, f"{problem}; use {encoder}")
            said = f"cosine to fp32 at least {low:.4f}, median {median:.4f} ({len(cosines)} texts)"
            notice(f"{self.spec}: {said}")
            return Note(self.spec, said)

        def opened() -> Compute:
            with kept("graphs", self._fingerprint, write) as folder:
                compute: Compute = engine.read(folder, torch.get_num_threads())
                return compute

        self.model[0] = GraphTransformer(transformer, opened)

    def _digest_with(self, fingerprint: str) -> str:
        """A digest of the encoder's ``fingerprint`` and of all that this one adds."""
        return hashlib.sha256(json.dumps([fingerprint, *self._decided_by]).encode()).hexdigest()

    def fingerprint(self) -> str:
        return self._fingerprint

    def document_fingerprint(self) -> str:
        return self._document_fingerprint

    def code(self) -> Mapping[str, str] | None:
        code = super().code()
        return None if code is None else {**code, **self._versions}

    def computes_in(self, precision: str = "auto") -> str:
        if precision not in ("auto", self._dtype):
            raise UsageError(f"{self.spec} computes in {self._dtype}; leave `precision=` {precision} out")
        return "float32" if self._dtype == "fp32" else self._dtype

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        self.computes_in(precision)
        return super().embed(items, role)

    def token_embeddings(self, items: Sequence[Item], role: Role, precision: str = "auto") -> list[np.ndarray]:
        self.computes_in(precision)
        return super().token_embeddings(items, role)

    def with_layers(self) -> LayeredEncoder:
        raise UsageError(f"{self.spec} shows no layers: its graph computes them at once")

    def to_train(self) -> TrainableEncoder:
        return Encoder.to_train(self)


def _loaded(name: str, spec: str) -> tuple[TrainableEncoder, Transformer]:
    """The encoder ``spec`` on the CPU, in float32, and its transformer."""
    try:
        plain: TrainableEncoder = encoders.registry.create(spec, device="cpu").to_train()
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
    transformer = plain.model[0]
    if not isinstance(transformer, Transformer) or not gives_tokens(transformer):
        raise UsageError(f"{name} computes a transformer of texts, and {spec} has none")
    if getattr(transformer.model, "is_quantized", False) or plain.device.type != "cpu":
        raise UsageError(f"{name} computes on the CPU, from whole weights; leave bits= and device_map= out")
    transformer.float()
    return plain, transformer


def manual() -> list[str]:
    """Paragraphs of the manual that comes with Python."""
    from pydoc_data.topics import topics

    paragraphs = (" ".join(line.split()) for topic in sorted(topics) for line in topics[topic].split("\n\n"))
    return [paragraph for paragraph in dict.fromkeys(paragraphs) if len(paragraph) >= 80]


@torch.inference_mode()
def _embedded(model: SentenceTransformer, transformer: Forward, texts: Sequence[str]) -> Tensor:
    """Embeddings of documents, float32 ``[n, d]``, those of the shortest texts first."""
    texts = sorted(texts, key=len)
    prompt = (model.prompts or {}).get("document") or None
    embeddings: list[Tensor] = []
    for start in range(0, len(texts), BATCH):
        features = transformer(model.preprocess(texts[start : start + BATCH], prompt=prompt, task="document"))
        for module in list(model)[1:]:
            features = module(features)
        embeddings.append(features["sentence_embedding"].float())
    return torch.cat(embeddings)


def _inputs_of(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What a transformer takes of the features of a batch."""
    return {name: value.numpy() for name, value in features.items() if isinstance(value, Tensor) and value.ndim == 2}


def _computed(compute: Compute, features: Mapping[str, Any]) -> dict[str, Any]:
    return {**features, OUTPUT: torch.from_numpy(compute(_inputs_of(features)))}


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the engines' bars, warnings, and reports to their makers, which they leave out in CI."""
    before, surroundings = logging.root.manager.disable, {name: os.environ.get(name) for name in _IN_CI}
    os.environ |= _IN_CI
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        for name, value in surroundings.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
