"""Versions, devices and the cache of this machine, and what of the installation is broken (``retrokit doctor``)."""

import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version

from packaging.requirements import Requirement
from rich.filesize import decimal

from retrokit.core.errors import DISTRIBUTION, RetrokitError, first_line, installation
from retrokit.core.registry import Registry
from retrokit.core.version import __version__


@dataclass(frozen=True)
class Finding:
    """One thing that was examined: its status in words, whether it is broken, and what to do (empty: nothing)."""

    name: str
    status: str
    is_broken: bool = False
    advice: str = ""


def examine(registries: Iterable[Registry]) -> list[Finding]:
    """Examine everything, the plugins of ``registries`` included. Nothing is raised: what cannot be examined is a
    broken finding."""
    findings: list[Finding] = []
    examinations: dict[str, Callable[[], Iterable[Finding]]] = {
        "packages": _packages,
        "plugins": lambda: _plugins(registries),
        "devices": _devices,
        "embedding cache": _cache,
    }
    for name, examination in examinations.items():
        try:
            findings += examination()
        except RetrokitError as error:
            findings.append(Finding(name, str(error), True))
        except Exception as error:  # a damaged installation may raise anything
            problem = f"{type(error).__name__}: {first_line(error)}"
            findings.append(Finding(name, problem, True, "reinstall what the message names"))
    return findings


def _packages() -> Iterator[Finding]:
    yield Finding("retrokit", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    if "retrokit" in packages_distributions().get("retrokit", []):
        advice = f"python -m pip uninstall retrokit; python -m pip install --force-reinstall --no-deps {DISTRIBUTION}"
        yield Finding("package retrokit", "another program with this command's name", True, advice)
    versions: dict[str, str] = {}
    missing: dict[str, None] = {}
    for requirement, extra in _requirements():
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            if extra:
                missing[extra] = None
            else:
                yield _wrong_version(requirement, "not installed")
            continue
        if requirement.specifier.contains(installed, prereleases=True):
            versions[requirement.name] = installed
        else:
            yield _wrong_version(requirement, installed)
    yield Finding("packages", ", ".join(f"{name} {installed}" for name, installed in versions.items()))
    if missing:
        yield Finding("missing extras", ", ".join(missing), advice=f"those that you need: {installation('EXTRA')}")


def _plugins(registries: Iterable[Registry]) -> Iterator[Finding]:
    for registry in registries:
        for problem in registry.broken():
            yield Finding("plugin", problem, True, "reinstall or remove the package that declares it")


def _requirements() -> Iterator[tuple[Requirement, str]]:
    """What is required here, and the extra that requires it, or an empty text."""
    for requirement in map(Requirement, requires(DISTRIBUTION) or []):
        match = re.search(r'extra == "([^"]+)"', str(requirement.marker))
        extra = match[1] if match else ""
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement, extra


def _wrong_version(requirement: Requirement, installed: str) -> Finding:
    required = str(requirement.specifier)
    advice = f"python -m pip install '{requirement.name}{required}'"
    return Finding(requirement.name, f"{installed}; needed: {required or 'any version'}", True, advice)


def _devices() -> Iterator[Finding]:
    import torch

    from retrokit.core.processor import processor_in_words
    from retrokit.encoders.precision import choose_precision, name_of

    devices = {torch.device("cpu"): f"{processor_in_words()}, {torch.get_num_threads()} threads"}
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        devices[torch.device("cuda", number)] = f"{about.name}, {about.total_memory / 1e9:.0f} GB"
    if torch.backends.mps.is_available():
        devices[torch.device("mps")] = "Apple GPU"
    for device, description in devices.items():
        yield Finding(str(device), f"{description}, auto precision {name_of(choose_precision('auto', device))}")
    if len(devices) == 1 and shutil.which("nvidia-smi"):
        status = f"there is an NVIDIA driver, and torch {torch.__version__} sees no GPU"
        yield Finding("cuda", status, advice="install a CUDA build: https://pytorch.org/get-started/locally")


def _cache() -> Iterator[Finding]:
    from retrokit.encoders.kept import kept_in
    from retrokit.encoders.store import PLACE, open_cache

    cache = open_cache()
    if cache is None:
        yield Finding("embedding cache", f"turned off by {PLACE}")
    else:
        size = sum(entry.size for entry in cache.held()) + sum(folder.size for folder in kept_in(cache.folder))
        yield Finding("embedding cache", f"{decimal(size)} of at most {decimal(cache.limit)}, in {cache.folder}")
