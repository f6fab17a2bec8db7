"""What a run will do, before its first step: counts, lengths, what is trained, and how sharp its softmax starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from retrokit.data.images import Image
from retrokit.data.training_rows import texts_of_record
from retrokit.encoders.base import Encoder
from retrokit.encoders.towers import tower_of
from retrokit.similarities.base import Role, Similarity
from retrokit.training.batches import Batches, TrainingSet
from retrokit.training.config import TrainingConfig

LENGTH_SAMPLE = 2000
SCALE_SAMPLE = 64
PERCENTILES = (50, 90, 99, 100)


class Plain:
    """A record whose fields are plain values."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class Preflight(Plain):
    """The findings.

    Attributes:
        sources: per source: name, records, anchors, documents, duplicates, weight.
        lengths: per role that has texts: tokens at the 50th, 90th, 99th and 100th percentile, the limit, and the share
            cut at it.
        parameters: total, trainable, and the similarity's.
        scale: the multiplier used; ``typical_score``; ``effective_scale``, their product, which is cosine's scale.
        steps: optimizer steps, and steps an epoch.
        configuration: every option, resolved.
        evaluated: specs of the tasks by the names that they have in the run; ``configuration["best_metric"]`` decides.
        overlaps: per test and for what is held out: what of it stands in the training data
            (:class:`~retrokit.data.overlap.Overlap`).
        memory: bytes of a step (:class:`~retrokit.training.memory.Memory`), where it was asked for.
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


def of_any_run(
    config: TrainingConfig, batches: Batches, device: torch.device, lengths: dict[str, Any], **resolved: Any
) -> dict[str, Any]:
    """What is found of any run: ``sources``, ``lengths``, ``steps`` and ``configuration``, where ``resolved`` stand in
    place of what was asked for."""
    resolved |= {"device": device.type, "processes": batches.world}
    return {
        "sources": [
            {"name": source.name, **source.counts, "weight": source.weight, "digest": source.digest}
            for source in batches.data.sources
        ],
        "lengths": lengths,
        "steps": planned(config, len(batches)),
        "configuration": {**config.to_json(), **resolved},
    }


def planned(config: TrainingConfig, batches: int) -> dict[str, float]:
    """Steps of an epoch of ``batches``, and either the steps of the run or the seconds of its budget."""
    per_epoch = math.ceil(batches / config.accumulate)
    if config.time_budget is not None:
        return {"per_epoch": per_epoch, "time_budget": config.time_budget}
    return {"per_epoch": per_epoch, "total": config.steps or math.ceil((config.epochs or 1) * per_epoch)}


def texts_of(data: TrainingSet, count: int, seed: int) -> tuple[list[str], list[str]]:
    """A sample of up to ``count`` examples' (query, document) texts over all sources."""
    queries, documents = [], []
    for index in np.random.default_rng(seed).permutation(len(data))[:count].tolist():
        query, (document, *_) = texts_of_record(data[index].record)
        queries.append(query)
        documents.append(document)
    return queries, documents


def lengths_of(encoder: Encoder, data: TrainingSet, seed: int, limit: int | None = None) -> dict[str, Any]:
    """:func:`measure_lengths` of each role that has texts."""
    queries, documents = texts_of(data, LENGTH_SAMPLE, seed)
    sides: dict[Role, list[str]] = {"query": queries, "document": documents}
    return {
        role: measure_lengths(encoder, texts, role, limit)
        for role, items in sides.items()
        if (texts := [item for item in items if not isinstance(item, Image)])
    }


def measure_lengths(encoder: Encoder, texts: Sequence[str], role: Role, limit: int | None) -> dict[str, Any]:
    """Token counts of texts, as the encoder's tokenizer makes them without a limit; ``limit`` is that of training."""
    tokenizer = tower_of(encoder.to_train().model, role).tokenizer
    prompt = encoder.prompts[role] or ""
    prompted = [prompt + text for text in texts]
    if hasattr(tokenizer, "encode_batch"):
        lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(prompted, add_special_tokens=False)]
    else:
        lengths = [len(ids) for ids in tokenizer(prompted, truncation=False, verbose=False)["input_ids"]]
    own = encoder.max_length(role)
    limits = [value for value in (limit, own) if value is not None and value < 10**9]
    return describe_lengths(lengths, min(limits, default=None))


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
