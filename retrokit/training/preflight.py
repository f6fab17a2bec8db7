"""What a run will do, before its first step: counts, lengths, what is trained, how sharp its softmax starts, and the
memory that a step takes, by a closed formula.

Activations are estimated from the widths of the linear layers. For BERT, RoBERTa, DistilBERT, ModernBERT, T5, Llama,
Qwen3 and Gemma 3 the estimate is within 30% of what autograd keeps. Temporary memory is not included.
"""

import math
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import nn
from transformers import PreTrainedModel

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.images import Image
from retrokit.data.training_rows import texts_of_record
from retrokit.encoders.base import Encoder
from retrokit.encoders.engine import tokens_at_once
from retrokit.encoders.torch_encoder import in_words
from retrokit.encoders.towers import tower_of
from retrokit.similarities.base import Role, Similarity
from retrokit.training.batches import Batches, TrainingSet, pools_of
from retrokit.training.config import AUTO, EncoderTrainingConfig, FinetuneConfig, TrainingConfig
from retrokit.training.history import Plain
from retrokit.training.processes import all_say, place
from retrokit.training.run import folder_of

LENGTH_SAMPLE, SCALE_SAMPLE = 2000, 64
PERCENTILES = (50, 90, 99, 100)

ADAM_STATES = 2  # mean and square of each gradient
PER_FEATURE, PER_FEATURE_MIXED = 5.2, 3.5
"""Bytes per token and feature of a linear layer's input and output, in float32 and under autocast."""
PER_ATTENTION = 12
"""Bytes per pair of tokens and head: attention with dropout keeps its probabilities and its mask."""
DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "dropout_rate")
BATCHES, LENGTHS = (1, 8, 64), (128, 512, 2048)
SHARE = 0.6
"""Of free memory, for ``auto``; temporary tensors and the next batches take some too."""
FEWEST, SMALLEST = 30, 8
"""For ``auto``: steps that an epoch keeps, and the batch size that may leave fewer."""
PER_SCORE, PER_NUMBER = 96, 32
"""Bytes of the loss for a pair of texts (scores, exponents, gradients, codes), and for a number of an embedding (raw,
prepared, gathered, gradients)."""


@dataclass(frozen=True)
class Preflight(Plain):
    """The results.

    Attributes:
        sources: per source: name, records, anchors, documents, duplicates, weight.
        lengths: per role that has texts: tokens at the 50th, 90th, 99th and 100th percentile, the limit, and the share
            of texts that it truncates.
        parameters: total, trainable, and the similarity's.
        scale: the multiplier used; ``typical_score``; ``effective_scale``, their product, which is cosine's scale.
        steps: optimizer steps, and steps an epoch.
        configuration: every option, resolved.
        evaluated: specs of the tasks by their names in the run; ``configuration["best_metric"]`` selects weights.
        overlaps: per test and for the held-out examples: overlap with the training data
            (:class:`~retrokit.data.overlap.Overlap`).
        memory: bytes of a step (:class:`Memory`), if requested.
    """

    sources: list[dict[str, Any]]
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    scale: dict[str, float]
    steps: dict[str, float]
    configuration: dict[str, Any]
    evaluated: dict[str, str]
    overlaps: list[dict[str, Any]]
    memory: dict[str, Any] | None = None

    def notes(self) -> dict[str, Any]:
        """What the description of a run keeps of it."""
        return {
            "configuration": self.configuration,
            "scale": self.scale,
            "data": self.sources,
            "evaluated": self.evaluated,
            "overlaps": {overlap["test"]: overlap["counts"] for overlap in self.overlaps},
        }


def of_any_run(
    config: TrainingConfig, batches: Batches, device: torch.device, lengths: dict[str, Any], **resolved: Any
) -> dict[str, Any]:
    """``sources``, ``lengths``, ``steps`` and ``configuration`` of any run; ``resolved`` replace options."""
    per_epoch = math.ceil(len(batches) / config.accumulate)
    steps: dict[str, float] = {"per_epoch": per_epoch}
    if config.time_budget is not None:
        steps["time_budget"] = config.time_budget
    else:
        steps["total"] = total = config.steps or math.ceil((config.epochs or 1) * per_epoch)
        if config.warmup > max(1, total):
            notice(f"`warmup=` {config.warmup:g}: of {total:,} steps in all, so the learning rate stays below its peak")
    resolved |= {"device": device.type, "processes": batches.world}
    return {
        "sources": [
            {"name": source.name, **source.counts, "weight": source.weight, "digest": source.digest}
            for source in batches.data.sources
        ],
        "lengths": lengths,
        "steps": steps,
        "configuration": {**config.to_json(), **resolved},
    }


