"""What is known of how an encoder came about: its training similarity and its seed, from a run's ``retrokit.json``.

Encoders that differ in nothing but a seed are several draws of one system, and are averaged (MAG, Q).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from retrokit import encoders
from retrokit.data.runs import is_run, read_run
from retrokit.errors import UsageError
from retrokit.registry import Spec


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
