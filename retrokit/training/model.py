"""From an encoder to the model under training (its modules and the similarity, parts frozen, LoRA or dropout
added), and back to the stock model that is saved."""

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Dropout, StaticEmbedding
from torch import nn
from transformers.pytorch_utils import Conv1D

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.core.notices import notice
from retrokit.data.jsonl import read_json
from retrokit.encoders import engine
from retrokit.encoders.adapters import base_of, is_adapter, is_quantized, merge
from retrokit.encoders.base import Encoder
from retrokit.encoders.modules import Prepare
from retrokit.encoders.packed import cast
from retrokit.encoders.saving import save_model
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.encoders.towers import with_modules
from retrokit.similarities.base import Similarity
from retrokit.training.processes import part_of

ALL = "all-linear"
RATE, STATIC_RATE = 2e-5, 0.05
"""Default learning rates; each row of a table of embeddings is in few batches."""


@dataclass(frozen=True)
class LowRank:
    """An update is ``alpha / rank`` times the product of two matrices, float32, one of which starts at 0.

    Attributes:
        rank: columns of the first matrix, rows of the second.
        alpha: default: twice the rank.
        dropout: probability, of the update's input.
        targets: names of layers, or ends of their paths such as ``attention.output.dense``, with ``+`` between; or
            ``all-linear``.
        last: number of last layers to update; no gradient reaches those before. Default: all.
        load: bits that the other weights are loaded in.
        merge: whether the saved model has the updates merged into its weights.
    """

    rank: int
    alpha: float | None = None
    dropout: float = 0.0
    targets: str = ALL
    last: int | None = None
    load: str | None = None
    merge: bool = False

    def add(self, first: nn.Module, name: str, seed: int, base: str | None) -> None:
        """Freeze the transformer ``first`` of the encoder ``name`` and add updates, an adapter of the model ``base``.

        Raises:
            UsageError: there are no such layers.
        """
        from peft import LoraConfig, inject_adapter_in_model, prepare_model_for_kbit_training

        if isinstance(first, StaticEmbedding):
            raise UsageError(f"`lora=`: {name} is a table of embeddings and has no linear layers")
        if hasattr(first, "sub_modules"):
            raise UsageError(f"`lora=`: {name} begins with a Router; leave out `lora=`")
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
                parameter.data = parameter.data.float()

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


