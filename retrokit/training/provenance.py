"""What a result was made with: versions of the libraries, and the state of the user's repository."""

from __future__ import annotations

import platform
import subprocess
from importlib.metadata import version
from typing import Any

import retrokit


def provenance() -> dict[str, Any]:
    """Versions, and the state of the repository."""
    return {"retrokit": retrokit.__version__, "versions": _versions(), "git": _git_state()}


def _versions() -> dict[str, str]:
    """Versions of Python and of the libraries that decide a result."""
    names = ("torch", "transformers", "sentence-transformers", "accelerate", "datasets", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _git_state() -> dict[str, Any] | None:
    """Commit of the folder where the run was started, and whether it had changes; ``None`` outside of git."""
    try:
        ask = [
            subprocess.run(["git", *words], capture_output=True, text=True, timeout=10, check=True).stdout.strip()
            for words in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": ask[0], "changed": bool(ask[1])}
