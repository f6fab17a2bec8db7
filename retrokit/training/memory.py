"""The memory that a training step takes, by a closed formula, and the sizes that ``auto`` stands for by it.

Activations are estimated from the widths of the linear layers. For BERT, RoBERTa, DistilBERT, ModernBERT, T5, Llama,
Qwen3 and Gemma 3 the estimate is within 30% of what autograd keeps. Temporary memory is not included.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import nn
from transformers import PreTrainedModel

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.base import Encoder
from retrokit.encoders.engine import tokens_at_once
from retrokit.encoders.folders import is_description
from retrokit.encoders.packed import cast
from retrokit.encoders.precision import choose_precision, multiplies
from retrokit.training.batches import TrainingSet
from retrokit.training.config import AUTO, FinetuneConfig
from retrokit.training.model import restrict
from retrokit.training.preflight import LENGTH_SAMPLE, measure_lengths, texts_of
from retrokit.training.processes import all_say, place
from retrokit.training.run import folder_of

ADAM_STATES = 2  # mean and square of each gradient
PER_FEATURE, PER_FEATURE_MIXED = 5.2, 3.5
"""Bytes per token and feature that goes into or comes out of a linear layer, in float32 and under autocast."""
PER_ATTENTION = 12
"""Bytes per pair of tokens and head: attention with dropout keeps its probabilities and its mask."""
DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "dropout_rate")
STORED = {4: 1 / 2 + 4 / 64, 8: 1.0}  # bytes of a weight of so many bits; 64 weights of 4 bits share a scale
BATCHES, LENGTHS = (1, 8, 64), (128, 512, 2048)
SHARE = 0.6
"""Of free memory, for ``auto``: what computes it in passing, and batches in the making, take some too."""
FEWEST, SMALLEST = 30, 8
"""Steps that an epoch shall have, however much memory there is; examples of a batch, even where there are fewer."""
PER_SCORE, PER_NUMBER = 96, 32
"""Bytes of the loss for a query and a document (scores, exponents and gradients in float32, codes), and for a number
of an embedding (as it came, prepared, gathered, gradients)."""


@dataclass(frozen=True)
class Activations:
    """Bytes that ``batch`` examples, all of whose texts have ``tokens`` tokens, keep for the backward pass;
    ``checkpointed``: at most at a time with gradient checkpointing, ``None`` where the model cannot do it."""

    batch: int
    tokens: int
    kept: int
    checkpointed: int | None


@dataclass(frozen=True)
class Memory:
    """Bytes of a step: ``copies`` are those of the weights in the type that is computed in, where it is another."""

    weights: int
    gradients: int
    optimizer: int
    copies: int
    activations: list[Activations]


def memory_of(
    model: PreTrainedModel,
    dtype: torch.dtype,
    batches: Collection[int],
    lengths: Collection[int],
    *,
    documents: int,
    mini_batch: int | None,
    at_once: int,
) -> Memory:
    """The memory that a training step of the transformer ``model`` takes, computing in ``dtype``.

    Args:
        documents: of an example.
        mini_batch: texts whose activations are held at once (gradient caching); ``None``: all of the batch.
        at_once: tokens that go through the model together.
    """
    parameters = list(model.parameters())
    first = next((place for place, value in enumerate(parameters) if value.requires_grad), len(parameters))
    back = {id(value) for value in parameters[first:]}  # gradients flow back to here
    linear = [part for name, part in model.named_modules() if isinstance(part, nn.Linear) and "lora_" not in name]
    reached = [part for part in linear if id(part.weight) in back]
    config = model.config.get_text_config()
    layers = config.num_hidden_layers * len(reached) / max(1, len(linear))
    per_feature = PER_FEATURE if dtype == torch.float32 else PER_FEATURE_MIXED
    per_token = per_feature * sum(part.in_features + part.out_features for part in reached)
    has_dropout = any(getattr(config, name, 0) for name in DROPOUTS)
    per_pair = PER_ATTENTION * layers * config.num_attention_heads if has_dropout else 0

    def activations(tokens: int, batch: int) -> Activations:
        of_text = tokens * (per_token + per_pair * tokens)
        inputs = (layers + 2) * config.hidden_size * tokens * model.dtype.itemsize
        texts = documents * batch
        held = batch + texts if mini_batch is None else min(mini_batch, texts)
        together = min(texts, max(1, at_once // tokens), mini_batch or texts)
        checkpointed = round(held * inputs + together * of_text / max(1, layers))
        return Activations(
            batch, tokens, round(held * of_text), checkpointed if model.supports_gradient_checkpointing else None
        )

    gradients = sum(value.nbytes for value in parameters if value.requires_grad)
    copied = sum(part.weight.numel() for part in linear if part.weight.requires_grad)
    return Memory(
        weights=sum(value.nbytes for value in (*parameters, *model.buffers())),
        gradients=gradients,
        optimizer=ADAM_STATES * gradients,
        copies=0 if dtype == torch.float32 else copied * dtype.itemsize,
        activations=[activations(tokens, batch) for tokens in sorted(lengths) for batch in sorted(batches)],
    )


def forecast(
    model: SentenceTransformer, config: FinetuneConfig, device: torch.device, limit: int | None, documents: int
) -> dict[str, Any] | None:
    """What a step takes; ``None`` for an encoder that is no transformer of texts. ``limit`` is that of a text's tokens,
    ``documents`` are those of an example."""
    transformer = getattr(model[0], "auto_model", None)
    if transformer is None or model.supports("image"):
        return None
    shape = config, device, limit or LENGTHS[-1], documents
    return _of_description(*shape) if is_quantized(transformer) else _forecast(transformer, *shape)


def of_description(config: FinetuneConfig) -> dict[str, Any] | None:
    """What a step would take of an encoder of whose model the configuration alone is there, so that no data is read;
    ``None`` if there is more of it.

    Raises:
        DataError: a configuration that cannot be read.
        UsageError: options that do not fit the model.
    """
    path = encoders.registry.parse(config.start).params.get("path")
    if not isinstance(path, str) or not is_description(path):
        return None
    notice(f"{path}: there are no weights, only a description: it is told how much memory they would take")
    device = torch.device(config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return _of_description(config, device, None, documents=1)


def _of_description(config: FinetuneConfig, device: torch.device, limit: int | None, documents: int) -> dict[str, Any]:
    """Of a model as its configuration describes it, in memory as :func:`~retrokit.training.model.build` would put
    it."""
    from retrokit.encoders.loading import described

    params = encoders.registry.parse(config.start).params
    path, bits = params["path"], int(params.get("bits") or 0)
    model = described(str(path))
    if model.config.get_text_config() is not model.config:
        raise UsageError(f"{path}: memory is told of models of texts, and this one has more towers than theirs")
    is_base = config.lora is not None and not config.merge_lora and not bits
    cast(model, choose_precision(config.precision, device) if is_base else torch.float32)
    linear = [part.weight for part in model.modules() if isinstance(part, nn.Linear)] if bits else []
    spared = sum(weight.nbytes - round(weight.numel() * STORED[bits]) for weight in linear)
    with torch.device("meta"):
        restrict(model, str(path), config.freeze, config.low_rank)
    longest = limit or int(getattr(model.config, "max_position_embeddings", LENGTHS[-1]))
    memory = _forecast(model, config, device, longest, documents)
    return {**memory, "weights": memory["weights"] - spared}


def _forecast(
    model: PreTrainedModel, config: FinetuneConfig, device: torch.device, limit: int, documents: int
) -> dict[str, Any]:
    longest = config.max_length or min(limit, LENGTHS[-1])
    memory = memory_of(
        model,
        choose_precision(config.precision, device, multiplies(model)),
        {*BATCHES, *([] if config.batch_size == AUTO else [int(config.batch_size)])},
        {*(tokens for tokens in LENGTHS if tokens < longest), longest},
        documents=documents,
        mini_batch=None if config.mini_batch in (None, AUTO) else int(config.mini_batch),
        at_once=tokens_at_once(device),
    )
    return asdict(memory)


def fitted(
    config: FinetuneConfig, encoder: Encoder, model: SentenceTransformer, data: TrainingSet, dtype: torch.dtype
) -> FinetuneConfig:
    """The configuration with a number in place of ``auto``: the largest power of two whose step fits into memory, the
    same in all processes; says which and why. A resumed run keeps what it has chosen.

    Raises:
        UsageError: an encoder whose memory is not known, or one of which no single example fits.
    """
    name = next((name for name in ("batch_size", "mini_batch") if getattr(config, name) == AUTO), None)
    if name is None:
        return config
    folder = folder_of(config) if config.output is not None else None
    if folder is not None and folder.goes_on:
        return replace(config, **{name: folder.read().identity[name]})
    is_table = isinstance(model[0], StaticEmbedding)
    if model.supports("image") or not (is_table or hasattr(model[0], "auto_model")):
        raise UsageError(f"`batch_size=` auto: the memory of {encoder.spec} cannot be told; give a number")
    queries, texts = texts_of(data, LENGTH_SAMPLE, config.seed)
    lengths = [
        measure_lengths(encoder, queries, "query", config.max_length),
        measure_lengths(encoder, texts, "document", config.max_length),
    ]
    tokens = max(min(entry["percentiles"]["100"], entry["limit"] or 10**9) for entry in lengths)
    documents = max(len(data[index].document_ids) for index in range(0, len(data), 1 + len(data) // 1000))
    world, width, room = place()[1], int(model.get_embedding_dimension() or 1), free_memory(encoder.device)

    def step_bytes(size: int) -> int:
        """Of a step beyond the weights that are there."""
        batch, held = (size, config.mini_batch) if name == "batch_size" else (int(config.batch_size), size)
        joint, every = batch * world, batch * (1 + documents)
        of_loss = batch * joint * documents * PER_SCORE + joint * (1 + documents) * width * PER_NUMBER
        if is_table:
            return of_loss + (1 + ADAM_STATES) * sum(value.nbytes for value in model.parameters())
        shape: dict[str, Any] = {"documents": documents, "at_once": tokens_at_once(encoder.device)}
        mini_batch = None if held is None or int(held) >= every else int(held)
        memory = memory_of(model[0].auto_model, dtype, [batch], [tokens], mini_batch=mini_batch, **shape)
        (row,) = memory.activations
        twice = row.checkpointed if config.gradient_checkpointing else None
        return of_loss + memory.gradients + memory.optimizer + memory.copies + (row.kept if twice is None else twice)

    if name == "mini_batch":
        most, why = _power_of_two(2 * (1 + documents) * int(config.batch_size) - 1), "of a batch"
    else:
        counts = [int(len(source.records) * source.weight) // world for source in data.sources]
        wanted = max(SMALLEST, int(max(1.0, config.epochs or 1.0) * sum(counts)) // (FEWEST * config.accumulate))
        most, why = _power_of_two(max(1, min(wanted, *counts))), f"of which the data give {FEWEST} steps"
    sizes = [2**power for power in range(most.bit_length()) if step_bytes(2**power) <= room]
    if not sizes:
        least = f"not even one text of {tokens} tokens fits into {room / 1e9:.3g} GB"
        less = "`max_length=`, `gradient_checkpointing=`, `lora=` or `freeze=` take less"
        raise UsageError(f"`{name}=` auto: {least}; {less}")
    size = min(all_say(max(sizes)))
    in_room = f"{room / 1e9:.3g} GB for texts of {tokens} tokens"
    if name == "mini_batch" and size >= most:
        notice(f"`mini_batch=` auto: a whole batch fits into {in_room}, without gradient caching")
        return replace(config, mini_batch=None)
    notice(f"`{name}=` auto: {size}, the largest power of two {why if size == most else f'that fits into {in_room}'}")
    chosen: dict[str, Any] = {name: size}
    return replace(config, **chosen)


def _power_of_two(most: int) -> int:
    """The largest that is not above ``most``."""
    return 1 << (most.bit_length() - 1)


def free_memory(device: torch.device) -> int:
    """Bytes that a step of this process may take on a device: the :data:`SHARE` of what is free of a GPU, or of a
    CPU's memory, which the machine and the control group leave, cut among the processes of the machine."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(SHARE * (torch.cuda.mem_get_info(device)[0] + held))
    free = [psutil.virtual_memory().available]
    with suppress(OSError, ValueError):  # no control group, or none with a limit
        group = Path("/sys/fs/cgroup")
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return int(SHARE * min(free) / int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
