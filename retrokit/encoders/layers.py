"""Hidden layers: the encoder after each of its layers, and how far each layer's weights are from where they started.

Layer 0 is the embedding layer (CROP, Figure 4). One pass through the model yields the embeddings after every layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn

from retrokit.data.runs import is_run, read_run
from retrokit.encoders import registry
from retrokit.encoders.encoder import Encoder
from retrokit.encoders.engine import Keep
from retrokit.encoders.views import Kept
from retrokit.errors import UsageError
from retrokit.similarities.base import Role


def layers(encoder: Encoder) -> list[Encoder]:
    """The encoder after each layer: at place k after layer k, 0 being the embedding layer; the last is itself.

    A hidden layer is pooled as the last one is; what the model has behind its pooling (Dense) was made for the last
    layer and applies to that alone. All layers' embeddings are kept in memory, float32 ``[n, (layers + 1) · d]``.

    Raises:
        UsageError: the encoder is no transformer.
    """
    whole = _EveryLayer(encoder)
    kept = Kept(whole)
    return [kept.part(start, stop, f"layer {k}") for k, (start, stop) in enumerate(pairwise(whole.bounds))]


def layer_count(encoder: Encoder) -> int:
    """Transformer layers, the embedding layer not counted.

    Raises:
        UsageError: the encoder is no transformer.
    """
    return int(_config(_transformer(encoder)).num_hidden_layers)


class _EveryLayer(Encoder):
    """Embeddings after every layer, side by side; layer k is in the columns from ``bounds[k]`` to ``bounds[k + 1]``."""

    def __init__(self, encoder: Encoder) -> None:
        transformer = _transformer(encoder)
        count = layer_count(encoder)
        rest = list(encoder.model)[1:]
        if not rest:
            raise UsageError(f"{encoder.spec} pools within its transformer: its hidden layers cannot be had")
        pooled = [rest[0].get_embedding_dimension()] * count
        self.bounds = list(accumulate([*pooled, encoder.dimension], initial=0))
        modules = [transformer, _PoolEveryLayer(rest, count)]
        model = SentenceTransformer(modules=modules, device=str(encoder.device), prompts=encoder.model.prompts)
        super().__init__(encoder.spec, model, encoder.similarity, encoder.had_normalize, cached=encoder.cached)
        self._last = encoder

    @property
    def dimension(self) -> int:
        return self.bounds[-1]

    @property
    def device(self) -> torch.device:
        return self._last.device

    def _encode(self, texts: Sequence[str], role: Role, dtype: torch.dtype, keep: Keep | None = None) -> np.ndarray:
        with _hidden_states(_config(_transformer(self._last))):
            return super()._encode(texts, role, dtype, keep).reshape(len(texts), self.dimension)

    def use_with(self, similarity: Any, dims: int | None = None) -> None:
        self._last.use_with(similarity, dims)

    def fingerprint(self) -> str:
        return f"{self._last.fingerprint()} after every layer"


class _PoolEveryLayer(nn.Module):
    """Pools every hidden state, and takes the last one through all modules behind the transformer."""

    def __init__(self, rest: Sequence[nn.Module], count: int) -> None:
        super().__init__()
        self.rest = nn.ModuleList(rest)
        self.count = count

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """``token_embeddings [n, t, d]`` of every layer → ``sentence_embedding [n, (layers + 1) · d]``."""
        states = features.pop("all_layer_embeddings")
        if len(states) != self.count + 1:
            raise UsageError(f"the model has {self.count} layers but gives {len(states)} hidden states")
        pooled = [self._pooled(features, state) for state in states[:-1]]
        for module in self.rest:
            features = module(features)
        features["sentence_embedding"] = torch.cat([*pooled, features["sentence_embedding"]], dim=1)
        return features

    def _pooled(self, features: dict[str, Any], state: Tensor) -> Tensor:
        pooled: Tensor = self.rest[0]({**features, "token_embeddings": state.float()})["sentence_embedding"]
        return pooled


def _transformer(encoder: Encoder) -> Transformer:
    first = encoder.model[0]
    if not isinstance(first, Transformer):
        raise UsageError(f"{encoder.spec} has no layers: it is no transformer")
    return first


def _config(transformer: Transformer) -> Any:
    return transformer.model.config


@contextmanager
def _hidden_states(config: Any) -> Iterator[None]:
    """Have the model give its hidden states; the switch is in its configuration, which others use as well."""
    before = config.output_hidden_states
    config.output_hidden_states = True
    try:
        yield
    finally:
        config.output_hidden_states = before


def layer_changes(start: Encoder, end: Encoder) -> list[float]:
    """How far each layer of ``end`` is from the same layer of ``start``: ``‖W − W₀‖_F / ‖W₀‖_F`` over all of a
    layer's weights, the embedding layer first.

    Raises:
        UsageError: one of them is no transformer, or they are not of one architecture.
    """
    before, after = _weights(start), _weights(end)
    shapes = [[{name: tensor.shape for name, tensor in layer.items()} for layer in side] for side in (before, after)]
    if shapes[0] != shapes[1]:
        raise UsageError(f"{end.spec} and {start.spec} are not of one architecture: their weights cannot be compared")
    return [_relative_change(old, new) for old, new in zip(before, after, strict=True)]


def _relative_change(old: dict[str, Tensor], new: dict[str, Tensor]) -> float:
    moved = sum(float((new[name].double() - tensor.double()).square().sum()) for name, tensor in old.items())
    length = sum(float(tensor.double().square().sum()) for tensor in old.values())
    return float(np.sqrt(moved / length)) if length else 0.0


def _weights(encoder: Encoder) -> list[dict[str, Tensor]]:
    """The weights of the embedding layer, then of each transformer layer, by their name within the model.

    What stands outside of both (a pooler that is not used, a last normalisation) belongs to no layer.
    """
    model, count = _transformer(encoder).model, layer_count(encoder)
    stacks = [name for name, part in model.named_modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not stacks:
        raise UsageError(f"{encoder.spec}: its layers are not found in {type(model).__name__}")
    stack = stacks[0]
    places = [_embedding_part(model, stack), *(f"{stack}.{k}" for k in range(count))]
    parameters = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    return [{name: value for name, value in parameters.items() if name.startswith(f"{place}.")} for place in places]


def _embedding_part(model: nn.Module, stack: str) -> str:
    """The largest part of the model that holds the input embeddings and none of the layers."""
    table = model.get_input_embeddings()  # type: ignore[operator] # transformers' models have it
    name = next(name for name, part in model.named_modules() if part is table)
    words = name.split(".")
    ancestors = [".".join(words[:size]) for size in range(1, len(words) + 1)]
    return next(part for part in ancestors if not f"{stack}.".startswith(f"{part}."))


def starting_encoder(encoder: Encoder) -> str | None:
    """The spec of the encoder from which a run (or one of its checkpoints) was trained; ``None`` for what is no run.

    Raises:
        DataError: the run's description is damaged.
    """
    folder = Path(str(registry.parse(encoder.spec).params.get("path", "")))
    is_checkpoint = re.fullmatch(r"checkpoint-\d+", folder.name) is not None
    run = folder.parents[1] if is_checkpoint and len(folder.parents) > 1 else folder
    return read_run(run, "encoder").encoder if is_run(run) else None
