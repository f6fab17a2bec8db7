"""From an encoder to the model under training (its modules and the similarity, parts frozen, LoRA or dropout
added), and back to the stock model that is saved."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, did_you_mean
from retrokit.core.notices import notice
from retrokit.data.jsonl import read_json
from retrokit.encoders import engine
from retrokit.encoders.adapters import base_of, is_adapter, is_quantized, merge
from retrokit.encoders.base import Encoder
from retrokit.encoders.preparing import Preparing
from retrokit.encoders.tables import is_table
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.encoders.towers import with_modules
from retrokit.similarities.base import Similarity
from retrokit.training.processes import part_of

if TYPE_CHECKING:  # a table is trained without the library until it is saved
    from sentence_transformers import SentenceTransformer

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

        if is_table(first):
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
        for path, parameter in first.named_parameters():
            parameter.requires_grad_("lora_" in path)
            if parameter.requires_grad:
                parameter.data = parameter.data.float()

    def _targets_in(self, transformer: nn.Module, name: str) -> str | list[str]:
        """The linear layers to update, as PEFT takes them: a word, ends of paths, or paths."""
        if self.targets == ALL and self.last is None:
            return ALL
        paths = _linear_layers(transformer)
        if self.last is not None:
            paths = _in_last_layers(paths, self.last, getattr(transformer.config, "num_hidden_layers", 0), name)
        if self.targets == ALL:
            return paths
        targets = self.targets.split("+")
        missing = [target for target in targets if not _matching(paths, [target])]
        if missing:
            raise _no_layers(missing, paths, name)
        return targets if self.last is None else _matching(paths, targets)


def _linear_layers(transformer: nn.Module) -> list[str]:
    """Their paths."""
    from transformers.pytorch_utils import Conv1D

    return [path for path, module in transformer.named_modules() if isinstance(module, (nn.Linear, Conv1D))]


def _matching(paths: Sequence[str], targets: Sequence[str]) -> list[str]:
    """The paths whose last names are one of the ``targets``."""
    endings = tuple(f".{target}" for target in targets)
    return [path for path in paths if f".{path}".endswith(endings)]


def _no_layers(targets: Sequence[str], paths: Sequence[str], name: str) -> UsageError:
    layers = sorted({path.rpartition(".")[2] for path in paths})
    hint = did_you_mean(targets[0], layers)
    no_layer = f"{name} has no linear layer called {', '.join(targets)}{hint}; it has {', '.join(layers)}"
    return UsageError(f"`lora=` targets: {no_layer}")


def _in_last_layers(paths: Sequence[str], last: int, count: int, name: str) -> list[str]:
    """The paths of modules in the ``last`` of the ``count`` layers of the encoder ``name``."""
    if last > count:
        raise UsageError(f"`lora=` last={last}: {name} has {count} layers")
    chosen = []
    for path in paths:
        layer = re.search(r"\.(\d+)\.", path)
        if layer is not None and int(layer[1]) >= count - last:
            chosen.append(path)
    return chosen


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
    prepare = _prepare_module(encoder, spec, prefixes)
    modules = list(trained)
    base = _base_of(encoder) if lora is not None and not merge_lora else None
    if base is None:
        _check_not_quantized(modules[0], encoder.spec, merge_lora)
    _set_precision(trained, encoder.spec, base is not None, dtype)
    if dropout is not None:
        _set_dropout(trained, dropout)  # before LoRA, which has its own
        if is_table(modules[0]):
            modules.append(TextDropout(dropout))
    is_trainable = restrict(trained[0], encoder.spec, freeze, lora, seed, base)
    if checkpointed:
        _recompute_activations(trained[0], encoder.spec)
    if not is_trainable and not any(list(module.parameters()) for module in [*modules[1:], prepare]):
        raise UsageError(f"`freeze=` {freeze}: nothing of {encoder.spec} is left to train")
    return with_modules(trained, [*modules, prepare.to(encoder.device)]), prepare.similarity


def _prepare_module(encoder: Encoder, spec: str, prefixes: Sequence[int]) -> Preparing:
    """The module of the similarity ``spec`` for the encoder's embedding and its ``prefixes``."""
    sizes = None
    if prefixes or encoder.to_train().model.truncate_dim:
        sizes = sorted({*prefixes, encoder.dimension})
    prepare = Preparing(spec, sizes)
    for size in sizes or [encoder.dimension]:
        if size > encoder.dimension:
            raise UsageError(f"`matryoshka=` {size}: {encoder.spec} has {encoder.dimension} dimensions")
        prepare.similarity.check_fits(size)
    if encoder.similarity.spec == spec:  # further training starts from the learned γ
        prepare.similarity.load_state_dict(encoder.similarity.state_dict())
    prepare.similarity.spec = spec
    return prepare


def _check_not_quantized(first: nn.Module, name: str, merge_lora: bool) -> None:
    if is_quantized(first):
        cannot = "cannot be merged; leave out merge of `lora=`" if merge_lora else "are not trained; give `lora=`"
        raise UsageError(f"{name}: quantised weights {cannot}")


