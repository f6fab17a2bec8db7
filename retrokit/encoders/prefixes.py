"""Prompts of a decoder that begin alike: their common tokens are computed once."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

WORTH = 16  # common tokens; a pass for fewer costs more than it saves


class _StartLayer(DynamicLayer):
    """The keys and values of a prompt's start in a layer, from which other prompts continue."""

    def update(self, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """``[n, heads, t, d]``, behind those of the start, which are those of the first call."""
        if not self.is_initialized:
            stored: tuple[Tensor, Tensor] = super().update(keys, values, *args, **kwargs)
            return stored
        shape = len(keys), -1, -1, -1
        return torch.cat([self.keys.expand(shape), keys], dim=2), torch.cat([self.values.expand(shape), values], dim=2)


def sharing(first: Any) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """A decoder's first module, but for the common start of prompts, which it computes once; ``None`` for any other
    module, and for a decoder whose layers do not attend to all tokens before."""
    if getattr(first, "transformer_task", None) != "text-generation":
        return None
    names = inspect.signature(first.model.forward).parameters
    cache_name = "cache" if "cache" in names else "past_key_values"  # by the library's release
    layers = DynamicCache(config=first.model.config).layers
    if any(type(layer) is not DynamicLayer for layer in layers) or not {cache_name, "position_ids"} <= names.keys():
        return None
    return partial(_compute, first, cache_name)


def _compute(first: Any, cache_name: str, features: dict[str, Any]) -> dict[str, Any]:
    ids, mask = features["input_ids"], features["attention_mask"]
    by_token = [name for name, value in features.items() if isinstance(value, Tensor) and value.shape == ids.shape]
    count = count_shared(ids, mask)
    options: dict[str, Any] = {}
    if len(ids) == 1 or count < WORTH:
        count = 0
    else:
        options = {cache_name: Cache(layer_class_to_replicate=_StartLayer), "use_cache": True}
        begin = int(mask[0].argmax())
        start = {name: features[name][:1, begin : begin + count] for name in by_token}
        first({**features, **start}, **options)
        mask = torch.cat([mask.new_ones(len(mask), count), mask[:, : mask.shape[1] - count]], dim=1)
    rest = {name: features[name][:, count:] for name in by_token}
    rest["attention_mask"] = mask
    rest["position_ids"] = mask.cumsum(dim=1).sub(1).clamp(min=0)[:, count:]
    output: dict[str, Any] = first({**features, **rest}, **options)
    return output


def count_shared(ids: Tensor, mask: Tensor) -> int:
    """How many tokens all rows begin with, but for the last of the shortest; padding is on the left.

    >>> ids = torch.tensor([[5, 6, 7, 8], [0, 5, 6, 9]])
    >>> count_shared(ids, torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1]]))
    2
    """
    lengths = mask.sum(dim=1)
    columns = torch.arange(int(lengths.min()) - 1, device=ids.device)
    starts = ids.gather(1, columns + (ids.shape[1] - lengths)[:, None])
    is_alike = (starts == starts[0]).all(dim=0)
    return int(is_alike.long().cumprod(dim=0).sum())
