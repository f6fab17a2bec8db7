"""What tables call a system: the ``name=`` of its spec, a service's model, or the end of a folder's path."""

import os
from collections.abc import Iterable
from pathlib import Path

from retrokit.core.errors import UsageError
from retrokit.ranking import retrieval


def labels_of(specs: Iterable[str]) -> dict[str, str]:
    """The label of each spec; those of different specs differ.

    >>> labels_of(["minilm", "minilm:pooling=cls,name=first token", "/runs/a", "/old/a"])
    {'minilm': 'minilm', 'minilm:pooling=cls,name=first token': 'first token', '/runs/a': 'runs/a', '/old/a': 'old/a'}
    """
    labels = {spec: _label(spec) for spec in specs}
    paths = [spec for spec in labels if os.path.isabs(spec) and labels[spec] == spec]
    labels |= _path_ends(paths)
    names = list(labels.values())
    return {spec: label if names.count(label) == 1 else spec for spec, label in labels.items()}


def _label(text: str) -> str:
    """The label of a spec without the others. A spec of a file may have names that are not registered here."""
    registry = retrieval.registry_of(text)
    try:
        spec = registry.parse(text)
    except UsageError:
        return text
    if spec.label:
        return spec.label
    entry = registry.entry(spec.name)
    is_service = any(param.receives_texts for param in entry.params)
    return str(spec.params[entry.positional]) if is_service and entry.positional else text


def _path_ends(paths: list[str]) -> dict[str, str]:
    """The shortest end of each path that no other path has."""
    ends = {}
    for path in paths:
        parts = Path(path).parts
        others = [Path(other).parts for other in paths if other != path]
        size = 1
        while size < len(parts) and any(parts[-size:] == other[-size:] for other in others):
            size += 1
        ends[path] = os.path.join(*parts[-size:])
    return ends
