"""``retrokit doctor``."""

from retrokit.cli.common import JsonOption, show_result
from retrokit.core.errors import GateFailed


def doctor(as_json: JsonOption = False) -> None:
    """Diagnose the installation.

    retrokit doctor

    Exits with 1 if a required or installed part does not work. A missing optional package is no failure.
    """
    from retrokit.report.doctor import examine

    diagnosis = examine()
    show_result(as_json, "diagnosis", diagnosis.to_json(), diagnosis.sheet(), diagnosis.advice())
    if diagnosis.broken:
        raise GateFailed(f"broken: {', '.join(finding.name for finding in diagnosis.broken)}")
