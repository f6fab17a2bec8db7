"""What ``retrokit doctor`` has found, on one screen."""

from __future__ import annotations

from typing import Any

from retrokit.core.errors import installation
from retrokit.core.sheet import facts, grouped
from retrokit.report.doctor import MISSING, OK, Diagnosis

SUMMED_UP = ("packages", "extras", "settings")
"""Parts of which all that is well stands in one line."""


def diagnosis_tables(diagnosis: Diagnosis) -> list[Any]:
    """A row for each finding, those that are well and of many together, and extras that are missing; then what to do,
    a line each."""
    absent = [finding for finding in diagnosis.findings if finding.part == "extras" and finding.state == MISSING]
    rows: dict[str, str] = {}
    for part, findings in grouped(diagnosis.findings, "part").items():
        well = [finding for finding in findings if finding.state == OK]
        if part in SUMMED_UP and well:
            own = [finding for finding in well if finding.name == "retrokit"]
            rows |= {finding.name: finding.found for finding in own}
            names = (
                finding.name if part == "extras" else f"{finding.name} {finding.found}"
                for finding in well
                if finding not in own
            )
            rows[part] = ", ".join(names)
        else:
            rows |= {
                f"{part}: {finding.name}" if part in ("cache", "hub") else finding.name: finding.found
                for finding in well
            }
        if part == "extras" and absent:
            rows[f"extras ({MISSING})"] = ", ".join(finding.name for finding in absent)
        rows |= {
            f"{finding.name} ({finding.state})": finding.found
            for finding in findings
            if finding.state != OK and finding not in absent
        }
    to_do = [
        f"{finding.name}: {finding.advice}"
        for finding in diagnosis.findings
        if finding.advice and finding not in absent
    ]
    if absent:
        to_do.append(f"extras, those that you need: {installation(','.join(finding.name for finding in absent[:2]))}")
    return [
        facts(None, rows),
        "\n".join(["", "to do:", *(f"  {line}" for line in to_do)] if to_do else ["all is well"]),
    ]