def build(
    encoder: Encoder,
    spec: str,
    prefixes: Sequence[int] = (),
    freeze: str | None = None,
    lora: LowRank | None = None,
    dropout: float | None = None,
    seed: int = 0,
    checkpointed: bool = False,
    merge_lora: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[SentenceTransformer, Similarity]:
    """The model to train, which computes in ``dtype``, and the similarity inside it. It shares the encoder's modules.
    Trained weights become float32, for bf16 rounds a step of 2e-5 away; weights below an adapter become ``dtype``."""
    trained = encoder.to_train().model
    sizes = sorted({*prefixes, encoder.dimension}) if prefixes or trained.truncate_dim else None
    prepare = Prepare(spec, sizes)
    for size in sizes or [encoder.dimension]:
        if size > encoder.dimension:
            raise UsageError(f"`matryoshka=` {size}: {encoder.spec} has {encoder.dimension} dimensions")
        prepare.similarity.check_dimension(size)
    if encoder.similarity.spec == spec:  # further training starts from the learned γ
        prepare.similarity.load_state_dict(encoder.similarity.state_dict())
    prepare.similarity.spec = spec
    modules = list(trained)
    base = _base_of(encoder) if lora is not None and not merge_lora else None
    if is_quantized(modules[0]):
        if base is None:
            cannot = "cannot be merged; leave out merge of `lora=`" if merge_lora else "are not trained; give `lora=`"
            raise UsageError(f"{encoder.spec}: quantised weights {cannot}")
        modules[0].register_forward_hook(_in_float32)
    elif base is not None and dtype != torch.float32:
        cast(modules[0], dtype)
        modules[0].register_forward_hook(_in_float32)
    elif any(value.is_floating_point() and value.dtype != torch.float32 for value in trained.parameters()):
        notice(f"{encoder.spec}: trained and saved in float32")
        trained.float()
    if dropout is not None:
        _set_dropout(trained, dropout)  # before LoRA, which has its own
        if isinstance(modules[0], StaticEmbedding):
            modules.append(Dropout(dropout))
    left = restrict(trained[0], encoder.spec, freeze, lora, seed, base)
    if checkpointed:
        transformer = getattr(trained[0], "auto_model", None)
        if transformer is None or not transformer.supports_gradient_checkpointing:
            raise UsageError(f"`gradient_checkpointing=`: {encoder.spec} does not support it; leave it out")
        # the second is its name in older versions
        enable = getattr(transformer, "activation_checkpointing_enable", transformer.gradient_checkpointing_enable)
        enable({"use_reentrant": False})
    if not left and not any(list(module.parameters()) for module in [*modules[1:], prepare]):
        raise UsageError(f"`freeze=` {freeze}: nothing of {encoder.spec} is left to train")
    return with_modules(trained, [*modules, prepare.to(encoder.device)]), prepare.similarity


def _in_float32(module: nn.Module, given: Any, features: dict[str, Any]) -> dict[str, Any]:
    """A transformer's outputs in the type of pooling and similarity."""
    return {k: v.float() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in features.items()}


def check_weights(model: nn.Module, source: str | Path) -> None:
    """Raise :class:`DataError` about ``source`` unless all weights are finite."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter.detach()).all()):
            raise DataError(source, f"weights are not finite: {name}")


def learning_rate(model: SentenceTransformer) -> float:
    """The default for a model."""
    return STATIC_RATE if isinstance(model[0], StaticEmbedding) else RATE


def freeze_unused(model: SentenceTransformer, sample: tuple[Sequence[str], Sequence[str]]) -> None:
    """Freeze parameters without an effect on embeddings (a pooler's), by a backward pass with a ``sample`` of queries
    and documents: distributed training would wait for their gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for role, items in zip(("query", "document"), sample, strict=True):
            features = engine.preprocess(model, items, None, role)
            moved = {k: v.to(model.device) if isinstance(v, torch.Tensor) else v for k, v in features.items()}
            model({**moved, "task": role})["sentence_embedding"].sum().backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.requires_grad_(False)
    model.zero_grad(set_to_none=True)


def as_encoder(model: SentenceTransformer, spec: str) -> Encoder:
    """A view of the model under training as an encoder of raw embeddings; nothing is copied."""
    *modules, prepare = list(model)
    encoder_modules = [module for module in modules if not isinstance(module, Dropout)]
    return TorchEncoder(spec, with_modules(model, encoder_modules), prepare.similarity)


def export(model: SentenceTransformer, folder: Path) -> None:
    """Save the model under training for use: stock modules wherever they express the similarity."""
    *modules, prepare = list(model)
    similarity = prepare.similarity
    final_modules = [module for module in modules if not isinstance(module, Dropout)]
    if not is_adapter(final_modules[0]):
        final_modules[0] = merged(final_modules[0])
    if similarity.export == "normalize":
        final_modules.append(Normalize())
    elif similarity.export == "prepared":
        last = Prepare(prepare.similarity_spec, None if model.truncate_dim is None else [model.truncate_dim])
        last.similarity.load_state_dict(similarity.state_dict())
        final_modules.append(last)
    final_model = with_modules(model, final_modules)
    final_model.similarity_fn_name = similarity.library_name
    save_model(final_model, folder)
    forget_where_it_came_from(folder / "config.json")


def merged(first: nn.Module) -> nn.Module:
    """A first module, or a copy with the low-rank updates merged into copies of their weights; all other weights are
    shared."""
    if not any("lora_" in name for name, _ in first.named_parameters()):
        return first
    shared = {id(weight): nn.Parameter(weight.detach(), requires_grad=False) for weight in first.parameters()}
    copied = copy.deepcopy(first, shared)
    transformer: Any = copied.auto_model
    merge(transformer)
    return copied


def forget_where_it_came_from(config: Path) -> None:
    """Remove the path that a model was loaded from, which the library writes into its configuration."""
    if config.is_file():
        described = read_json(config, "the configuration of a model", nan=True)
        if described.pop("_name_or_path", None) is not None:
            config.write_text(json.dumps(described, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def trainable_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """The trainable parameters by name, not copied."""
    return {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}


def load_trainable_state(model: nn.Module, state: dict[str, torch.Tensor]) -> None:
    """Restore a result of :func:`trainable_state`; raises :class:`ValueError` if it is of another model."""
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if state.keys() != parameters.keys():
        raise ValueError(f"not the same parameters: {', '.join(sorted(state.keys() ^ parameters.keys())[:3])}")
    with torch.no_grad():
        for name, value in state.items():
            parameters[name].copy_(part_of(value, parameters[name]))


def restrict(
    first: nn.Module, name: str, freeze: str | None, lora: LowRank | None, seed: int = 0, base: str | None = None
) -> bool:
    """Add low-rank updates to the transformer ``first`` of the encoder ``name``, or freeze the named layers; whether a
    layer is left to train."""
    if lora is not None:
        lora.add(first, name, seed, base)
    if freeze is None:
        return True
    if isinstance(first, StaticEmbedding):
        raise UsageError(f"`freeze=` {freeze}: {name} is a table of embeddings; nothing would be left to train")
    count = getattr(getattr(first, "config", None), "num_hidden_layers", None)
    stacks = [part for part in first.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    if not stacks:
        raise UsageError(f"`freeze=`: {name} has no stack of layers")
    kind, _, number = freeze.partition(":")
    if number and int(number) > len(stacks[0]):
        raise UsageError(f"`freeze=` {freeze}: {name} has {count} layers")
    frozen = 0 if kind == "embeddings" else int(number) if kind == "first" else len(stacks[0]) - int(number)
    in_layers = {id(parameter) for parameter in stacks[0].parameters()}
    for place, parameter in first.named_parameters():
        if id(parameter) not in in_layers and re.search(r"embed|wte|wpe", place):
            parameter.requires_grad_(False)
    for layer in stacks[0][:frozen]:
        layer.requires_grad_(False)
    return any(parameter.requires_grad for parameter in stacks[0].parameters())


def _base_of(encoder: Encoder) -> str | None:
    """The model that an adapter of the encoder names as its base; ``None`` with a notice if there is none."""
    transformer = getattr(encoder.to_train().model[0], "auto_model", None)
    if transformer is None:
        return None
    revision = dict(encoders.registry.parse(encoder.spec).params).get("revision")
    base = base_of(transformer, None if revision is None else str(revision))
    if base is None:
        notice(
            f"{encoder.spec}: its weights have no name for an adapter to refer to; the updates are merged when saved"
        )
    return base


_DROPOUT_ATTRIBUTES = ("dropout", "attention_dropout", "hidden_dropout", "dropout_prob")


def _set_dropout(model: nn.Module, probability: float) -> None:
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = probability
        for attribute in _DROPOUT_ATTRIBUTES:
            if isinstance(getattr(part, attribute, None), float):
                setattr(part, attribute, probability)


def has_dropout(model: nn.Module) -> bool:
    """Whether the model under training has dropout, so that two passes of a text differ."""
    layers = (part.p for part in model.modules() if isinstance(part, nn.Dropout))
    others = (getattr(part, attribute, None) for part in model.modules() for attribute in _DROPOUT_ATTRIBUTES)
    return any(value > 0 for value in (*layers, *others) if isinstance(value, float))


def describe_parameters(model: nn.Module) -> dict[str, Any]:
    """Numbers of all parameters, of those that are trained, and of the similarity's."""
    parameters = list(model.named_parameters())
    return {
        "total": sum(value.numel() for _, value in parameters),
        "trainable": sum(value.numel() for _, value in parameters if value.requires_grad),
        "similarity": sum(value.numel() for name, value in parameters if ".similarity." in name),
    }
