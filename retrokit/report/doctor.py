"""What this machine offers, and what is in the way of work on it: the findings behind ``retrokit doctor``."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.core.errors import DataError, RetrokitError, first_line, installation, redacted
from retrokit.core.frames import frame
from retrokit.core.sheet import Sheet, facts, grouped
from retrokit.core.version import __version__

if TYPE_CHECKING:
    from pandas import DataFrame

OK, NOTE, MISSING, BROKEN = "ok", "note", "missing", "broken"
HUB_TIMEOUT = 3.0  # seconds
SUMMED_UP = ("packages", "extras", "settings")  # parts of which all that is well has one row
VARIABLES = (
    *("RETROKIT_CACHE", "RETROKIT_CACHE_LIMIT", "RETROKIT_DATA", "HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "TOKENIZERS_PARALLELISM"),
)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        part: what it belongs to: ``packages``, ``extras``, ``devices``, ``cache``, ``weights``, ``hub``, ``settings``.
        name: what was looked at.
        found: what is there, in words.
        state: ``ok``; ``note``: it works, and could do better; ``missing``: something optional is not there;
            ``broken``: something that is there, or must be, does not work.
        advice: what to do about it; empty where nothing is to be done.
    """

    part: str
    name: str
    found: str
    state: str = OK
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All findings, part by part."""

    findings: list[Finding]

    @property
    def broken(self) -> list[Finding]:
        """What does not work."""
        return [finding for finding in self.findings if finding.state == BROKEN]

    def to_frame(self) -> DataFrame:
        """A row for each finding."""
        return frame(map(vars, self.findings))

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return {"findings": [asdict(finding) for finding in self.findings], "broken": len(self.broken)}

    def sheet(self) -> Sheet:
        """A row for each finding, those that are well and of many together, and extras that are missing."""
        rows: dict[str, str] = {}
        for part, findings in grouped(self.findings, "part").items():
            well = [finding for finding in findings if finding.state == OK]
            if part in SUMMED_UP and well:
                rows |= {of.name: of.found for of in well if of.name == "retrokit"}
                names = (of.name if part == "extras" else f"{of.name} {of.found}" for of in well if of.name not in rows)
                rows[part] = ", ".join(names)
            else:
                rows |= {f"{part}: {of.name}" if part in ("cache", "hub") else of.name: of.found for of in well}
            if part == "extras" and self.absent:
                rows[f"extras ({MISSING})"] = ", ".join(self.absent)
            others = (of for of in findings if of.state != OK and (part != "extras" or of.state != MISSING))
            rows |= {f"{of.name} ({of.state})": of.found for of in others}
        return facts(None, rows)

    @property
    def absent(self) -> list[str]:
        """The extras that are not installed."""
        return [of.name for of in self.findings if of.part == "extras" and of.state == MISSING]

    def advice(self) -> str:
        """What to do, a line each."""
        others = (of for of in self.findings if of.advice and (of.part != "extras" or of.state != MISSING))
        lines = [f"  {of.name}: {of.advice}" for of in others]
        if self.absent:
            lines.append(f"  extras, those that you need: {installation(','.join(self.absent[:2]))}")
        return "\n".join(["", "to do:", *lines] if lines else ["all is well"])


def examine() -> Diagnosis:
    """Look at everything. A part that cannot be looked at is a finding too: nothing is raised."""
    findings = (finding for part, look in _PARTS.items() for finding in _looked(part, look))
    return Diagnosis([Finding(*map(redacted, vars(finding).values())) for finding in findings])


def _looked(part: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except RetrokitError as error:
        problem, _, advice = str(error).partition("; ")
        yield Finding(part, part, problem, BROKEN, advice or "mend what the message names")
    except Exception as error:  # whatever an installation that is damaged may raise: to name it is the purpose
        problem = f"{type(error).__name__}: {first_line(error)}"
        yield Finding(part, part, problem, BROKEN, "the installation is damaged: reinstall what the message names")


def _requirements() -> tuple[str, list[Any]]:
    """The name of our distribution and what it requires; none where the package is not installed."""
    from importlib.metadata import packages_distributions, requires

    from packaging.requirements import Requirement

    names = packages_distributions().get("retrokit", [])
    return (names[0], [Requirement(text) for text in requires(names[0]) or []]) if names else ("", [])


def _applies(requirement: Any, extra: str = "") -> bool:
    """Whether it is required here, with an extra or without one."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _installed(requirement: Any) -> tuple[str, bool]:
    """The installed version, empty if there is none; and whether it is one of those that are required."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        release = version(requirement.name)
    except PackageNotFoundError:
        return "", False
    return release, requirement.specifier.contains(release, prereleases=True)


def _packages() -> Iterator[Finding]:
    distribution, requirements = _requirements()
    yield Finding("packages", "retrokit", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    if not distribution:
        again = "in its folder: python -m pip install -e ."
        yield Finding("packages", "versions", "not known: retrokit runs uninstalled", NOTE, again)
    for requirement in filter(_applies, requirements):
        name, needed = requirement.name, requirement.specifier
        release, fits = _installed(requirement)
        if fits:
            yield Finding("packages", name, release)
        else:
            text = f"{release or 'not installed'}; needed: {needed or 'any version'}"
            yield Finding("packages", name, text, BROKEN, f"python -m pip install '{name}{needed}'")


def _extras() -> Iterator[Finding]:
    every = [requirement for requirement in _requirements()[1] if not _applies(requirement)]
    markers = " ".join(str(requirement.marker) for requirement in every)
    for extra in dict.fromkeys(re.findall(r'extra == "([^"]+)"', markers)):
        versions = {of: _installed(of) for of in every if _applies(of, extra)}
        there = ", ".join(f"{of.name} {release}" for of, (release, _) in versions.items() if release)
        absent = [of.name for of, (release, _) in versions.items() if not release]
        old = [f"{of.name}{of.specifier}" for of, (release, fits) in versions.items() if release and not fits]
        if extra == "test":
            continue
        if not absent and not old:
            yield Finding("extras", extra, there)
            continue
        text = [f"without {', '.join(absent)}" if there else "not installed"] if absent else []
        text += [f"{there}, where {', '.join(old)} is needed"] if old else []
        yield Finding("extras", extra, "; ".join(text), BROKEN if old else MISSING, installation(extra))


def _devices() -> Iterator[Finding]:
    import shutil

    import torch

    from retrokit.data.processor import processor_in_words
    from retrokit.encoders.precision import choose_precision, name_of

    threads = torch.get_num_threads()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("devices", "cpu", processor_in_words())
    # torch takes a thread for each core proper, of which there may be half as many
    problem = "more than there are cores" if threads > cores else "most cores stay idle" if threads < cores // 2 else ""
    state, advice = (NOTE, f"{problem}: OMP_NUM_THREADS={cores}") if problem else (OK, "")
    yield Finding("devices", "threads", f"{threads} of torch for {cores} logical cores", state, advice)
    taken = name_of(choose_precision("auto", torch.device("cpu")))
    yield Finding("devices", "precision auto on cpu", taken)
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        auto = name_of(choose_precision("auto", torch.device("cuda", number)))
        yield Finding("devices", f"cuda:{number}", f"{about.name}, {about.total_memory / 1e9:.0f} GB; fastest: {auto}")
    if not torch.cuda.is_available() and shutil.which("nvidia-smi"):
        text = f"an NVIDIA driver is here, and torch {torch.__version__} sees no GPU"
        yield Finding("devices", "cuda", text, NOTE, "a CUDA build of torch: https://pytorch.org/get-started/locally")
    if torch.backends.mps.is_available():
        yield Finding("devices", "mps", "Apple GPU")


def _cache() -> Iterator[Finding]:
    import shutil

    from retrokit.encoders.store import PLACE, open_cache
    from retrokit.encoders.store.database import LIMIT
    from retrokit.encoders.store.graphs import held_graphs

    cache = open_cache()
    if cache is None:
        yield Finding("cache", "embeddings", "turned off", NOTE, f"every text is encoded anew; unset {PLACE}")
        return
    held, graphs = cache.held(), held_graphs(cache.folder)
    size = sum(entry.size for entry in held) + sum(entry.size for entry in graphs)
    above = next(place for place in (cache.folder, *cache.folder.absolute().parents) if place.exists())
    text = f"{_size(size)} of at most {_size(cache.limit)}, {len(held)} of encoders, in {cache.folder}"
    if not os.access(above, os.W_OK | os.X_OK) or not above.is_dir():
        yield Finding("cache", "embeddings", f"{text}: cannot be written", BROKEN, f"{PLACE}=FOLDER, or =off")
    elif (free := shutil.disk_usage(above).free) < cache.limit - size:
        advice = f"less than the limit: {LIMIT}={max(1, int((size + free) / 2e9))}GB, or retrokit cache --limit"
        yield Finding("cache", "embeddings", f"{text}; {_size(free)} of the disk are free", NOTE, advice)
    else:
        yield Finding("cache", "embeddings", text)


def _weights() -> Iterator[Finding]:
    from huggingface_hub import CacheNotFound, constants, scan_cache_dir

    from retrokit.encoders.folders import MINILM_AGAIN, MINILM_ID, check_minilm, minilm_path

    path = Path(minilm_path())
    sizes: dict[str, int] = {}
    with suppress(CacheNotFound):
        sizes = {repo.repo_id: repo.size_on_disk for repo in scan_cache_dir().repos if repo.repo_type == "model"}
    if path.is_absolute() and not path.is_dir():
        yield Finding("weights", "minilm", f"{path} is not there", BROKEN, MINILM_AGAIN)
    elif path.is_absolute():
        try:
            check_minilm(str(path))
        except DataError as error:
            problem, _, advice = str(error).partition("; ")
            yield Finding("weights", "minilm", problem, BROKEN, advice or MINILM_AGAIN)
        else:
            yield Finding("weights", "minilm", f"from its package: {path}")
    elif MINILM_ID in sizes:
        yield Finding("weights", "minilm", f"from the hub's cache: {MINILM_ID}")
    else:
        text = "neither its package nor the hub's cache has it: it is downloaded when it is first used"
        yield Finding("weights", "minilm", text, MISSING, installation("minilm"))
    total = f"{len(sizes)} of {_size(sum(sizes.values()))}: " if sizes else ""
    names = f"{total}{', '.join(sorted(sizes)) or 'no models'}, in {constants.HF_HUB_CACHE}"
    yield Finding("weights", "hub cache", names)


def _hub() -> Iterator[Finding]:
    from huggingface_hub import constants, get_session

    where = constants.ENDPOINT
    if constants.HF_HUB_OFFLINE:
        yield Finding("hub", where, "offline: HF_HUB_OFFLINE is set")
        return
    try:
        get_session().head(where, timeout=HUB_TIMEOUT)
    except Exception as error:  # the transport's own errors share no base class
        text = f"not reached within {HUB_TIMEOUT:g} s ({type(error).__name__})"
        yield Finding("hub", where, text, NOTE, "HF_HUB_OFFLINE=1 waits for nothing; HF_ENDPOINT names a mirror")
    else:
        yield Finding("hub", where, "reached")


def _settings() -> Iterator[Finding]:
    for name in VARIABLES:
        if name in os.environ:
            yield Finding("settings", name, os.environ[name])


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


_PARTS = {
    "packages": _packages,
    "extras": _extras,
    "devices": _devices,
    "cache": _cache,
    "weights": _weights,
    "hub": _hub,
    "settings": _settings,
}
