"""``retrokit abstain calibrate`` and ``retrokit abstain report``."""

from retrokit.cli.api import common, show_record
from retrokit.extensions.abstention.settings import AbstentionSettings, ReportSettings


def calibrate(settings: AbstentionSettings, as_json: bool = common("as_json")) -> None:
    """Calibrate when a search abstains, because nothing relevant is in the corpus.

    retrokit abstain calibrate minilm --on beir:data/scifact,split=train -o minilm.json

    retrokit abstain calibrate --index-folder exported --on beir:data/scifact,split=train --error 0.1 -o exported.json
    """
    from retrokit.extensions.abstention.calibrating import calibrate as find

    show_record(as_json, "abstain-calibrate", find(settings))


def report(settings: ReportSettings, as_json: bool = common("as_json")) -> None:
    """Measure the error of a calibrated searcher, and what its answers are worth.

    retrokit abstain report minilm.json --on beir:data/scifact

    retrokit abstain report minilm.json --on beir:data/scifact --error 0.1 --max-error 0.15
    """
    from retrokit.extensions.abstention.reporting import check_error
    from retrokit.extensions.abstention.reporting import report as measure

    measured = measure(settings)
    show_record(as_json, "abstain-report", measured)
    check_error(measured, settings.max_error)
