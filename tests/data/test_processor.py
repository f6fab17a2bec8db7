"""The processor in words, from what systems tell of theirs."""

import platform
from pathlib import Path

import pytest

from retrokit.data import processor

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
    monkeypatch.setattr(processor.os, "sched_getaffinity", lambda process: cores, raising=False)
    assert processor.processor_in_words() == words.format(cores=in_words)
