"""A language model from another package: one module and one entry point, and ``build-sure`` builds with it."""

from pathlib import Path

import pytest

import retrokit
from retrokit import llm as llms
from tests.plugins import install, look_in
from tests.sure.pretending import write_beir_folder

MODULE = """
from retrokit.core.registry import Entry, Param
from tests.sure.pretending import ScriptedLLM

ENTRY = Entry("rules", "answers by rules", f"{__name__}:Rules", (Param("tone"),), positional="tone")


class Rules(ScriptedLLM):
    def __init__(self, tone):
        super().__init__()
        self.spec = self.identity = f"rules:{tone}"
"""


def test_a_model_from_elsewhere_builds_a_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points = "[retrokit.llms]\nrules = rules_for_texts:ENTRY\n"
    install(tmp_path / "site", "rules", {"rules_for_texts": MODULE}, entry_points)
    look_in(tmp_path / "site", llms.registry, monkeypatch)
    data = write_beir_folder(tmp_path / "data", 3)
    built = retrokit.build_sure(retrokit.SureConfig(str(data), "rules:calm", str(tmp_path / "sure")))
    assert built.record["model"] == "rules:calm"
    assert built.counts["calls"] > 0
    found = retrokit.evaluate(["static:dim=8"], [f"sure:{tmp_path / 'sure'},reference=mean"], device="cpu")
    assert found.results[0].counts["queries"] > 0