def _set_precision(trained: SentenceTransformer, name: str, has_adapter: bool, dtype: torch.dtype) -> None:
    """Float32 for all weights; below an adapter, ``dtype`` or the few bits that the weights have."""
    if is_quantized(trained[0]):
        trained[0].register_forward_hook(_in_float32)
    elif has_adapter and dtype != torch.float32:
        from retrokit.encoders.packed import cast

        cast(trained[0], dtype)
        trained[0].register_forward_hook(_in_float32)
    elif any(weight.is_floating_point() and weight.dtype != torch.float32 for weight in trained.parameters()):
        notice(f"{name}: trained and saved in float32")
        trained.float()


def _in_float32(module: nn.Module, inputs: Any, features: dict[str, Any]) -> dict[str, Any]:
    """A transformer's outputs in the type of pooling and similarity."""
    return engine.floats_in_float32(features)


def _recompute_activations(first: nn.Module, name: str) -> None:
    """Gradient checkpointing in the transformer ``first`` of the encoder ``name``."""
    transformer = getattr(first, "auto_model", None)
    if transformer is None or not transformer.supports_gradient_checkpointing:
        raise UsageError(f"`gradient_checkpointing=`: {name} does not support it; leave it out")
    # the second is its name in older versions
    enable = getattr(transformer, "activation_checkpointing_enable", transformer.gradient_checkpointing_enable)
    enable({"use_reentrant": False})


def check_weights(model: nn.Module, source: str | Path) -> None:
    """Raise :class:`DataError` about ``source`` unless all weights are finite."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter.detach()).all()):
            raise DataError(source, f"weights are not finite: {name}")


class TextDropout(nn.Module):
    """Dropout of a table's embeddings, while it is trained."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(probability)

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace the embeddings of texts."""
        return {**features, "sentence_embedding": self.dropout(features["sentence_embedding"])}


def learning_rate(model: SentenceTransformer) -> float:
    """The default for a model."""
    return STATIC_RATE if is_table(model[0]) else RATE


def freeze_unused(model: SentenceTransformer, sample: tuple[Sequence[str], Sequence[str]]) -> None:
    """Freeze parameters without an effect on embeddings (a pooler's), by a backward pass with a ``sample`` of queries
    and documents: distributed training would wait for their gradients."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for role, items in zip(("query", "document"), sample, strict=True):
            features = engine.on_device(engine.preprocess(model, items, None, role), model.device)
            model({**features, "task": role})["sentence_embedding"].sum().backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.requires_grad_(False)
    model.zero_grad(set_to_none=True)


def as_encoder(model: SentenceTransformer, spec: str) -> Encoder:
    """A view of the model under training as an encoder of raw embeddings; nothing is copied."""
    *modules, prepare = list(model)
    encoder_modules = [module for module in modules if not isinstance(module, TextDropout)]
    return TorchEncoder(spec, with_modules(model, encoder_modules), prepare.similarity)


def export(model: SentenceTransformer, folder: Path) -> None:
    """Save the model under training for use: stock modules wherever they express the similarity."""
    from sentence_transformers.base.modules import Normalize

    from retrokit.encoders.modules import Prepare
    from retrokit.encoders.saving import save_model

    *modules, prepare = list(model)
    similarity = prepare.similarity
    final_modules = [module for module in modules if not isinstance(module, TextDropout)]
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
    if is_table(first):
        raise UsageError(f"`freeze=` {freeze}: {name} is a table of embeddings; nothing would be left to train")
    layers = _layers_of(first, name)
    count = _frozen_layers(freeze, len(layers), name)
    in_layers = {id(parameter) for parameter in layers.parameters()}
    for path, parameter in first.named_parameters():
        if id(parameter) not in in_layers and re.search(r"embed|wte|wpe", path):
            parameter.requires_grad_(False)
    for layer in layers[:count]:
        layer.requires_grad_(False)
    return any(parameter.requires_grad for parameter in layers.parameters())


def _layers_of(first: nn.Module, name: str) -> nn.ModuleList:
    """The stack of layers of a transformer."""
    count = getattr(getattr(first, "config", None), "num_hidden_layers", None)
    for module in first.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise UsageError(f"`freeze=`: {name} has no stack of layers")


def _frozen_layers(freeze: str, count: int, name: str) -> int:
    """How many of ``count`` layers, from the first, ``freeze`` names."""
    kind, _, number = freeze.partition(":")
    if kind == "embeddings":
        return 0
    if int(number) > count:
        raise UsageError(f"`freeze=` {freeze}: {name} has {count} layers")
    return int(number) if kind == "first" else count - int(number)


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
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability
        for attribute in _DROPOUT_ATTRIBUTES:
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, probability)


def has_dropout(model: nn.Module) -> bool:
    """Whether the model under training has dropout, so that two passes of a text differ."""
    for module in model.modules():
        probabilities = [getattr(module, attribute, None) for attribute in _DROPOUT_ATTRIBUTES]
        if isinstance(module, nn.Dropout):
            probabilities.append(module.p)
        if any(isinstance(probability, float) and probability > 0 for probability in probabilities):
            return True
    return False


def describe_parameters(model: nn.Module) -> dict[str, Any]:
    """Numbers of all parameters, of those that are trained, and of the similarity's."""
    parameters = list(model.named_parameters())
    return {
        "total": sum(value.numel() for _, value in parameters),
        "trainable": sum(value.numel() for _, value in parameters if value.requires_grad),
        "similarity": sum(value.numel() for name, value in parameters if ".similarity." in name),
    }
