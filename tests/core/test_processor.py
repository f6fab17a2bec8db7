"""The processor in words, and the threads that suit it, from what systems tell of theirs."""

import os
import platform
from pathlib import Path

import pytest

from retrokit.core import processor

AMD = """processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC
flags\t\t: fpu avx2 sse4_2 sha_ni\n\nprocessor\t: 1\nmodel\t\t: 9\n"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU part\t: 0xd40\n"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (AMD, "AMD EPYC, family 25, model 1; {cores}; sse4_2, avx2"),
        (ARM, "a chip; {cores}; asimd, sve, bf16"),
        (None, "a chip; {cores}"),
    ],
)
@pytest.mark.parametrize(("cores", "in_words"), [({0}, "1 core"), ({0, 3}, "2 cores")])
def test_model_cores_and_instructions(monkeypatch, tmp_path: Path, told, words, cores, in_words):
    if told is not None:
        (tmp_path / "cpuinfo").write_text(told)
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "processor", lambda: "a chip")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores, raising=False)
    assert processor.processor_in_words() == words.format(cores=in_words)


# --- the quota of a container


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for control groups, of a process that may run on eight cores."""
    monkeypatch.setattr(processor, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(processor, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "0")  # whatever a test sets goes away after it
        monkeypatch.delenv(name)
    return tmp_path / "groups"


def write_files(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


@pytest.mark.parametrize(("quota", "cores"), [("200000", 2), ("150000", 2), ("20000", 1), ("max", 8), ("6400000", 8)])
def test_a_quota_of_version_2(groups: Path, quota: str, cores: int) -> None:
    processor.OWN_GROUPS.write_text("0::/jobs/one\n")
    write_files(groups / "jobs" / "one", cpu__max=f"{quota} 100000")
    assert processor.usable_cores() == cores


def test_a_quota_above_counts_too(groups: Path) -> None:
    processor.OWN_GROUPS.write_text("0::/jobs/one\n")
    write_files(groups / "jobs", cpu__max="300000 100000")
    write_files(groups / "jobs" / "one", cpu__max="400000 100000")
    assert processor.usable_cores() == 3


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct", "cpuacct,cpu"])
@pytest.mark.parametrize(("quota", "cores"), [("50000", 1), ("250000", 3), ("-1", 8)])
def test_a_quota_of_version_1(groups: Path, controllers: str, quota: str, cores: int) -> None:
    """Inside a container the path is the host's, and its group is mounted at the root."""
    processor.OWN_GROUPS.write_text(f"3:cpuset:/\n1:{controllers}:/docker/abc\n0::/\n")
    write_files(groups / controllers, cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000")
    assert processor.usable_cores() == cores


def test_threads_follow_a_quota_alone(groups: Path) -> None:
    processor.limit_threads()
    assert "OMP_NUM_THREADS" not in os.environ, "libraries know the affinity and how many threads a core has"
    processor.OWN_GROUPS.write_text("0::/\n")
    write_files(groups, cpu__max="200000 100000")
    processor.limit_threads()
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_threads_of_the_user_stay(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processor.OWN_GROUPS.write_text("0::/\n")
    write_files(groups, cpu__max="200000 100000")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    processor.limit_threads()
    assert os.environ["OMP_NUM_THREADS"] == "5"


@pytest.mark.parametrize(
    ("own", "spins"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)]
)
def test_waiting_threads_sleep_unless_the_user_has_said_how_they_wait(
    groups: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], spins: str | None
) -> None:
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    processor.limit_threads()
    assert os.environ.get("GOMP_SPINCOUNT") == spins
