"""An encoder whose transformer is a graph. It is converted once, when something is first computed, measured against the
model, and kept beside the embedding cache under a digest of all that decides it. Tokens, pooling and what follows are
the model's own."""

import hashlib
import io
import json
import logging
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn

from retrokit.core.errors import DataError, MissingExtra, UsageError
from retrokit.core.files import digest
from retrokit.core.notices import notice
from retrokit.data.beir import corpus_file
from retrokit.data.pairs import read_source, texts_file
from retrokit.data.training_rows import Unlabelled
from retrokit.encoders import check_own_precision
from retrokit.encoders.base import Encoder, LayeredEncoder, TrainableEncoder
from retrokit.encoders.store.graphs import kept
from retrokit.encoders.torch_encoder import TorchEncoder, gives_tokens

OUTPUT = "token_embeddings"

Inputs = Mapping[str, np.ndarray]
"""Token ids, mask and whatever else the transformer takes, by name: int64 ``[n, t]`` each."""
Compute = Callable[[Inputs], np.ndarray]
"""Inputs → token embeddings, float32 ``[n, t, d]``."""


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


class GraphEngine(Protocol):
    """An engine. Its module has these by name; the extra that installs its packages is called as the module is."""

    PACKAGES: tuple[str, ...]
    """The packages that decide what is computed."""

    def write(self, traced: Traced, dtype: str, calibration: Sequence[Inputs], folder: Path) -> None:
        """Convert the transformer into files in ``folder``.

        Args:
            dtype: ``fp32``, or ``int8``: weights and activations in 8 bits.
            calibration: batches of the texts to calibrate 8 bits with.
        """

    def read(self, folder: Path, threads: int) -> Compute:
        """What computes the graph in ``folder`` as it was written, whatever else the processor is fast in."""


