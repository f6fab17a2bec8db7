"""Casting a model to another type as its architecture means it.

A model that is *built* in bf16 keeps in float32 what must be exact, the frequencies of its rotary positions above all;
PyTorch's ``to`` rounds them as well, and the error then grows with the position.
"""

import copy
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch
from torch import nn
from transformers import PreTrainedModel

from retrokit.encoders.attention import use_attention

_exact: WeakKeyDictionary[nn.Module, dict[torch.dtype, frozenset[str]]] = WeakKeyDictionary()


def cast(module: nn.Module, dtype: torch.dtype, exact: frozenset[str] | None = None) -> nn.Module:
    """Cast ``module`` in place, but for the buffers named ``exact``; by default those of :func:`exact_buffers`."""
    names = exact_buffers(module, dtype) if exact is None else exact
    buffers = {name: module.get_buffer(name) for name in names}
    module.to(dtype)
    for name, buffer in buffers.items():
        place, _, leaf = name.rpartition(".")
        setattr(module.get_submodule(place), leaf, buffer)
    return module


def exact_buffers(module: nn.Module, dtype: torch.dtype) -> frozenset[str]:
    """Names of the buffers that are float32 in ``module``, and in a model of its architecture built in ``dtype``."""
    known = _exact.setdefault(module, {})
    if dtype not in known:
        known[dtype] = frozenset(_exact_buffers(module, dtype)) if dtype != torch.float32 else frozenset()
    return known[dtype]


def _exact_buffers(module: nn.Module, dtype: torch.dtype) -> Iterator[str]:
    for place, model in _models(module):
        floats = {name for name, buffer in model.named_buffers() if buffer.dtype == torch.float32}
        if floats:
            built = {name for name, buffer in _built(model, dtype).named_buffers() if buffer.dtype == torch.float32}
            yield from (f"{place}.{name}".lstrip(".") for name in floats & built)


def _models(module: nn.Module, place: str = "") -> Iterator[tuple[str, PreTrainedModel]]:
    """The outermost models of the library within ``module``, with their places."""
    if isinstance(module, PreTrainedModel):
        yield place, module
        return
    for name, child in module.named_children():
        yield from _models(child, f"{place}.{name}".lstrip("."))


def _built(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A model of the same architecture without memory for weights, made in ``dtype``."""
    config = copy.deepcopy(model.config)
    use_attention(config, "eager")  # another kind may look for a device
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            return type(model)(config)
    finally:
        torch.set_default_dtype(before)
