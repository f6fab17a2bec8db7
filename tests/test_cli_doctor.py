"""``retrokit doctor``: versions, devices, the cache, and what is broken or missing."""

import importlib.metadata
import json
import shutil
from pathlib import Path

import pytest
import sentence_transformers  # noqa: F401  what it loads asks for versions, which `machine` makes up
import torch

from retrokit import cli
from retrokit.core.errors import DISTRIBUTION
from retrokit.report import doctor
from retrokit.report.doctor import Finding

REQUIRED = [
    "torch>=2.6",
    "numpy>=99",
    "none-such>=1; python_version >= '3'",
    "not-here; python_version < '3'",
    "faiss-cpu>=1.9; extra == 'faiss'",
    "bm25s>=99; extra == 'bm25'",
    'none-such>=1; extra == "map"',
]
VERSIONS = {"torch": "2.13.0+cpu", "numpy": "2.4", "faiss-cpu": "1.9.0", "bm25s": "0.2"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with these packages and a cache of the test's own."""

    def version(name: str) -> str:
        if name not in VERSIONS:
            raise importlib.metadata.PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(doctor, "packages_distributions", lambda: {"retrokit": [DISTRIBUTION]})
    monkeypatch.setattr(doctor, "requires", {DISTRIBUTION: REQUIRED}.__getitem__)
    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))


def findings() -> dict[str, Finding]:
    return {finding.name: finding for finding in doctor.examine([])}


def test_packages_that_are_too_old_are_broken_and_missing_extras_are_not():
    found = findings()
    assert found["packages"] == Finding("packages", "torch 2.13.0+cpu, faiss-cpu 1.9.0")
    assert {name: finding for name, finding in found.items() if finding.is_broken} == {
        "numpy": Finding("numpy", "2.4; needed: >=99", True, "python -m pip install 'numpy>=99'"),
        "none-such": Finding("none-such", "not installed; needed: >=1", True, "python -m pip install 'none-such>=1'"),
        "bm25s": Finding("bm25s", "0.2; needed: >=99", True, "python -m pip install 'bm25s>=99'"),
    }
    advice = "those that you need: python -m pip install 'retrokit-ir[EXTRA]'"
    assert found["missing extras"] == Finding("missing extras", "map", advice=advice)


def test_the_other_program_of_this_name_is_reported(monkeypatch):
    monkeypatch.setattr(doctor, "packages_distributions", lambda: {"retrokit": ["retrokit", DISTRIBUTION]})
    monkeypatch.setattr(doctor, "requires", lambda name: [])
    other = findings()["package retrokit"]
    assert other.is_broken
    assert other.advice.startswith("python -m pip uninstall retrokit;")
    assert cli.run(["doctor"]) == 1


@pytest.mark.parametrize(
    ("place", "limit", "is_broken", "status"),
    [
        ("cache", "1MB", False, "0 bytes of at most 1.0 MB"),
        ("off", "1MB", False, "turned off by RETROKIT_CACHE"),
        ("file", "1MB", True, "is a file"),
        ("cache", "much", True, "is not a size"),
    ],
)
def test_the_cache(place, limit, is_broken, status, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RETROKIT_CACHE", place if place == "off" else str(tmp_path / place))
    monkeypatch.setenv("RETROKIT_CACHE_LIMIT", limit)
    cache = findings()["embedding cache"]
    assert cache.is_broken == is_broken
    assert status in cache.status


def test_devices_and_a_build_of_torch_that_sees_no_gpu(monkeypatch, in_fp32):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for driver, is_reported in (("/usr/bin/nvidia-smi", True), (None, False)):
        monkeypatch.setattr(shutil, "which", lambda name, driver=driver: driver)
        found = findings()
        assert f"{torch.get_num_threads()} threads, auto precision float32" in found["cpu"].status
        assert ("cuda" in found) == is_reported
    assert not found["cpu"].is_broken


def test_the_command_fails_for_what_is_broken_alone(capsys, monkeypatch):
    assert cli.run(["doctor", "--json"]) == 1
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert result["broken"] == 3
    assert output.err.splitlines()[-1] == "retrokit: broken: numpy, none-such, bm25s"
    assert cli.run(["doctor"]) == 1
    table = capsys.readouterr().out
    for finding in result["findings"]:
        assert finding["name"] in table
        assert finding["advice"] in table
    monkeypatch.setattr(doctor, "requires", lambda name: [])
    assert cli.run(["doctor"]) == 0
