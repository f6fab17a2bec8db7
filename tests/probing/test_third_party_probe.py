"""The probe on the page of plugins: a field's one declaration is enough for each form of the result."""

import json
import re
from pathlib import Path

import pytest

from retrokit.core.registry import imported
from retrokit.data.jsonl import to_json
from retrokit.probing import ProbeEntry, registry
from tests import plugins

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "plugins.md"


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProbeEntry:
    """The page's probe, installed as a package."""
    section = PAGE.read_text(encoding="utf-8").partition("## A probe\n")[2]
    block = re.search("```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    module = block[1].replace("retrokit_example.norms", "norms_probe")
    plugins.install(
        tmp_path / "site", "norms", {"norms_probe": module}, "[retrokit.probes]\nnorms = norms_probe:NORMS\n"
    )
    plugins.look_in(tmp_path / "site", registry, monkeypatch)
    entry = registry.entry("norms")
    assert isinstance(entry, ProbeEntry)
    return entry


def test_a_field_is_declared_once(probe: ProbeEntry) -> None:
    findings = probe.load()(probe.settings(["static:8", "static:16"], texts=["the cat", "a dog sleeps"]))  # type: ignore[call-arg]
    means = [row.mean for row in findings.norms]
    (sheet,) = findings.sheets()
    assert (sheet.title, sheet.columns, sheet.words) == ("norms", ["encoder", "mean norm"], 1)
    assert sheet.rows == [[("static:8",), (f"{means[0]:.2f}",)], [("static:16",), (f"{means[1]:.2f}",)]]
    assert findings.to_frame().to_dict("list") == {"encoder": ["static:8", "static:16"], "mean": means}
    plain = json.loads(to_json(findings.to_json()))
    assert plain["norms"][0] == {"encoder": "static:8", "mean": means[0]}
    assert plain["conclusion"] == findings.conclusion
    assert imported(probe.findings).from_json(plain) == findings
