"""What a step of a run takes in memory, for the plan that is shown before it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.casting import cast
from retrokit.encoders.engine import tokens_at_once
from retrokit.encoders.folders import is_description
from retrokit.encoders.precision import choose_precision, multiplies
from retrokit.training.config import AUTO, FinetuneConfig
from retrokit.training.model import restrict
from retrokit.training.step_memory import measure

if TYPE_CHECKING:
    from retrokit.training.finetune import Plan

BATCHES, LENGTHS = (1, 8, 64), (128, 512, 2048)
STORED = {4: 1 / 2 + 4 / 64, 8: 1.0}  # bytes of a weight of so many bits; 64 weights of 4 bits share a scale


def with_memory(plan: Plan) -> Plan:
    """The plan, with the memory that a step takes in its preflight; as it is for an encoder that is no transformer of
    texts."""
    transformer = getattr(plan.model[0], "auto_model", None)
    if transformer is None or plan.model.supports("image"):
        return plan
    limit = max(entry["limit"] or 0 for entry in plan.preflight.lengths.values()) or LENGTHS[-1]
    shape = plan.config, plan.device, limit, len(plan.data[0].document_ids)
    memory = _of_description(*shape) if is_quantized(transformer) else _of(transformer, *shape)
    return replace(plan, preflight=replace(plan.preflight, memory=memory))


def of_description(config: FinetuneConfig) -> dict[str, Any] | None:
    """What a step would take of an encoder of whose model the configuration alone is there, so that no data is read;
    ``None`` if there is more of it.

    Raises:
        DataError: a configuration that cannot be read.
        UsageError: options that do not fit the model.
    """
    path = _parameters(config).get("path")
    if not isinstance(path, str) or not is_description(path):
        return None
    notice(f"{path}: there are no weights, only a description: it is told how much memory they would take")
    device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return _of_description(config, device, None, documents=1)


def _parameters(config: FinetuneConfig) -> dict[str, Any]:
    return dict(encoders.registry.parse(config.start).params)


def _of_description(config: FinetuneConfig, device: torch.device, limit: int | None, documents: int) -> dict[str, Any]:
    """Of a model as its configuration describes it, in memory as :func:`~retrokit.training.model.build` would put
    it."""
    from retrokit.encoders.loading import described

    path, bits = _parameters(config)["path"], int(_parameters(config).get("bits") or 0)
    dtype = choose_precision(config.precision, device)
    model = described(path)
    if model.config.get_text_config() is not model.config:
        raise UsageError(f"{path}: memory is told of models of texts, and this one has more towers than theirs")
    is_base = config.lora is not None and not config.merge_lora
    cast(model, dtype if is_base and not bits else torch.float32)
    linear = [part.weight for part in model.modules() if isinstance(part, nn.Linear)] if bits else []
    spared = sum(weight.nbytes - round(weight.numel() * STORED[bits]) for weight in linear)
    with torch.device("meta"):
        restrict(model, path, config.freeze, config.low_rank)
    longest = limit or int(getattr(model.config, "max_position_embeddings", LENGTHS[-1]))
    memory = _of(model, config, device, longest, documents)
    return {**memory, "weights": memory["weights"] - spared}


def _of(model: nn.Module, config: FinetuneConfig, device: torch.device, limit: int, documents: int) -> dict[str, Any]:
    longest = config.max_length or min(limit, LENGTHS[-1])
    lengths = {*(tokens for tokens in LENGTHS if tokens < longest), longest}
    memory = measure(
        model,
        choose_precision(config.precision, device, multiplies(model)),
        {*BATCHES, *([] if config.batch_size == AUTO else [int(config.batch_size)])},
        lengths,
        documents=documents,
        mini_batch=None if config.mini_batch in (None, AUTO) else int(config.mini_batch),
        at_once=tokens_at_once(device),
    )
    return asdict(memory)
