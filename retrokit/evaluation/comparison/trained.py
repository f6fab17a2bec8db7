"""What is known of how an encoder came about: its training similarity and its seed, from a run's ``retrokit.json``.

Encoders that differ in nothing but a seed are several draws of one system, and are averaged (MAG, Q).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.registry import Spec
from retrokit.data.runs import is_run, read_run
from retrokit.ranking import reranking, retrieval


@dataclass(frozen=True)
class Training:
    """How an encoder came about.

    Attributes:
        similarity: what a run was trained with; ``None`` for fresh weights.
        group: a digest of every option but seeds; encoders of one group differ in their seeds alone.
        seed: the seed of the training, or of fresh weights; of both, where a run began with fresh weights.
    """

    similarity: str | None
    group: str
    seed: str


def training_of(spec: str) -> Training | None:
    """How the encoder of that spec came about; ``None`` if nothing is recorded of it.

    Raises:
        UsageError: a run whose training is not finished.
        DataError: a run whose ``retrokit.json`` is damaged.
    """
    parsed = encoders.registry.parse(spec)
    if encoders.registry.entry(parsed.name).param("seed") is not None:
        plain, seed = _without_seed(parsed)
        return Training(None, _digest(plain), str(seed))
    path = parsed.params.get("path")
    if parsed.name != encoders.registry.fallback or path is None:
        return None
    if not is_run(str(path)):
        return None
    run = read_run(str(path)).finished(str(path))
    similarity, identity = run.similarity, run.identity
    if not {"encoder", "seed"} <= set(identity):
        return Training(similarity, _digest(spec), "")
    start, start_seed = _start(identity["encoder"])
    of_start = ("encoder", "encoder_fingerprint") if start_seed is not None else ("encoder",)
    rest = {key: value for key, value in identity.items() if key not in ("seed", *of_start)}
    options = {key: value for key, value in parsed.params.items() if key != "path"}
    seeds = [identity["seed"]] if start_seed is None else [identity["seed"], start_seed]
    return Training(similarity, _digest([start, rest, options]), "+".join(map(str, seeds)))


def training_of_stages(first: str | None, reranker: str | None) -> Training | None:
    """How a first stage with a reranker behind it came about, or a reranker alone: a seed of either is one of theirs.

    Args:
        first: spec of an encoder, or of a searcher, of which nothing is recorded; ``None`` without a first stage.
        reranker: spec of a reranker, or of an encoder that reranks; ``None`` without one.
    """
    of_first = training_of(first) if first is not None and retrieval.registry_of(first) is encoders.registry else None
    of_reranker = _training_of_reranker(reranker) if reranker is not None else None
    if reranker is None:
        return of_first
    trainings = [training for training in (of_first, of_reranker) if training is not None]
    group = [first if of_first is None else of_first.group, reranker if of_reranker is None else of_reranker.group]
    seeds = "+".join(training.seed for training in trainings if training.seed)
    return Training(of_first.similarity if of_first else None, _digest(group), seeds) if trainings else None


def _training_of_reranker(spec: str) -> Training | None:
    """How a reranker's own training came about, or that of the encoder that it scores with."""
    if reranking.registry_of(spec) is encoders.registry:
        return training_of(spec)
    parsed = reranking.registry.parse(spec)
    options = dict(parsed.params)
    parts = {name: training_of(str(options.pop(name))) for name in ("path", "encoder") if name in options}
    trainings = [training for training in parts.values() if training is not None]
    if not trainings:
        return None
    rest = [
        parsed.name,
        options,
        {name: training.group if training else parsed.params[name] for name, training in parts.items()},
    ]
    return Training(None, _digest(rest), "+".join(training.seed for training in trainings if training.seed))


def _start(encoder: str) -> tuple[str, Any]:
    """What a run began with, without its seed, and the seed."""
    try:
        return _without_seed(encoders.registry.parse(encoder))
    except UsageError:  # a plugin's or a folder's name that means nothing here; the run needs it no more
        return encoder, None


def _without_seed(spec: Spec) -> tuple[str, Any]:
    """The spec without its seed, and the seed; ``None`` where such encoders have none."""
    seed = encoders.registry.options(spec).get("seed")
    params = {key: value for key, value in spec.params.items() if key != "seed"}
    return str(Spec(spec.name, params, spec.positional, spec.bare)), seed


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
