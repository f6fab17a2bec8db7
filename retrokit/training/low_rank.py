"""Low-rank updates of the linear layers of a transformer (LoRA), which are trained while all else is frozen."""

import re
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import nn
from transformers.pytorch_utils import Conv1D

from retrokit.core.errors import MissingExtra, UsageError, did_you_mean
from retrokit.encoders.adapters import is_quantized

ALL = "all-linear"


@dataclass(frozen=True)
class LowRank:
    """An update is ``alpha / rank`` times the product of two matrices, float32, one of which starts at 0.

    Attributes:
        rank: columns of the first matrix, rows of the second.
        alpha: default: twice the rank.
        dropout: probability, of the update's input.
        targets: names of layers, or ends of their places such as ``attention.output.dense``, with ``+`` between; or
            ``all-linear``.
        last: so many of the last layers are updated alone, and no gradient goes through those before; default: all.
    """

    rank: int
    alpha: float | None = None
    dropout: float = 0.0
    targets: str = ALL
    last: int | None = None

    def add(self, first: nn.Module, name: str, seed: int, base: str | None) -> None:
        """Freeze the transformer ``first`` of the encoder ``name``, and add updates; with ``base`` they are saved as an
        adapter of the model of that name.

        Raises:
            MissingExtra: the package is not installed.
            UsageError: there are no such layers.
        """
        try:
            from peft import LoraConfig, inject_adapter_in_model, prepare_model_for_kbit_training
        except ModuleNotFoundError as error:
            raise MissingExtra("`lora=`", "lora") from error
        if isinstance(first, StaticEmbedding):
            raise UsageError(f"`lora=`: {name} is one table of embeddings and has no linear layers")
        if hasattr(first, "sub_modules"):
            raise UsageError(f"`lora=`: {name} begins with a Router; leave out `lora=` to train all of its weights")
        transformer: Any = getattr(first, "auto_model", first)
        if is_quantized(transformer):  # norms and embeddings in float32 (QLoRA)
            prepare_model_for_kbit_training(transformer, use_gradient_checkpointing=False)
        configuration = LoraConfig(
            r=self.rank,
            lora_alpha=2 * self.rank if self.alpha is None else self.alpha,
            lora_dropout=self.dropout,
            target_modules=self._targets_in(transformer, name),
            base_model_name_or_path=base,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inject_adapter_in_model(configuration, transformer)
        for place, parameter in first.named_parameters():
            parameter.requires_grad_("lora_" in place)
            if parameter.requires_grad:
                parameter.data = parameter.data.float()  # whatever its base has

    def _targets_in(self, transformer: nn.Module, name: str) -> str | list[str]:
        if self.targets == ALL and self.last is None:
            return ALL
        places = [place for place, part in transformer.named_modules() if isinstance(part, (nn.Linear, Conv1D))]
        targets = [] if self.targets == ALL else self.targets.split("+")
        if self.last is not None:
            count = getattr(transformer.config, "num_hidden_layers", 0)
            if self.last > count:
                raise UsageError(f"`lora=` last={self.last}: {name} has {count} layers")
            in_layer = {place: re.search(r"\.(\d+)\.", place) for place in places}
            places = [place for place, match in in_layer.items() if match and int(match[1]) >= count - self.last]
        fitting = {target: [place for place in places if f".{place}".endswith(f".{target}")] for target in targets}
        if missing := [target for target, there in fitting.items() if not there]:
            known = sorted({place.rpartition(".")[2] for place in places})
            hint = did_you_mean(missing[0], known)
            no_layer = f"{name} has no linear layer called {', '.join(missing)}{hint}; it has {', '.join(known)}"
            raise UsageError(f"`lora=` targets: {no_layer}")
        if self.last is None:
            return targets
        return [place for place in places if not targets or any(place in there for there in fitting.values())]
