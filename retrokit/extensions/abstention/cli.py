"""``retrokit abstain calibrate`` and ``retrokit abstain report``."""

from retrokit.cli.api import common, show_result
from retrokit.extensions.abstention.settings import AbstentionSettings, ReportSettings


def calibrate(settings: AbstentionSettings, as_json: bool = common("as_json")) -> None:
    """Calibrate when a search abstains, because nothing relevant is in the corpus.

    retrokit abstain calibrate minilm --on beir:data/scifact,split=train -o minilm.json

    retrokit abstain calibrate --index-folder exported --on beir:data/scifact,split=train --error 0.1 -o exported.json
    """
    from retrokit.extensions.abstention.calibrating import calibrate as find
    from retrokit.extensions.abstention.sheets import calibration_sheet

    report = find(settings)
    show_result(as_json, "abstain-calibrate", report.to_json(), calibration_sheet(report))


def report(settings: ReportSettings, as_json: bool = common("as_json")) -> None:
    """Measure the error of a calibrated searcher, and what its answers are worth.

    retrokit abstain report minilm.json --on beir:data/scifact

    retrokit abstain report minilm.json --on beir:data/scifact --error 0.1 --max-error 0.15
    """
    from retrokit.extensions.abstention.reporting import check_error
    from retrokit.extensions.abstention.reporting import report as measure
    from retrokit.extensions.abstention.sheets import report_sheet

    measured = measure(settings)
    show_result(as_json, "abstain-report", measured.to_json(), report_sheet(measured))
    check_error(measured, settings.max_error)
