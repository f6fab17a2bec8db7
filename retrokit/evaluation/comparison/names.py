"""What people read as the names of systems; files of results keep their specs.

A service is called by its model, and a folder by the shortest end of its path that distinguishes it from the other
systems of a record, and from the names that are systems or similarities.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from retrokit import encoders, similarities
from retrokit.core.errors import UsageError
from retrokit.core.registry import Label, head_of
from retrokit.ranking import reranking, retrieval

R = TypeVar("R")
Rename = Callable[[str], str]
_FIELDS = ("encoder", "reranker", "scorer", "system")
"""The fields of records that contain specs of systems."""
_REGISTRIES = (retrieval.registry, encoders.registry, reranking.registry)


def for_people(record: R) -> R:
    """The record with the short names of its systems, for tables, pictures and sentences."""
    return _with_names(record, ends_of)


def for_machines(record: R) -> R:
    """The record with names for JUnit's XML, which do not depend on the folder of a checkout: of a folder its path from
    here. Two services of one model have their addresses."""
    return _with_names(record, lambda path: [path.removeprefix(os.path.join(os.getcwd(), ""))])


def _with_names(record: R, names_of: Callable[[str], list[str]]) -> R:
    from retrokit.evaluation.comparison.comparison import Evaluation

    names = short_names({*_systems(record)}, names_of)
    if not names:
        return record
    renamed = _renamed(record, _renaming(names))
    if isinstance(record, Evaluation) and isinstance(renamed, Evaluation):  # names of systems join those of seeds
        pairs = zip(record.systems, renamed.systems, strict=True)
        names_of_systems = {system.name: renamed_system.name for system, renamed_system in pairs}
        if len({*names_of_systems.values()}) < len(names_of_systems):  # two groups of seeds with the same ends
            return record
        renamed = _renamed(record, _renaming(names | names_of_systems))
    return renamed


def ends_of(path: str) -> list[str]:
    """The ends of a path, the shortest first.

    >>> ends_of("/home/me/runs/qnorm")
    ['qnorm', 'runs/qnorm', 'me/runs/qnorm', 'home/me/runs/qnorm', '/home/me/runs/qnorm']
    """
    names = path.rstrip("/").split("/")
    ends = ["/".join(names[start:]) for start in reversed(range(1, len(names)))]
    return [*filter(None, ends), path]


def short_names(specs: Collection[str], names_of: Callable[[str], list[str]] = ends_of) -> dict[str, str]:
    """What is read in place of each folder and each service in the ``specs``, if it is not the same.

    >>> short_names(["minilm", "/home/me/runs/a", "/home/me/runs/minilm"])
    {'/home/me/runs/a': 'a', '/home/me/runs/minilm': 'runs/minilm'}
    """
    candidates: dict[str, list[str]] = {}
    specs = [spec for spec in specs if not any(spec.startswith(f"{other} ") for other in specs)]  # with a similarity
    for spec in specs:
        candidates |= _candidates(spec, names_of)
    counts = Counter(name for names in candidates.values() for name in names)
    taken = {*specs} - {*candidates}
    for registry in (*_REGISTRIES, similarities.registry):
        taken.update(entry.name for entry in registry.entries() if not any(param.required for param in entry.params))
    short = {}
    for text, names in candidates.items():
        name = next((name for name in names if counts[name] == 1 and name not in taken), text)
        if name != text:
            short[text] = name
    return short


def _candidates(spec: str, names_of: Callable[[str], list[str]]) -> dict[str, list[str]]:
    """The names that each folder and each service of a spec may have, the shortest first."""
    if isinstance(spec, Label):
        return {}
    head = head_of(spec)
    registry = next((registry for registry in _REGISTRIES if head in registry.names()), encoders.registry)
    try:
        parsed = registry.parse(spec)
    except UsageError:  # a name that is no spec
        return {}
    if parsed.label:
        return {spec: [parsed.label]}
    entry = registry.entry(parsed.name)
    if any(param.receives_texts for param in entry.params):
        model = str(parsed.params[entry.positional or ""])
        if "url" in parsed.params:
            return {spec: [model, f"{model} at {parsed.params['url']}", spec]}
        return {spec: [model, spec]}
    if parsed.params == {"path": spec}:
        return {spec: names_of(spec)} if _is_folder(spec) else {}
    candidates: dict[str, list[str]] = {}
    for value in parsed.params.values():
        if isinstance(value, str):
            candidates |= _candidates(value, names_of)
    return candidates


def _is_folder(path: str) -> bool:
    """Whether a text is the path of a folder, and no hub id."""
    if "/" not in path or ":" in path:
        return False
    return path.count("/") > 1 or path[0] in "/.~" or os.path.isdir(path)


def _systems(value: Any) -> Iterator[str]:
    """The specs of systems in a record."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _systems(item)
        return
    for name, item in _items(value):
        if isinstance(item, str):
            if name in _FIELDS:
                yield item
        else:
            yield from _systems(item)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass without its bulk, which it does not print; the items of a mapping."""
    if is_dataclass(value):
        for field in fields(value):
            if field.repr:
                yield field.name, getattr(value, field.name)
    elif isinstance(value, Mapping):
        yield from value.items()


def _renaming(names: Mapping[str, str]) -> Rename:
    """A function that puts the short names into a text, but not into longer paths and quoted commands."""
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"`[^`]*`|(?<![\w/.~-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w/-]|\.\w)")
    return lambda text: pattern.sub(lambda match: names.get(match[0], match[0]), text)


def _renamed(value: Any, rename: Rename) -> Any:
    if isinstance(value, Label):
        return value
    if isinstance(value, str):
        return rename(value)
    if type(value) in (list, tuple):
        return type(value)(_renamed(item, rename) for item in value)
    if isinstance(value, dict):
        return {_renamed(name, rename): _renamed(item, rename) for name, item in value.items()}
    if not is_dataclass(value):
        return value
    renamed = copy(value)
    for name, item in _items(value):
        object.__setattr__(renamed, name, _renamed(item, rename))
    return renamed
