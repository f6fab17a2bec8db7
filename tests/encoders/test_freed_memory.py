"""Freed memory stays with a process that encodes on a CPU."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from retrokit.encoders import engine

FAULTS = """
import resource, sys
import torch
from retrokit.encoders.engine import keep_freed
keep_freed()

def layer():
    pieces = [torch.ones(20 * 2**18) for _ in range(3)]  # of 20 MiB

for _ in range(5):
    layer()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    layer()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="only glibc can be told to keep memory")
def test_freed_memory_is_used_again():
    """Without it each of ten rounds gets 15,360 pages anew, unless something small happens to lie behind them."""
    command = [sys.executable, "-c", FAULTS]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert int(done.stdout) < 100


def test_the_c_library_is_told_once(monkeypatch):
    told = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=lambda *option: told.append(option)))
    monkeypatch.setattr(sys, "platform", "linux")
    engine.keep_freed.cache_clear()
    engine.keep_freed()
    engine.keep_freed()
    assert told == [(-1, 536_870_912), (-3, 33_554_432)]


@pytest.mark.parametrize(("platform", "library"), [("linux", SimpleNamespace()), ("darwin", None)])
def test_another_c_library_is_left_alone(monkeypatch, platform, library):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(sys, "platform", platform)
    engine.keep_freed.cache_clear()
    engine.keep_freed()
