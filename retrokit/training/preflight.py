"""What a run will do, before its first step: counts, lengths, what is trained, and how sharp its softmax starts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.images import Image
from retrokit.data.records import PrintedRecord
from retrokit.data.training_rows import texts_of_record
from retrokit.encoders.base import Encoder
from retrokit.encoders.torch_encoder import in_words
from retrokit.encoders.towers import tower_of
from retrokit.similarities.base import Role, Similarity
from retrokit.training.batches import Batches, TrainingSet
from retrokit.training.config import EncoderTrainingConfig, TrainingConfig

LENGTH_SAMPLE, SCALE_SAMPLE = 2000, 64
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Preflight(PrintedRecord):
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
        memory: bytes of a step (:func:`~retrokit.training.memory.step_memory`) for ``texts`` of ``tokens`` tokens;
            ``None`` for an encoder that is no transformer of texts.
    """

    sources: list[dict[str, Any]]
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    scale: dict[str, float]
    steps: dict[str, float]
    configuration: dict[str, Any]
    evaluated: dict[str, str]
    overlaps: list[dict[str, Any]]
    memory: dict[str, int] | None = None

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
        for role, text, source_prompt in sides:
            prompt = encoder.prompts[role] if source_prompt is None else source_prompt
            options = {} if limit is None else {"max_length": limit}
            tokens = in_words(encoder.to_train().model, text, role, prompt, **options)
            notice(f"{encoder.spec}, {role} {index + 1}: {tokens}")


def lengths_of(encoder: Encoder, data: TrainingSet, seed: int, limit: int | None = None) -> dict[str, Any]:
    """:func:`describe_lengths` of a sample's texts in each role, as the encoder's tokenizer counts tokens; ``limit`` is
    that of training."""
    lengths: dict[str, Any] = {}
    sides: tuple[Role, Role] = ("query", "document")
    for role, items in zip(sides, texts_of(data, LENGTH_SAMPLE, seed), strict=True):
        prompt = encoder.prompts[role] or ""
        texts = [prompt + item for item in items if not isinstance(item, Image)]
        if texts:
            counts = _token_counts(tower_of(encoder.to_train().model, role).tokenizer, texts)
            limits = [value for value in (limit, encoder.max_length(role)) if value is not None and value < 10**9]
            lengths[role] = describe_lengths(counts, min(limits, default=None))
    return lengths


def _token_counts(tokenizer: Any, texts: list[str]) -> list[int]:
    if hasattr(tokenizer, "encode_batch"):
        return [len(encoding.ids) for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    return [len(ids) for ids in tokenizer(texts, truncation=False, verbose=False)["input_ids"]]


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
