"""``retrokit doctor``."""

from dataclasses import asdict

import typer

from retrokit.cli.common import DeviceOption, JsonOption, show_result
from retrokit.core.errors import GateFailed, UsageError
from retrokit.core.sheet import facts


def doctor(
    export: str | None = typer.Argument(None, help="Export whose vectors are checked. Default: the installation."),
    against: str | None = typer.Option(None, help="Encoder to embed the export's canaries with."),
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Diagnose the installation, or compare an export with another server or model folder.

    retrokit doctor

    retrokit doctor exported --against api:MODEL,url=http://localhost:8080/v1

    Exits with 1 if a required or installed part does not work, or if the vectors do not agree. A missing optional
    package is no failure.
    """
    if export is not None or against is not None:
        if export is None or against is None:
            raise UsageError("give both, the folder of an export and `against=` ENCODER; or neither")
        from retrokit.ranking.canaries import compare_canaries
        from retrokit.report.canaries import canary_sheet

        report = compare_canaries(export, against, device)
        show_result(as_json, "canaries", asdict(report), canary_sheet(report))
        if not report.agrees:
            raise GateFailed(f"{against}: its vectors do not agree with those of {export}")
        return

    from retrokit.report.doctor import examine

    findings = examine()
    broken = [finding.name for finding in findings if finding.is_broken]
    rows = {f"{finding.name} (broken)" if finding.is_broken else finding.name: finding.status for finding in findings}
    advice = [f"{finding.name}: {finding.advice}" for finding in findings if finding.advice]
    result = {"findings": list(map(asdict, findings)), "broken": len(broken)}
    show_result(as_json, "diagnosis", result, facts(None, rows), *advice)
    if broken:
        raise GateFailed(f"broken: {', '.join(broken)}")
