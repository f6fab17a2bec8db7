"""How an encoder was trained, from a model folder's ``retrokit.json``: similarity, seed, and texts shared with tests.

Encoders that differ in nothing but a seed are several draws of one system, and are averaged (MAG, Q).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError
from retrokit.core.registry import Spec
from retrokit.data.jsonl import digest_of_json
from retrokit.data.runs import Run, is_run, read_run
from retrokit.ranking import retrieval


@dataclass(frozen=True)
class Training:
    """How an encoder came about.

    Attributes:
        similarity: of the training; ``None`` for fresh weights.
        group: a digest of every option but seeds; encoders of one group differ only in their seeds.
        seed: of the training, or of fresh weights; of all trainings and fresh weights that one began with.
    """

    similarity: str | None
    group: str
    seed: str


def training_of(spec: str) -> Training | None:
    """How the encoder of that spec came about; ``None`` if nothing is recorded of it.

    Raises:
        UsageError: a model folder whose training is not finished.
        DataError: a damaged ``retrokit.json``.
    """
    parsed = encoders.registry.parse(spec)
    if encoders.registry.entry(parsed.name).param("seed") is not None:
        plain, seed = _without_seed(parsed)
        return Training(None, digest_of_json(plain), str(seed))
    path = parsed.path
    if parsed.name != encoders.registry.fallback or not path or not is_run(path):
        return None
    run = read_run(path).finished(path)
    if not {"encoder", "seed"} <= set(run.identity):
        return Training(run.similarity, digest_of_json(spec), "")
    return _training_of_run(run, {key: value for key, value in parsed.params.items() if key != "path"})


def _training_of_run(run: Run, options: Mapping[str, Any]) -> Training:
    """The training of a run's encoder, which is loaded with ``options``."""
    rest = dict(run.identity)
    start, seed, of_start = rest.pop("encoder"), str(rest.pop("seed")), None
    with suppress(UsageError, DataError):  # the name of a plugin, or a folder that is not here
        start, of_start = str(encoders.registry.parse(start)), training_of(start)
    if of_start is not None:
        start = of_start.group
        if of_start.seed:  # weights that a seed decides are drawn again by each training
            rest.pop("encoder_fingerprint", None)
    group = digest_of_json([start, rest, options])
    return Training(run.similarity, group, _seeds([Training(None, group, seed), of_start]))


def training_of_stages(first: str | None, reranker: str | None) -> Training | None:
    """How a first stage with a reranker behind it came about, or only a reranker: the seeds of both count.

    Args:
        first: spec of an encoder, or of a searcher, of which nothing is recorded; ``None`` without a first stage.
        reranker: spec of a reranker, or of an encoder that reranks; ``None`` without one.
    """
    of_first = None
    if first is not None and retrieval.registry_of(first) is encoders.registry:
        of_first = training_of(first)
    if reranker is None:
        return of_first
    of_reranker = _training_of_reranker(reranker)
    if of_first is None and of_reranker is None:
        return None
    similarity = of_first.similarity if of_first is not None else None
    group = [of_first.group if of_first else first, of_reranker.group if of_reranker else reranker]
    return Training(similarity, digest_of_json(group), _seeds([of_first, of_reranker]))


def _training_of_reranker(spec: str) -> Training | None:
    """The training of a reranker: its own, or that of the encoder that it scores with."""
    from retrokit.ranking import reranking

    if reranking.registry_of(spec) is encoders.registry:
        return training_of(spec)
    parsed = reranking.registry.parse(spec)
    trainings, groups, options = [], {}, {}
    for name, value in parsed.params.items():
        if name in ("path", "encoder"):
            training = training_of(str(value))
            trainings.append(training)
            groups[name] = training.group if training is not None else value
        else:
            options[name] = value
    if not any(trainings):
        return None
    return Training(None, digest_of_json([parsed.name, options, groups]), _seeds(trainings))


def _seeds(trainings: Iterable[Training | None]) -> str:
    return "+".join(training.seed for training in trainings if training and training.seed)


def _without_seed(spec: Spec) -> tuple[str, Any]:
    """The spec without its seed, and the seed; ``None`` if such encoders have none."""
    params = {key: value for key, value in spec.params.items() if key != "seed"}
    seed = encoders.registry.options(spec).get("seed")
    return str(Spec(spec.name, params, spec.positional, spec.bare)), seed
