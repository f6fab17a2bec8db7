"""``retrokit doctor``."""

from dataclasses import asdict

from retrokit.cli.common import show_result
from retrokit.core.errors import GateFailed
from retrokit.core.settings import common
from retrokit.core.sheet import facts
from retrokit.kinds import kinds_of_names, named


def doctor(as_json: bool = common("as_json")) -> None:
    """Diagnose the installation.

    retrokit doctor

    Exits with 1 if a required or installed part does not work. A missing optional package is no failure.
    """
    from retrokit.report.doctor import examine

    findings = examine(map(named, kinds_of_names.names()))
    broken = [finding.name for finding in findings if finding.is_broken]
    rows = {f"{finding.name} (broken)" if finding.is_broken else finding.name: finding.status for finding in findings}
    advice = [f"{finding.name}: {finding.advice}" for finding in findings if finding.advice]
    result = {"findings": list(map(asdict, findings)), "broken": len(broken)}
    show_result(as_json, "diagnosis", result, facts(None, rows), *advice)
    if broken:
        raise GateFailed(f"broken: {', '.join(broken)}")
