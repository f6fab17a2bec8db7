"""An encoder whose transformer is a graph. It is converted once, when something is first computed, measured against the
model, and kept beside the embedding cache under a digest of all that decides it. Tokens, pooling and what follows are
the model's own."""

import hashlib
import io
import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from sentence_transformers.base.modules import Transformer
from torch import nn

from retrokit.core.errors import MissingExtra, UsageError
from retrokit.core.notices import notice
from retrokit.encoders import check_own_precision
from retrokit.encoders.base import Encoder, LayeredEncoder, TrainableEncoder
from retrokit.encoders.graphs.base import OUTPUT, Compute, GraphEngine, Traced, inputs_of
from retrokit.encoders.graphs.quality import CalibrationTexts
from retrokit.encoders.store.graphs import kept
from retrokit.encoders.torch_encoder import TorchEncoder, gives_tokens

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
