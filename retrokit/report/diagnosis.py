"""What ``retrokit doctor`` has found, on one screen."""

from __future__ import annotations

from typing import Any

from retrokit.doctor import OK, Diagnosis
from retrokit.report.sheets import facts, grouped

SUMMED_UP = ("packages", "extras", "settings")
"""Parts of which all that is well stands in one line."""


def diagnosis_tables(found: Diagnosis) -> list[Any]:
    """A row for each finding, those that are well and of many together; then what to do, a line each."""
    rows: dict[str, str] = {}
    for part, findings in grouped(found.findings, "part").items():
        well = [one for one in findings if one.state == OK]
        if part in SUMMED_UP and well:
            own = [one for one in well if one.name == "retrokit"]
            rows |= {one.name: one.found for one in own}
            names = (one.name if part == "extras" else f"{one.name} {one.found}" for one in well if one not in own)
            rows[part] = ", ".join(names)
        else:
            rows |= {f"{part}: {one.name}" if part in ("cache", "hub") else one.name: one.found for one in well}
        rows |= {f"{one.name} ({one.state})": one.found for one in findings if one.state != OK}
    to_do = [f"{one.name}: {one.advice}" for one in found.findings if one.advice]
    return [
        facts(None, rows),
        "\n".join(["", "to do:", *(f"  {line}" for line in to_do)] if to_do else ["all is well"]),
    ]
