"""``retrokit doctor``."""

from dataclasses import asdict

import typer

from retrokit.cli.common import DeviceOption, JsonOption, show_result
from retrokit.core.errors import GateFailed, UsageError


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
    from retrokit.report.doctor import canary_sheet, examine

    if export is not None or against is not None:
        if export is None or against is None:
            raise UsageError("give both, the folder of an export and `against=` ENCODER; or neither")
        from retrokit.ranking.canaries import compare_canaries

        report = compare_canaries(export, against, device)
        show_result(as_json, "canaries", asdict(report), canary_sheet(report))
        if not report.agrees:
            raise GateFailed(f"{against}: its vectors do not agree with those of {export}")
        return

    diagnosis = examine()
    show_result(as_json, "diagnosis", diagnosis.to_json(), diagnosis.sheet(), diagnosis.advice())
    if diagnosis.broken:
        raise GateFailed(f"broken: {', '.join(finding.name for finding in diagnosis.broken)}")
