"""``retrokit doctor``."""

from retrokit.cli.common import JsonOption, app, show
from retrokit.core.errors import GateFailed


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """Diagnose the installation and suggest fixes: versions, devices, cache, weights, hub.

    retrokit doctor

    Exits with 1 if a required or installed part does not work. A missing optional package is no failure.
    """
    from retrokit.data.jsonl import to_json
    from retrokit.report.doctor import examine

    diagnosis = examine()
    show(*([to_json(diagnosis.to_json(), kind="diagnosis")] if as_json else [diagnosis.sheet(), diagnosis.advice()]))
    if diagnosis.broken:
        raise GateFailed(f"broken: {', '.join(finding.name for finding in diagnosis.broken)}")