def inputs_of(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What a transformer takes of the features of a batch."""
    return {name: value.numpy() for name, value in features.items() if isinstance(value, Tensor) and value.ndim == 2}


CALIBRATION, MEASURED = 96, 200  # texts, and others where there are enough
BATCH = 8
Forward = Callable[[dict[str, Any]], dict[str, Any]]
"""Features of a batch → the features, and token embeddings among them."""
LEAST = {"fp32": 0.9999, "int8": 0.8}  # median cosine to the model; below, the conversion has failed


class CalibrationTexts:
    """The texts of ``path``: a BEIR folder, a JSONL file of texts, or by default English of Python's own manual.

    Raises:
        DataError: it is neither.
    """

    def __init__(self, path: str | None) -> None:
        self.name = "Python's manual" if path is None else path
        self._file = None if path is None else texts_file(path, corpus_file)

    @cached_property
    def digest(self) -> str:
        """Of all that it reads."""
        return hashlib.sha256("".join(_manual()).encode()).hexdigest() if self._file is None else digest(self._file)

    @cached_property
    def texts(self) -> list[str]:
        """Those to calibrate with first, in an order that is random and always the same."""
        records = [] if self._file is None else read_source(self._file, "texts").records
        texts = [record.text for record in records if isinstance(record, Unlabelled)] if records else _manual()
        texts = [text for text in texts if text.strip()]
        random.Random(0).shuffle(texts)
        return texts

    def calibration(self) -> list[list[str]]:
        """Batches of texts of about one length."""
        texts = sorted(self.texts[:CALIBRATION], key=len)
        return [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]

    def compare(self, model: SentenceTransformer, plain: Forward, computed: Forward, dtype: str) -> str:
        """What embeddings are worth where ``computed`` stands in for ``plain``, the transformer of ``model``: one line.

        Raises:
            DataError: they are not those of the model.
        """
        texts = self.texts[CALIBRATION if len(self.texts) >= 2 * CALIBRATION else 0 :][:MEASURED]
        before, after = (_embedded(model, way, texts) for way in (plain, computed))
        cosines = torch.cosine_similarity(before.double(), after.double())
        if not cosines.median() >= LEAST[dtype]:
            problem = f"cannot be computed so: half of the cosines to the model are below {cosines.median():.4f}"
            raise DataError(self.name, problem)
        return f"cosine to fp32 at least {cosines.min():.4f}, median {cosines.median():.4f} ({len(cosines)} texts)"


def _manual() -> list[str]:
    """Paragraphs of the manual that comes with Python."""
    from pydoc_data.topics import topics

    paragraphs = (" ".join(part.split()) for topic in sorted(topics) for part in topics[topic].split("\n\n"))
    return [paragraph for paragraph in dict.fromkeys(paragraphs) if len(paragraph) >= 80]


@torch.inference_mode()
def _embedded(model: SentenceTransformer, transformer: Forward, texts: Sequence[str]) -> Tensor:
    """Embeddings of documents, float32 ``[n, d]``, in the order of ``texts``."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    embeddings: list[Tensor] = []
    for rows in np.split(order, range(BATCH, len(order), BATCH)):
        prompt = (model.prompts or {}).get("document") or None
        features = transformer(model.preprocess([texts[row] for row in rows], prompt=prompt, task="document"))
        for module in list(model)[1:]:
            features = module(features)
        embeddings.append(features["sentence_embedding"].float())
    return torch.cat(embeddings)[torch.from_numpy(np.argsort(order))]


_IN_CI = {"CI": "true", "NNCF_CI": "1"}


class GraphTransformer(nn.Module):
    """Stands where a SentenceTransformer has its transformer: tokenises as that does, and computes by the graph."""

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


class GraphEncoder(TorchEncoder):
    """A SentenceTransformer whose transformer the engine ``backend`` computes in ``dtype``; all it can do is embed."""

    def __init__(self, plain: TorchEncoder, backend: str, dtype: str, sample: CalibrationTexts) -> None:
        """``plain`` is taken over: it is used no more.

        Raises:
            MissingExtra: the engine is not installed.
            UsageError: ``plain`` is no transformer.
            DataError: what ``sample`` names cannot be read.
        """
        transformer = plain.model[0]
        if not isinstance(transformer, Transformer) or not gives_tokens(transformer):
            raise UsageError(f"{plain.spec}: backend={backend} computes a transformer of texts, and it has none")
        try:
            with _quietly():
                engine: GraphEngine = import_module(f"{__package__}.{backend}")
            self._versions = {name: version(name) for name in engine.PACKAGES}
        except (ImportError, PackageNotFoundError) as error:
            raise MissingExtra(f"backend={backend}", backend) from error
        super().__init__(plain.spec, plain.model, plain.similarity, plain.had_normalize)
        self._dtype = dtype
        calibrated = sample.digest if dtype == "int8" else ""
        decided_by = [plain.fingerprint(), backend, dtype, self._versions, calibrated]
        self._fingerprint = hashlib.sha256(json.dumps(decided_by).encode()).hexdigest()

        def write(folder: Path) -> dict[str, str]:
            notice(f"{self.spec}: is converted, which is done once and takes a while")
            batches = [inputs_of(self._model.preprocess(part)) for part in sample.calibration()]
            with _quietly():
                engine.write(Traced(transformer, batches[0]), dtype, batches, folder)
            computed = partial(_computed, engine.read(folder, torch.get_num_threads()))
            said = sample.compare(self._model, transformer, computed, dtype)
            notice(f"{self.spec}: {said}")
            return {"spec": self.spec, "backend": backend, "dtype": dtype, "sample": sample.name, "said": said}

        def opened() -> Compute:
            with kept(self._fingerprint[:32], write) as folder:
                return engine.read(folder, torch.get_num_threads())

        self._model[0] = GraphTransformer(transformer, opened)

    def fingerprint(self) -> str:
        return self._fingerprint

    def code(self) -> Mapping[str, str] | None:
        code = super().code()
        return None if code is None else {**code, **self._versions}

    def computes_in(self, precision: str = "auto") -> str:
        check_own_precision(self.spec, self._dtype, precision)
        return "float32" if self._dtype == "fp32" else self._dtype

    def with_layers(self) -> LayeredEncoder:
        raise UsageError(f"{self.spec} shows no layers: its graph computes them at once")

    def to_train(self) -> TrainableEncoder:
        return Encoder.to_train(self)


def _computed(compute: Compute, features: Mapping[str, Any]) -> dict[str, Any]:
    return {**features, OUTPUT: torch.from_numpy(compute(inputs_of(features)))}


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
