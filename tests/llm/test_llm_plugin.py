"""A language model from another package: one module and one entry point, and ``build-sure`` builds with it."""

from __future__ import annotations

from pathlib import Path

import pytest

import retrokit
from retrokit import llm as llms
from tests.sure.pretending import write_beir_folder

MODULE = """
from retrokit.registry import Entry, Param
from tests.sure.pretending import ScriptedLLM

ENTRY = Entry("rules", "answers by rules", f"{__name__}:Rules", (Param("tone"),), positional="tone")


class Rules(ScriptedLLM):
    def __init__(self, tone):
        super().__init__()
        self.spec = self.identity = f"rules:{tone}"
"""


def test_a_model_from_elsewhere_builds_a_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = tmp_path / "site" / "rules-1.0.dist-info"
    information.mkdir(parents=True)
    (tmp_path / "site" / "rules_for_texts.py").write_text(MODULE)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: rules\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[retrokit.llms]\nrules = rules_for_texts:ENTRY\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(llms.registry, "_entries", dict(llms.registry._entries))
    monkeypatch.setattr(llms.registry, "_scanned", False)
    data = write_beir_folder(tmp_path / "data", 3)
    built = retrokit.build_sure(retrokit.SureConfig(str(data), "rules:calm", str(tmp_path / "sure")))
    assert built.record["model"] == "rules:calm"
    assert built.counts["calls"] > 0
    found = retrokit.evaluate(["static:dim=8"], [f"sure:{tmp_path / 'sure'},reference=mean"], device="cpu")
    assert found.results[0].counts["queries"] > 0
