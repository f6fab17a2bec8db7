"""What a run will do, before its first step: counts, lengths, what is trained, and how sharp its softmax starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from retrokit.data.pairs import ScoredPair, Source
from retrokit.encoders.base import Encoder
from retrokit.similarities.base import Role, Similarity
from retrokit.training.batches import TrainingSet

LENGTH_SAMPLE = 2000
SCALE_SAMPLE = 64
PERCENTILES = (50, 90, 99, 100)


@dataclass(frozen=True)
class Preflight:
    """The findings.

    Attributes:
        sources: per source: name, records, anchors, documents, duplicates, weight.
        lengths: per role: tokens at the 50th, 90th, 99th and 100th percentile, the limit, and the share cut at it.
        parameters: total, trainable, and the similarity's.
        scale: the multiplier used; ``typical_score``; ``effective_scale``, their product, which is cosine's scale.
        steps: optimizer steps, and steps an epoch.
        configuration: every option, resolved.
    """

    sources: list[dict[str, Any]]
    lengths: dict[str, dict[str, Any]]
    parameters: dict[str, int]
    scale: dict[str, float]
    steps: dict[str, float]
    configuration: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return dict(vars(self))


def texts_of(data: TrainingSet, count: int, seed: int) -> tuple[list[str], list[str]]:
    """A sample of up to ``count`` examples' (query, document) texts over all sources."""
    queries, documents = [], []
    for index in np.random.default_rng(seed).permutation(len(data))[:count].tolist():
        record = data[index].record
        scored = isinstance(record, ScoredPair)
        queries.append(record.sentence1 if scored else record.anchor)  # type: ignore[union-attr]
        documents.append(record.sentence2 if scored else record.positive)  # type: ignore[union-attr]
    return queries, documents


def source_counts(source: Source) -> dict[str, Any]:
    """A source's counts with its name, weight and digest."""
    return {"name": source.name, **source.counts, "weight": source.weight, "digest": source.digest}


def measure_lengths(encoder: Encoder, texts: Sequence[str], role: Role, limit: int | None) -> dict[str, Any]:
    """Token counts of a sample of texts, as the encoder's tokenizer makes them without a limit."""
    tokenizer = encoder.to_train().model.tokenizer
    prompt = encoder.prompts[role] or ""
    prompted = [prompt + text for text in texts]
    if hasattr(tokenizer, "encode_batch"):
        lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch(prompted, add_special_tokens=False)]
    else:
        lengths = [len(ids) for ids in tokenizer(prompted, truncation=False, verbose=False)["input_ids"]]
    own = encoder.max_length(role)
    limit = min(value for value in (limit, own, 10**9) if value is not None)
    return {
        "percentiles": {str(p): int(np.percentile(lengths, p)) for p in PERCENTILES},
        "limit": None if limit == 10**9 else limit,
        "share_cut": float(np.mean([length > limit for length in lengths])),
    }


def measure_scale(
    encoder: Encoder, similarity: Similarity, sample: tuple[list[str], list[str]], scale: float, auto: bool
) -> dict[str, float]:
    """The multiplier to use, and the scale at which cosine would start as sharp.

    With ``auto`` the multiplier is divided by the typical size of the similarity's scores on the sample.
    """
    typical = 1.0 if similarity.unit_length else _typical_score(encoder, similarity, sample)
    used = scale / typical if auto else scale
    return {"scale": used, "typical_score": typical, "effective_scale": used * typical}


@torch.no_grad()
def _typical_score(encoder: Encoder, similarity: Similarity, sample: tuple[list[str], list[str]]) -> float:
    queries = torch.from_numpy(encoder.embed(sample[0], "query")).to(encoder.device)
    documents = torch.from_numpy(encoder.embed(sample[1], "document")).to(encoder.device)
    return similarity.typical_score(similarity.prepare(queries, "query"), similarity.prepare(documents, "document"))
