"""``retrokit doctor``."""

from retrokit.cli.common import JsonOption, app, show
from retrokit.core.errors import GateFailed


@app.command()
def doctor(as_json: JsonOption = False) -> None:
    """What this machine offers, and what to do about each thing that is wrong: versions, devices, cache, weights, hub.

    retrokit doctor

    Exits with 1 if something that is there, or must be, does not work; what is optional and missing is no failure.
    """
    from retrokit.data.jsonl import to_json
    from retrokit.report.doctor import examine

    diagnosis = examine()
    show(*([to_json(diagnosis.to_json(), kind="diagnosis")] if as_json else [diagnosis.sheet(), diagnosis.advice()]))
    if diagnosis.broken:
        raise GateFailed(f"broken: {', '.join(finding.name for finding in diagnosis.broken)}")
