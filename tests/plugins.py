"""A package of a third party: what its wheel leaves in site-packages, and a registry that is to look there."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from retrokit.core.registry import EXTENSIONS, Registry, declared, extensions


def install(site: Path, name: str, modules: Mapping[str, str], entry_points: str) -> None:
    """Put the ``modules`` (name → source) of the package ``name`` into the folder ``site``, with its entry points."""
    information = site / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source, encoding="utf-8")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def see(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let registries that have not looked for entry points see those of ``site`` too, until the test ends."""
    monkeypatch.syspath_prepend(site)
    monkeypatch.setattr("retrokit.core.registry.declared", declared.__wrapped__)
    monkeypatch.setattr("retrokit.core.registry.extensions", extensions.__wrapped__)


def look_in(site: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``registry`` look for entry points anew, in ``site`` too, until the test ends."""
    see(site, monkeypatch)
    commands = {entry.name for extension in extensions().loaded for entry in extension.commands}
    entries = {
        name: entry
        for name, entry in registry._entries.items()
        if name not in commands and not entry.target.startswith(f"{EXTENSIONS}.")
    }
    monkeypatch.setattr(registry, "_entries", entries)
    monkeypatch.setattr(registry, "_scanned", False)
