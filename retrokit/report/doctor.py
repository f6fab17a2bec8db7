"""What this machine offers, and what is in the way of work on it: the findings behind ``retrokit doctor``."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from retrokit.core.errors import DISTRIBUTION, RetrokitError, first_line, installation, redacted
from retrokit.core.frames import frame
from retrokit.core.sheet import Sheet, facts
from retrokit.core.version import __version__

if TYPE_CHECKING:
    from pandas import DataFrame

    from retrokit.ranking.canaries import CanaryReport

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
        name: the thing examined.
        found: its condition, in words.
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
        """A row for each finding; what is well of packages, extras and settings in one row each, as missing extras."""
        rows: dict[str, list[str]] = {}
        for of in self.findings:
            name, text = of.name if of.state == OK else f"{of.name} ({of.state})", of.found
            if of.state == MISSING and of.part == "extras":
                name, text = f"extras ({MISSING})", of.name
            elif of.state == OK and of.part in SUMMED_UP and of.name != "retrokit":
                name, text = of.part, of.name if of.part == "extras" else f"{of.name} {of.found}"
            rows.setdefault(name, []).append(text)
        return facts(None, {name: ", ".join(texts) for name, texts in rows.items()})

    def advice(self) -> str:
        """What to do, a line each."""
        absent = [of.name for of in self.findings if of.part == "extras" and of.state == MISSING]
        lines = [f"  {of.name}: {of.advice}" for of in self.findings if of.advice and of.name not in absent]
        if absent:
            lines.append(f"  extras, those that you need: {installation(','.join(absent[:2]))}")
        return "\n".join(["", "to do:", *lines] if lines else ["all is well"])


def examine() -> Diagnosis:
    """Look at everything. A part that cannot be looked at is a finding too: nothing is raised."""
    findings = (finding for part, look in _PARTS.items() for finding in _looked(part, look))
    return Diagnosis([Finding(*map(redacted, vars(finding).values())) for finding in findings])


def canary_sheet(report: CanaryReport) -> Sheet:
    """A row for the encoder as it is, and for each change that was tried."""
    prompt = "without a prompt" if not report.prompt else f"with the prompt {report.prompt!r}"
    rows = [
        [
            trial.change,
            f"{trial.cosine:.5f}",
            "{:.3f} to {:.3f}".format(*trial.norms),
            f"{trial.order:.3f}",
            f"{trial.agreeing} of {report.texts}",
        ]
        for trial in report.trials
    ]
    title = f"{report.encoder} against {report.export} ({report.texts} texts as {report.role}, {prompt})"
    columns = ("change", "least cosine", "norm / export's", "order (τ)", "texts that agree")
    return Sheet(title, columns, 1, rows, report.verdict)


def _looked(part: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from look()
    except RetrokitError as error:
        problem, _, advice = str(error).partition("; ")
        yield Finding(part, part, problem, BROKEN, advice or "mend what the message names")
    except Exception as error:  # whatever an installation that is damaged may raise: to name it is the purpose
        problem = f"{type(error).__name__}: {first_line(error)}"
        yield Finding(part, part, problem, BROKEN, "the installation is damaged: reinstall what the message names")


def _requirements() -> list[tuple[Any, str, bool]]:
    """Each requirement, the installed version, empty if there is none, and whether it fits."""
    from importlib.metadata import PackageNotFoundError, requires, version

    from packaging.requirements import Requirement

    found = []
    for requirement in map(Requirement, requires(DISTRIBUTION) or []):
        try:
            release = version(requirement.name)
        except PackageNotFoundError:
            release = ""
        found.append((requirement, release, bool(release) and requirement.specifier.contains(release, True)))
    return found


def _applies(requirement: Any, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _packages() -> Iterator[Finding]:
    from importlib.metadata import packages_distributions

    yield Finding("packages", "retrokit", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    for other in packages_distributions().get("retrokit", []):
        if other != DISTRIBUTION:
            problem = "another program, with this command's name, in the same folder"
            advice = (
                f"python -m pip uninstall {other}; python -m pip install --force-reinstall --no-deps {DISTRIBUTION}"
            )
            yield Finding("packages", other, problem, BROKEN, advice)
    for requirement, release, fits in _requirements():
        name, needed = requirement.name, requirement.specifier
        if fits and _applies(requirement):
            yield Finding("packages", name, release)
        elif _applies(requirement):
            text = f"{release or 'not installed'}; needed: {needed or 'any version'}"
            yield Finding("packages", name, text, BROKEN, f"python -m pip install '{name}{needed}'")


def _extras() -> Iterator[Finding]:
    every = [(of, release, fits) for of, release, fits in _requirements() if not _applies(of)]
    markers = " ".join(str(requirement.marker) for requirement, *_ in every)
    for extra in dict.fromkeys(re.findall(r'extra == "([^"]+)"', markers)):
        own = [(of, release, fits) for of, release, fits in every if _applies(of, extra)]
        state = OK if all(fits for *_, fits in own) else MISSING
        if any(release and not fits for _, release, fits in own):
            state = BROKEN
        text = ", ".join(
            f"{of.name} {release or 'not installed'}" + ("" if fits or not release else f"; needed: {of.specifier}")
            for of, release, fits in own
        )
        if extra != "test":
            yield Finding("extras", extra, text, state, "" if state == OK else installation(extra))


def _devices() -> Iterator[Finding]:
    import shutil

    import torch

    from retrokit.data.processor import processor_in_words
    from retrokit.encoders.precision import choose_precision, name_of

    yield Finding("devices", "cpu", f"{processor_in_words()}; {torch.get_num_threads()} threads of torch")
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
    from retrokit.encoders.kept import kept_in
    from retrokit.encoders.store import PLACE, open_cache

    cache = open_cache()
    if cache is None:
        yield Finding("cache", "embeddings", "turned off", NOTE, f"every text is encoded again; unset {PLACE}")
        return
    size = sum(entry.size for entry in cache.held()) + sum(folder.size for folder in kept_in(cache.folder))
    text = f"{decimal(size)} of at most {decimal(cache.limit)}, in {cache.folder}"
    above = next(place for place in (cache.folder, *cache.folder.absolute().parents) if place.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        yield Finding("cache", "embeddings", text)
    else:
        yield Finding("cache", "embeddings", f"{text}: cannot be written", BROKEN, f"{PLACE}=FOLDER, or =off")


def _weights() -> Iterator[Finding]:
    from huggingface_hub import try_to_load_from_cache

    from retrokit.encoders.folders import MINILM_AGAIN, MINILM_ID, check_minilm, minilm_path

    path = minilm_path()
    if os.path.isdir(path):
        check_minilm(path)
        yield Finding("weights", "minilm", f"from its package: {path}")
    elif os.path.isabs(path):
        yield Finding("weights", "minilm", f"{path} does not exist", BROKEN, MINILM_AGAIN)
    elif isinstance(try_to_load_from_cache(MINILM_ID, "config.json"), str):
        yield Finding("weights", "minilm", f"from the hub's cache: {MINILM_ID}")
    else:
        text = "neither its package nor the hub's cache has it: downloaded at its first use"
        yield Finding("weights", "minilm", text, MISSING, installation("minilm"))


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


_PARTS = {
    "packages": _packages,
    "extras": _extras,
    "devices": _devices,
    "cache": _cache,
    "weights": _weights,
    "hub": _hub,
    "settings": _settings,
}
