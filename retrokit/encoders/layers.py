"""The hidden layers of a SentenceTransformer: the embeddings after each of them in one pass, and their weights.

Layer 0 is the embedding layer (CROP, Figure 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.encoders.engine import embeddings_of
from retrokit.encoders.towers import has_routes, tower_of, with_modules

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer


def every_layer(model: SentenceTransformer, spec: str) -> tuple[SentenceTransformer, list[int]]:
    """A model of the embeddings after every layer, side by side, and the dimensions of each; it shares the modules.

    A hidden layer is pooled as the last one is. Modules behind the pooling (Dense) were trained for the last layer and
    apply only to that. To be run within :func:`hidden_states`.
    """
    from sentence_transformers.base.modules import Router

    routes, widths = {}, []
    for role in ("query", "document"):
        tower = tower_of(model, role)
        count, rest = _count(tower[0]), list(tower)[1:]
        if not rest:
            raise UsageError(f"{spec} pools within its transformer: its hidden layers cannot be had")
        widths.append([*[int(rest[0].get_embedding_dimension())] * count, int(model.get_embedding_dimension())])
        routes[role] = [tower[0], _PoolEveryLayer(tower, count)]
    if widths[0] != widths[1]:
        raise UsageError(f"{spec}: the layers of its two towers have different dimensions, {widths[0]} and {widths[1]}")
    modules = [Router(routes)] if has_routes(model) else routes["document"]
    result = with_modules(model, modules)
    result.truncate_dim, result.module_kwargs = None, None
    return result, widths[0]


@contextmanager
def hidden_states(transformers: Sequence[Transformer]) -> Iterator[None]:
    """Have the models give their hidden states; the switch is in their configurations, which others use as well."""
    configs = [transformer.model.config for transformer in transformers]
    before = [config.output_hidden_states for config in configs]
    for config in configs:
        config.output_hidden_states = True
    try:
        yield
    finally:
        for config, value in zip(configs, before, strict=True):
            config.output_hidden_states = value


class _PoolEveryLayer(nn.Module):
    """Pools every hidden state, and takes the last one through all modules behind the transformer."""

    forward_kwargs = ("task",)

    def __init__(self, tower: SentenceTransformer, count: int) -> None:
        super().__init__()
        self.rest = nn.ModuleList(list(tower)[1:])
        self._tower = [tower]  # no part of this module
        self.count = count

    def forward(self, features: dict[str, Any], task: str) -> dict[str, Any]:
        """``token_embeddings [n, t, d]`` of every layer → ``sentence_embedding [n, (layers + 1) · d]``."""
        states = features.pop("all_layer_embeddings")
        if len(states) != self.count + 1:
            raise UsageError(f"the model has {self.count} layers but gives {len(states)} hidden states")
        pooled = []
        for state in states[:-1]:
            layer = self.rest[0]({**features, "token_embeddings": state.float()})
            pooled.append(layer["sentence_embedding"])
        features["sentence_embedding"] = torch.cat([*pooled, embeddings_of(self._tower[0], features, task)], dim=1)
        return features


def _count(transformer: Transformer) -> int:
    """Layers, the embedding layer not counted."""
    return int(transformer.model.config.num_hidden_layers)


def weights(transformers: Sequence[Transformer], spec: str) -> list[dict[str, Tensor]]:
    """The weights of the embedding layer, then of each transformer layer, by their name within the model; on the CPU.

    What is outside of both (a pooler that is not used, a last normalisation) belongs to no layer.
    """
    if len(transformers) > 1:
        raise UsageError(f"{spec} has two transformers, of queries and of documents, whose layers are not compared")
    model, count = transformers[0].model, _count(transformers[0])
    paths = {id(module): path for path, module in model.named_modules()}
    table_path = paths[id(model.get_input_embeddings())]
    stack = paths[id(_stack(model, count, spec))]
    parameters = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    layer_paths = [_outermost_without(table_path, stack)] + [f"{stack}.{k}" for k in range(count)]
    by_layer = []
    for path in layer_paths:
        by_layer.append({name: value for name, value in parameters.items() if name.startswith(f"{path}.")})
    return by_layer


def _stack(model: nn.Module, count: int, spec: str) -> nn.ModuleList:
    """The list of the layers."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise UsageError(f"{spec}: its layers are not found in {type(model).__name__}")


def _outermost_without(path: str, stack: str) -> str:
    """The path of the largest module that contains the one at ``path``, and none of the layers at ``stack``."""
    names = path.split(".")
    ancestors = (".".join(names[:size]) for size in range(1, len(names) + 1))
    return next(ancestor for ancestor in ancestors if not f"{stack}.".startswith(f"{ancestor}."))
