"""``retrokit doctor``: what is broken, what is missing, what could do better, and what to do about each."""

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import sentence_transformers  # noqa: F401  what it loads asks for versions, which `machine` makes up

from retrokit import cli
from retrokit.core.errors import DISTRIBUTION, MissingExtra
from retrokit.report import doctor

REQUIRED = [
    "torch>=2.6",
    "numpy>=99",
    "none-such>=1; python_version >= '3'",
    "not-here; python_version < '3'",
    "faiss-cpu>=1.9; extra == 'faiss'",
    "bm25s>=99; extra == 'bm25'",
    'none-such>=1; extra == "map"',
    "pytest; extra == 'test'",
]
VERSIONS = {"torch": "2.13.0+cpu", "numpy": "2.4", "faiss-cpu": "1.9.0", "bm25s": "0.2"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with these packages, without a network, and a cache of the test's own."""

    def version(name: str) -> str:
        if name not in VERSIONS:
            raise importlib.metadata.PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: {"retrokit": [DISTRIBUTION]})
    monkeypatch.setattr(importlib.metadata, "requires", {DISTRIBUTION: REQUIRED}.__getitem__)
    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def findings(part: str) -> dict[str, doctor.Finding]:
    """What is found of a part, by name."""
    return {one.name: one for one in doctor.examine().findings if one.part == part}


def test_packages_and_extras_that_are_there_too_old_or_missing():
    packages = {name: (one.found, one.state, one.advice) for name, one in findings("packages").items()}
    assert packages.pop("retrokit")[1:] == (doctor.OK, "")
    assert packages == {
        "torch": ("2.13.0+cpu", doctor.OK, ""),
        "numpy": ("2.4; needed: >=99", doctor.BROKEN, "python -m pip install 'numpy>=99'"),
        "none-such": ("not installed; needed: >=1", doctor.BROKEN, "python -m pip install 'none-such>=1'"),
    }
    extras = findings("extras")
    assert [(one.name, one.found, one.state) for one in extras.values()] == [
        ("faiss", "faiss-cpu 1.9.0", doctor.OK),
        ("bm25", "bm25s 0.2; needed: >=99", doctor.BROKEN),
        ("map", "none-such not installed", doctor.MISSING),
    ]
    for one in extras.values():
        assert (
            one.state == doctor.OK or str(MissingExtra("it", one.name)) == f"it needs an optional package: {one.advice}"
        )


def test_the_other_program_of_this_name_is_reported(monkeypatch):
    both = {"retrokit": ["retrokit", DISTRIBUTION], "numpy": ["numpy"]}
    monkeypatch.setattr(importlib.metadata, "packages_distributions", lambda: both)
    found = [one for one in doctor.examine().findings if one.part == "packages" and one.name == "retrokit"]
    assert [one.state for one in found] == [doctor.OK, doctor.BROKEN]
    assert found[1].advice.startswith("python -m pip uninstall retrokit;")
    assert cli.run(["doctor"]) == 1


@pytest.mark.parametrize(
    ("place", "limit", "state", "told"),
    [
        ("cache", "1MB", doctor.OK, "0 bytes of at most 1.0 MB"),
        ("off", "1MB", doctor.NOTE, "turned off"),
        ("file", "1MB", doctor.BROKEN, "is a file"),
        ("cache", "much", doctor.BROKEN, "is not a size"),
    ],
)
def test_the_cache(place, limit, state, told, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RETROKIT_CACHE", place if place == "off" else str(tmp_path / place))
    monkeypatch.setenv("RETROKIT_CACHE_LIMIT", limit)
    (found,) = findings("cache").values()
    assert found.state == state
    assert told in found.found
    assert bool(found.advice) == (state != doctor.OK)


@pytest.mark.parametrize(
    ("offline", "error", "state", "told"),
    [
        (True, None, doctor.OK, "offline: HF_HUB_OFFLINE is set"),
        (False, None, doctor.OK, "reached"),
        (False, TimeoutError("late"), doctor.NOTE, "not reached within 3 s (TimeoutError)"),
    ],
)
def test_the_hub_is_asked_once_and_its_silence_breaks_nothing(offline, error, state, told, monkeypatch):
    asked = []

    class Session:
        def head(self, where: str, timeout: float) -> None:
            asked.append((where, timeout))
            if error is not None:
                raise error

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(huggingface_hub, "get_session", Session)
    (found,) = findings("hub").values()
    assert (found.state, found.found) == (state, told)
    assert asked == [] if offline else [(huggingface_hub.constants.ENDPOINT, doctor.HUB_TIMEOUT)]


def test_weights_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr("retrokit.encoders.folders.MINILM_PACKAGE", "no_such_package_of_weights")
    assert findings("weights")["minilm"].state == doctor.MISSING
    monkeypatch.setattr("retrokit.encoders.folders.minilm_path", lambda: str(tmp_path / "none"))
    assert findings("weights")["minilm"].state == doctor.BROKEN


def test_devices_name_the_precision_of_auto_and_too_many_threads(monkeypatch, in_fp32):
    import torch

    assert findings("devices")["precision auto on cpu"].found == "float32"
    assert f"{torch.get_num_threads()} threads" in findings("devices")["cpu"].found


def test_the_command_fails_for_what_is_broken_alone(capsys, monkeypatch):
    assert cli.run(["doctor", "--json"]) == 1
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert told["broken"] == 3
    assert shown.err.splitlines()[-1] == "retrokit: broken: numpy, none-such, bm25"
    assert cli.run(["doctor"]) == 1
    table = capsys.readouterr().out
    for one in told["findings"]:
        assert one["name"] in table
        assert one["advice"] in table
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: [])
    assert cli.run(["doctor"]) == 0


def test_the_table_of_a_machine_without_faults():
    diagnosis = doctor.Diagnosis([doctor.Finding("devices", "cpu", "a processor")])
    assert len(diagnosis.sheet().rows) == 1
    assert diagnosis.advice() == "all is well"


def test_what_is_optional_and_missing_takes_two_lines():
    names = ["lora", "map", "faiss"]
    absent = [doctor.Finding("extras", name, "not installed", doctor.MISSING, f"install {name}") for name in names]
    old = doctor.Finding("extras", "bm25", "bm25s 0.2, where bm25s>=99 is needed", doctor.BROKEN, "install bm25")
    diagnosis = doctor.Diagnosis([*absent, old])
    assert [[cell[0] for cell in row] for row in diagnosis.sheet().rows] == [
        ["extras (missing)", "lora, map, faiss"],
        ["bm25 (broken)", "bm25s 0.2, where bm25s>=99 is needed"],
    ]
    assert diagnosis.advice().splitlines()[2:] == [
        "  bm25: install bm25",
        "  extras, those that you need: python -m pip install 'retrokit-ir[lora,map]'",
    ]


def test_no_password_is_shown(capsys, monkeypatch):
    address = "https://me:pass/word@mirror.example/api?token=hunter2&page=1"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)

    def broken() -> Any:
        raise OSError(f"{address}: refused")

    monkeypatch.setitem(doctor._PARTS, "devices", broken)
    shown = "https://…@mirror.example/api?token=…&page=1"
    assert findings("hub")[shown].state == doctor.OK
    assert findings("settings")["HF_ENDPOINT"].found == shown
    (found,) = findings("devices").values()
    assert (found.state, found.found) == (doctor.BROKEN, f"OSError: {shown}: refused")
    for words in (["doctor"], ["doctor", "--json"]):
        cli.run(words)
        out, err = capsys.readouterr()
        assert "mirror.example" in out
        assert not any(secret in out + err for secret in ("pass/word", "hunter2", "//me"))
