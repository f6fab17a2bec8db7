"""Names on the Hub of what a model was trained from and measured on."""

import re
from pathlib import Path

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.core.registry import Registry
from retrokit.encoders.folders import MINILM_ID

_ID = r"[\w.-]+/[\w.-]+"


def is_on_hub(name: str) -> bool:
    """Whether ``name`` has the form of an id on the Hub, and is no path on this machine."""
    return re.fullmatch(_ID, name) is not None and not Path(name).exists()


def hub_id(encoder: str) -> str | None:
    """The Hub id of an encoder; ``None`` for one that is not on the Hub."""
    try:
        spec = encoders.registry.parse(encoder)
    except UsageError:
        return None
    path = MINILM_ID if spec.name == "minilm" else spec.path
    return path if is_on_hub(path) else None


def data_set_of(registry: Registry, text: str) -> str | None:
    """The Hub id of a spec's data: ``hf:ORG/NAME``, ``beir:hf:ORG/NAME``; ``None`` for other data."""
    try:
        spec = registry.parse(text)
    except UsageError:  # its plugin is not installed
        return None
    name = str(spec.params.get("name" if spec.name == "hf" else "path", ""))
    if spec.name != "hf" and not name.startswith("hf:"):
        return None
    name = name.removeprefix("hf:")
    return name if is_on_hub(name) else None
