"""``retrokit vectors verify``."""

from dataclasses import asdict

from retrokit.cli.api import JsonOption, show_result, takes
from retrokit.core.errors import GateFailed
from retrokit.extensions.vectors.settings import CanarySettings


@takes(CanarySettings)
def verify(settings: CanarySettings, as_json: JsonOption = False) -> None:
    """Check that another server or model folder gives the vectors of an export.

    retrokit vectors verify exported/documents api:MODEL,url=http://localhost:8080/v1

    retrokit vectors verify exported/documents models/other

    Exits with 1 if the vectors do not agree, and names the cause if one change makes them agree.
    """
    from retrokit.extensions.vectors.canaries import verify
    from retrokit.extensions.vectors.sheets import canary_sheet

    report = verify(settings)
    show_result(as_json, "vectors-verify", asdict(report), canary_sheet(report))
    if not report.agrees:
        raise GateFailed(f"{report.encoder}: its vectors do not agree with those of {report.export}")
