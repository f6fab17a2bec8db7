"""The probes of ``retrokit probe``, each a function that returns its findings; those that packages add too."""

from typing import Any

from retrokit.core.errors import UsageError
from retrokit.probing import registry
from retrokit.probing.fisher import probe_fisher as fisher
from retrokit.probing.fragments import probe_fragments as fragments
from retrokit.probing.magnitude import probe_magnitude as magnitude
from retrokit.probing.magnitude import probe_training as training
from retrokit.probing.near_miss import probe_near_misses as near_misses

__all__ = [
    "fisher",
    "fragments",
    "magnitude",
    "near_misses",
    "training",
]


def __getattr__(name: str) -> Any:
    try:
        return registry.entry(name.replace("_", "-")).load()
    except UsageError as error:
        raise AttributeError(f"retrokit.probe has no attribute {name!r}: {error}") from None