def texts_of(data: TrainingSet, count: int, seed: int) -> tuple[list[str], list[str]]:
    """A sample of up to ``count`` examples' (query, document) texts over all sources."""
    queries, documents = [], []
    for index in np.random.default_rng(seed).permutation(len(data))[:count].tolist():
        query, (document, *_) = texts_of_record(data[index].record)
        queries.append(query)
        documents.append(document)
    return queries, documents


def show_inputs(encoder: Encoder, data: TrainingSet, count: int, limit: int | None) -> None:
    """Report the query and the first document of the first ``count`` examples as training reads them."""
    for index in range(min(count, len(data))):
        example = data[index]
        source = data.sources[example.source]
        query, (document, *_) = texts_of_record(example.record)
        sides: list[tuple[Role, str, str | None]] = [
            ("query", query, source.query_prompt),
            ("document", document, source.document_prompt),
        ]
        for role, text, given in sides:
            prompt = encoder.prompts[role] if given is None else given
            most = {} if limit is None else {"max_length": limit}
            read = in_words(encoder.to_train().model, text, role, prompt, **most)
            notice(f"{encoder.spec}, {role} {index + 1}: {read}")


def lengths_of(encoder: Encoder, data: TrainingSet, seed: int, limit: int | None = None) -> dict[str, Any]:
    """:func:`describe_lengths` of a sample's texts in each role, as the encoder's tokenizer counts tokens; ``limit`` is
    that of training."""
    lengths: dict[str, Any] = {}
    sides: tuple[Role, Role] = ("query", "document")
    for role, items in zip(sides, texts_of(data, LENGTH_SAMPLE, seed), strict=True):
        tokenizer, prompt = tower_of(encoder.to_train().model, role).tokenizer, encoder.prompts[role] or ""
        texts = [prompt + item for item in items if not isinstance(item, Image)]
        if not texts:
            continue
        if hasattr(tokenizer, "encode_batch"):
            counts = [len(encoding.ids) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        else:
            counts = [len(ids) for ids in tokenizer(texts, truncation=False, verbose=False)["input_ids"]]
        limits = [value for value in (limit, encoder.max_length(role)) if value is not None and value < 10**9]
        lengths[role] = describe_lengths(counts, min(limits, default=None))
    return lengths


def check_max_length(config: EncoderTrainingConfig, encoder: Encoder, *roles: Role) -> None:
    """Raise :class:`UsageError` for a ``max_length`` above all that the encoder reads of texts in these roles."""
    limits = [encoder.max_length(role) or math.inf for role in roles]
    if config.max_length is not None and config.max_length > max(limits):
        problem = f"`max_length=` {config.max_length}: {encoder.spec} reads {max(limits)} tokens of a text"
        raise UsageError(f"{problem}; give at most that, or an encoder that reads more")


def describe_lengths(lengths: Sequence[int], limit: int | None) -> dict[str, Any]:
    """Percentiles of token counts, and the share of them above ``limit``."""
    return {
        "percentiles": {str(p): int(np.percentile(lengths, p)) for p in PERCENTILES},
        "limit": limit,
        "share_cut": float(np.mean([limit is not None and length > limit for length in lengths])),
    }


@torch.no_grad()
def measure_scale(
    encoder: Encoder,
    similarity: Similarity,
    sample: tuple[list[str], list[str]],
    scale: float,
    auto: bool,
    precision: str = "auto",
) -> dict[str, float]:
    """The multiplier to use, and the scale at which cosine would start as sharp.

    With ``auto`` the multiplier is divided by the typical size of the similarity's scores on the sample.
    """
    typical = 1.0
    if not similarity.unit_length:
        queries = torch.from_numpy(encoder.embed(sample[0], "query", precision)).to(encoder.device)
        documents = torch.from_numpy(encoder.embed(sample[1], "document", precision)).to(encoder.device)
        prepared = similarity.prepare(queries, "query"), similarity.prepare(documents, "document")
        typical = similarity.typical_score(*prepared)
    used = scale / typical if auto else scale
    return {"scale": used, "typical_score": typical, "effective_scale": used * typical}


# --- memory


@dataclass(frozen=True)
class Activations:
    """Bytes that ``batch`` examples, all of whose texts have ``tokens`` tokens, keep for the backward pass;
    ``checkpointed``: the peak with gradient checkpointing, ``None`` if the model does not support it."""

    batch: int
    tokens: int
    kept: int
    checkpointed: int | None


@dataclass(frozen=True)
class Memory:
    """Bytes of a step; ``copies`` are those of the weights in the computation's type, if it is another one."""

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
        mini_batch: texts whose activations are in memory together (gradient caching); ``None``: all of the batch.
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
        can = model.supports_gradient_checkpointing
        return Activations(batch, tokens, round(held * of_text), checkpointed if can else None)

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
    model: SentenceTransformer, config: FinetuneConfig, dtype: torch.dtype, limit: int | None, documents: int
) -> dict[str, Any] | None:
    """:func:`memory_of` a step as plain values, for a few batches and lengths; ``None`` for an encoder that is no
    transformer of texts. ``limit`` is that of a text's tokens, ``documents`` are those of an example."""
    transformer = getattr(model[0], "auto_model", None)
    if transformer is None or model.supports("image"):
        return None
    longest = config.max_length or min(limit or LENGTHS[-1], LENGTHS[-1])
    memory = memory_of(
        transformer,
        dtype,
        {*BATCHES, *([] if config.batch_size == AUTO else [int(config.batch_size)])},
        {*(tokens for tokens in LENGTHS if tokens < longest), longest},
        documents=documents,
        mini_batch=None if config.mini_batch in (None, AUTO) else int(config.mini_batch),
        at_once=tokens_at_once(model.device),
    )
    return asdict(memory)


