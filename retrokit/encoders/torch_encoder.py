"""The encoder that computes with PyTorch: a SentenceTransformer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor

from retrokit.core.errors import UsageError
from retrokit.data.images import Prompted, check_texts
from retrokit.encoders import engine, layers, lengths, processes
from retrokit.encoders.base import (
    Batch,
    Encoder,
    Item,
    LayeredEncoder,
    TokenEncoder,
    TrainableEncoder,
    check_finite,
    gathered,
)
from retrokit.encoders.fingerprint import Weights, code_of, describe
from retrokit.encoders.precision import PRECISIONS, choose_precision, multiplies, name_of
from retrokit.encoders.towers import tower_of, towers
from retrokit.similarities.base import Role, Similarity

_PROMPTS = {
    "query": ("query", "search_query", "retrieval.query", "s2p_query"),
    "document": ("document", "passage", "corpus", "search_document", "retrieval.passage"),
}
"""What models call the prompt of each role in their settings, the library's own names first."""

_PARTS = ("engine.py", "packed.py", "casting.py", "layers.py", "onednn.py", "towers.py")
_COMPUTING = [str(Path(__file__).with_name(name)) for name in _PARTS]


class TorchEncoder(TokenEncoder, LayeredEncoder, TrainableEncoder):
    """A SentenceTransformer that yields raw embeddings. What it is like follows its weights and settings, which may
    change.

    Attributes:
        assumed: what its folder does not state and was assumed, in words; empty: nothing.
    """

    assumed = ""

    def __init__(
        self, spec: str, model: SentenceTransformer, similarity: Similarity, had_normalize: bool = False
    ) -> None:
        self.spec = spec
        self.similarity = similarity
        self.had_normalize = had_normalize
        self._model = model
        self._weights = Weights()

    # --- what it is like

    @property
    def dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def prompts(self) -> Mapping[str, str | None]:
        own = self._model.prompts or {}
        return {role: next((own[key] for key in keys if own.get(key)), None) for role, keys in _PROMPTS.items()}

    def max_length(self, role: Role) -> int | None:
        return engine.token_limit(self._model, role)

    def computes_in(self, precision: str = "auto") -> str:
        return name_of(self._computing_in(precision))

    def fingerprint(self) -> str:
        digest = self._weights.digest(self._model)
        limits = {role: engine.token_limit(self._model, role) for role in ("query", "document")}
        described = {**describe(self._model), "prompts": self.prompts, "max_length": limits}
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
        return str(digest.hexdigest())

    def code(self) -> Mapping[str, str] | None:
        return code_of({type(self), *map(type, self._model.modules())}, _COMPUTING)

    # --- what it computes

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        embeddings = gathered(self.batches(items, role, precision), len(items), self.dimension)
        check_finite(embeddings, self.spec)
        return embeddings

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        if not self._model.supports("image"):
            check_texts(items, self.spec)
        dtype = self._computing_in(precision)
        if processes.can_help(self, len(items)):
            return processes.batches(self, items, role, next(name for name in PRECISIONS if PRECISIONS[name] == dtype))
        return engine.batches(self._model, items, role, self._prompt_of(items, role), dtype)

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        return lengths.cut(self._model, items, role, self._prompt_of(items, role))

    def spans(self, texts: Sequence[Item], size: int, overlap: int) -> list[np.ndarray]:
        check_texts(texts, f"{self.spec} in chunks")
        return lengths.spans(self._model, texts, self.prompts["document"], size, overlap, self.spec)

    def token_embeddings(self, items: Sequence[Item], role: Role, precision: str = "auto") -> list[np.ndarray]:
        check_texts(items, self.spec)
        dtype = self._computing_in(precision)
        embeddings = engine.encode_tokens(self._model, items, role, self._prompt_of(items, role), dtype)
        check_finite(embeddings, self.spec)
        return embeddings

    @property
    def token_dimension(self) -> int:
        return int(tower_of(self._model, "document")[0].get_embedding_dimension())

    @property
    def tells_roles_apart(self) -> bool:
        alike = (
            isinstance(self._model[0], (Transformer, StaticEmbedding))
            and self.prompts["query"] == self.prompts["document"]
            and self.max_length("query") == self.max_length("document")
        )
        return not alike

    @property
    def tokenizer(self) -> Any:
        return self._model.tokenizer

    def every_layer(self) -> tuple[Encoder, list[int]]:
        encoder = _EveryLayer(self)
        return encoder, encoder.widths

    def layer_weights(self) -> list[dict[str, Tensor]]:
        return layers.weights(self._transformers(), self.spec)

    @property
    def model(self) -> SentenceTransformer:
        return self._model

    def with_tokens(self) -> TokenEncoder:
        firsts = [tower[0] for tower in towers(self._model)]
        fit = len({first.get_embedding_dimension() for first in firsts}) == 1 and all(map(gives_tokens, firsts))
        return self if fit else super().with_tokens()

    def with_layers(self) -> LayeredEncoder:
        self._transformers()
        return self

    def to_train(self) -> TrainableEncoder:
        return self

    def _prompt_of(self, items: Sequence[Item], role: Role) -> str | None:
        """The prompt that is put before the items, all or none of which have one of their own."""
        return None if len(items) and isinstance(items[0], Prompted) else self.prompts[role]

    def _computing_in(self, precision: str) -> torch.dtype:
        return choose_precision(precision, self.device, multiplies(self._model))

    def _transformers(self) -> list[Transformer]:
        """The transformer of each tower."""
        firsts = list({id(tower[0]): tower[0] for tower in towers(self._model)}.values())
        if not all(isinstance(first, Transformer) and gives_tokens(first) for first in firsts):
            raise UsageError(f"{self.spec} has no layers: it is not a transformer")
        return firsts


def gives_tokens(first: Any) -> bool:
    """Whether a model's first module embeds tokens; one of two towers, of texts and of images, pools by itself."""
    return getattr(first, "module_output_name", "token_embeddings") == "token_embeddings"


class _EveryLayer(TorchEncoder):
    """Embeddings after every layer, side by side; layer k takes ``widths[k]`` columns."""

    def __init__(self, whole: TorchEncoder) -> None:
        model, self.widths = layers.every_layer(whole.model, whole.spec)
        super().__init__(whole.spec, model, whole.similarity)
        self._whole = whole

    @property
    def dimension(self) -> int:
        return sum(self.widths)

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        dtype = self._computing_in(precision)
        with layers.hidden_states(self._transformers()):
            yield from engine.batches(self._model, items, role, self.prompts[role], dtype)

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        self._whole.use_with(similarity, dims)

    def fingerprint(self) -> str:
        return f"{self._whole.fingerprint()} after every layer"
