"""What ``retrokit doctor`` has found, on one screen."""

from __future__ import annotations

from typing import Any

from retrokit.doctor import MISSING, OK, Diagnosis
from retrokit.errors import installation
from retrokit.report.sheets import facts, grouped

SUMMED_UP = ("packages", "extras", "settings")
"""Parts of which all that is well stands in one line."""


def diagnosis_tables(found: Diagnosis) -> list[Any]:
    """A row for each finding, those that are well and of many together, and extras that are missing; then what to do,
    a line each."""
    absent = [one for one in found.findings if one.part == "extras" and one.state == MISSING]
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
        if part == "extras" and absent:
            rows[f"extras ({MISSING})"] = ", ".join(one.name for one in absent)
        rows |= {f"{one.name} ({one.state})": one.found for one in findings if one.state != OK and one not in absent}
    to_do = [f"{one.name}: {one.advice}" for one in found.findings if one.advice and one not in absent]
    if absent:
        to_do.append(f"extras, those that you need: {installation(','.join(one.name for one in absent[:2]))}")
    return [
        facts(None, rows),
        "\n".join(["", "to do:", *(f"  {line}" for line in to_do)] if to_do else ["all is well"]),
    ]
