"""Asking the model hub for a name before anything is loaded from it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, RetrokitError, UsageError, first_line
from retrokit.core.notices import no_progress_bars
from retrokit.data.jsonl import read_json


def ask_hub(
    name: str, no_id: str, failed: Callable[[BaseException], RetrokitError], revision: str | None = None
) -> None:
    """Fail at once where the hub cannot be reached or has no model ``name``: loading would retry for minutes.

    Raises:
        UsageError: ``no_id``, if the name cannot be a hub id.
        RetrokitError: what ``failed`` makes of the hub's error.
    """
    from huggingface_hub import constants, model_info, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
        if constants.HF_HUB_OFFLINE or isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str):
            return
        model_info(name, revision=revision, timeout=10)
    except HFValidationError:
        raise UsageError(no_id) from None
    except Exception as error:  # the hub client's own errors and its transport's share no base class
        raise failed(error) from error


@contextmanager
def loading(path: str, what: str, failed: Callable[[BaseException], RetrokitError]) -> Iterator[None]:
    """Turn what the libraries raise about a damaged folder, or a name that the hub does not have, into one line.

    Raises:
        DataError: ``path`` is a folder that holds no ``what``.
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


def shown(name: str) -> str:
    """A name for a message, cut where it is absurdly long."""
    return repr(name if len(name) <= 100 else f"{name[:100]}…")
