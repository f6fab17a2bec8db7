"""``retrokit calibrate``."""

from dataclasses import asdict

from retrokit.cli.common import JsonOption, show_result
from retrokit.cli.settings import takes
from retrokit.evaluation.settings import AbstentionSettings


@takes(AbstentionSettings)
def calibrate(settings: AbstentionSettings, as_json: JsonOption = False) -> None:
    """Calibrate when a search abstains, because nothing relevant is in the corpus.

    retrokit calibrate minilm --on beir:data/scifact,split=train -o minilm.json

    retrokit calibrate --index-folder exported --on beir:data/scifact,split=train --abstain 0.1
    """
    from retrokit.evaluation.abstention import calibrate as find
    from retrokit.report.tables import abstention_sheet

    report = find(settings)
    show_result(as_json, "calibrate", asdict(report), abstention_sheet(report))