def fitted(
    config: FinetuneConfig, encoder: Encoder, model: SentenceTransformer, data: TrainingSet, dtype: torch.dtype
) -> FinetuneConfig:
    """The configuration with a number in place of ``auto``: the largest power of two whose step fits into memory, the
    same in all processes. A resumed run keeps its number.

    Raises:
        UsageError: the memory of the encoder cannot be estimated, or not even one example fits.
    """
    name = next((name for name in ("batch_size", "mini_batch") if getattr(config, name) == AUTO), None)
    if name is None:
        return config
    folder = folder_of(config) if config.output is not None else None
    if folder is not None and folder.resumes:
        return replace(config, **{name: folder.read().identity[name]})
    is_table = isinstance(model[0], StaticEmbedding)
    if model.supports("image") or not (is_table or hasattr(model[0], "auto_model")):
        raise UsageError(f"`batch_size=` auto: cannot estimate the memory of {encoder.spec}; give a number")
    lengths = lengths_of(encoder, data, config.seed, config.max_length).values()
    tokens = max(min(entry["percentiles"]["100"], entry["limit"] or 10**9) for entry in lengths)
    documents = max(len(data[index].document_ids) for index in range(0, len(data), 1 + len(data) // 1000))
    world, width, room = place()[1], int(model.get_embedding_dimension() or 1), free_memory(encoder.device)

    def step_bytes(size: int) -> int:
        """Bytes of a step besides the weights."""
        batch, held = (size, config.mini_batch) if name == "batch_size" else (int(config.batch_size), size)
        joint, every = batch * world, batch * (1 + documents)
        of_loss = batch * joint * documents * PER_SCORE + joint * (1 + documents) * width * PER_NUMBER
        if is_table:
            return of_loss + (1 + ADAM_STATES) * sum(value.nbytes for value in model.parameters())
        shape: dict[str, Any] = {"documents": documents, "at_once": tokens_at_once(encoder.device)}
        mini_batch = None if held is None or int(held) >= every else int(held)
        memory = memory_of(model[0].auto_model, dtype, [batch], [tokens], mini_batch=mini_batch, **shape)
        (row,) = memory.activations
        recomputed = row.checkpointed if config.gradient_checkpointing else None
        activations = row.kept if recomputed is None else recomputed
        return of_loss + memory.gradients + memory.optimizer + memory.copies + activations

    if name == "mini_batch":
        most = 2 * (1 + documents) * int(config.batch_size) - 1
    else:
        counts = [pool.taken // world for pool in pools_of(data, config.mix)]
        wanted = max(SMALLEST, int(max(1.0, config.epochs or 1.0) * sum(counts)) // (FEWEST * config.accumulate))
        most = max(1, min(wanted, *counts))
    sizes = [2**power for power in range(most.bit_length()) if step_bytes(2**power) <= room]
    in_room = f"{room / 1e9:.3g} GB for texts of {tokens} tokens"
    if not sizes:
        less = "`max_length=`, `gradient_checkpointing=`, `lora=` or `freeze=`"
        raise UsageError(f"`{name}=` auto: not even one example fits into {in_room}; give {less}")
    size = min(all_say(max(sizes)))
    chosen: dict[str, Any] = {name: size}
    if name == "mini_batch" and 2 * size > most:
        chosen = {name: None}
        notice(f"`mini_batch=` auto: a whole batch fits into {in_room}, without gradient caching")
    elif 2 * size > most:
        notice(f"`{name}=` auto: {size}, which leaves {FEWEST} steps")
    else:
        notice(f"`{name}=` auto: {size}, the largest power of two that fits into {in_room}")
    return replace(config, **chosen)


def free_memory(device: torch.device) -> int:
    """Bytes that a step of this process may take: the :data:`SHARE` of what is free on a GPU, or of a CPU's memory that
    the machine and the control group leave, divided among the processes of the machine."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(SHARE * (torch.cuda.mem_get_info(device)[0] + cached))
    free = [psutil.virtual_memory().available]
    with suppress(OSError, ValueError):  # no control group, or none with a limit
        group = Path("/sys/fs/cgroup")
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return int(SHARE * min(free) / int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
