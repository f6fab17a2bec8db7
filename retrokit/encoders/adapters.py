"""Adapters: low-rank updates of a model's weights, saved without the model, under the name of their base."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import nn

from retrokit.encoders.folders import MINILM_PACKAGE

_CONFIG = "adapter_config.json"
_PACKS = "support_avx512bf16_for_cpu"  # of bitsandbytes' layers: whether they may


def base_of(transformer: Any, revision: str | None = None) -> str | None:
    """The folder or hub id by which an adapter can name ``transformer`` as its base; ``None`` if there is no such name.

    Fresh weights and an adapter's have none, nor has a ``revision`` of a hub id, which an adapter cannot record. The
    folder of an installed package differs between machines, so it is no name unless the weights are quantised.
    """
    name = str(transformer.name_or_path)
    if MINILM_PACKAGE in Path(name).parts and not is_quantized(transformer):
        return None
    if os.path.isdir(name):
        return None if os.path.exists(os.path.join(name, _CONFIG)) else os.path.abspath(name)
    return None if os.path.isabs(name) or not name or revision else name


def is_quantized(module: nn.Module) -> bool:
    """Whether a transformer, or the module that contains it, has quantised weights, which stay as they are."""
    return bool(getattr(getattr(module, "auto_model", module), "is_quantized", False))


def is_adapter(module: nn.Module) -> bool:
    """Whether the transformer in ``module`` has low-rank updates that name a base, and are saved without it."""
    configurations = getattr(getattr(module, "auto_model", None), "peft_config", {})
    return any(configuration.base_model_name_or_path for configuration in configurations.values())


@contextmanager
def saving_adapters(module: nn.Module) -> Iterator[None]:
    """Within the block, ``save_pretrained`` of an adapter's transformer writes PEFT's two files."""
    if not is_adapter(module):
        yield
        return
    from peft import get_peft_model_state_dict
    from peft.utils import SAFETENSORS_WEIGHTS_NAME

    transformer: Any = getattr(module, "auto_model", module)

    def save_pretrained(folder: str, **options: Any) -> None:
        (configuration,) = transformer.peft_config.values()
        configuration.save_pretrained(folder)
        weights = get_peft_model_state_dict(transformer, save_embedding_layers=False)
        named = {f"base_model.model.{name}": weight.contiguous() for name, weight in weights.items()}
        save_file(named, Path(folder) / SAFETENSORS_WEIGHTS_NAME, {"format": "pt"})

    transformer.save_pretrained = save_pretrained
    try:
        yield
    finally:
        del transformer.save_pretrained


def keep_as_stored(transformer: nn.Module) -> None:
    """Stop bitsandbytes from repacking 4-bit weights. On a processor with AVX512-BF16, it repacks them in place at the
    first inference, for a kernel that gives no gradient and takes only widths that are multiples of 32."""
    for module in transformer.modules():
        if hasattr(module, _PACKS):
            setattr(module, _PACKS, False)


def merge(transformer: nn.Module) -> None:
    """Merge the low-rank updates into their base weights, in place. Weights of 4 and 8 bits stay unmerged."""
    layers = {name: module for name, module in transformer.named_modules() if hasattr(module, "base_layer")}
    if not layers or is_quantized(transformer):
        return
    for name, layer in layers.items():
        layer.merge(safe_merge=True)
        parent, _, attribute = name.rpartition(".")
        setattr(transformer.get_submodule(parent), attribute, layer.get_base_layer())
    transformer.requires_grad_(True)  # beside an adapter they were frozen
    attributes = vars(transformer)
    attributes.pop("peft_config", None)
    if attributes.pop("_hf_peft_config_loaded", False):  # else it was loaded whole: these notes are about its weights
        attributes.pop("_weight_conversions", None)
    attributes["name_or_path"] = ""  # which has other weights
