"""``retrokit bridge``."""

from dataclasses import fields, replace

from retrokit.cli.common import JsonOption, show, show_result
from retrokit.cli.settings import takes
from retrokit.training.config import BridgeSettings


@takes(BridgeSettings)
def bridge(settings: BridgeSettings, as_json: JsonOption = False) -> None:
    """Search old vectors with a new encoder, by a map learned from texts that both embed.

    retrokit bridge exported/documents runs/new -o runs/bridge --on beir:data/mine

    retrokit bridge exported/documents runs/new --into new -o exported/bridged
    """
    from retrokit.cli.entry import in_options
    from retrokit.report.evaluation import evaluation_sheets
    from retrokit.report.tables import bridge_sheets
    from retrokit.training.bridge import bridge

    result = bridge(settings)
    result = replace(result, verdict=in_options(result.verdict))
    evaluation = result.evaluation
    shown = {field.name: getattr(result, field.name) for field in fields(result)}
    shown["evaluation"] = None if evaluation is None else evaluation.to_json()
    show_result(as_json, "bridge", shown, *bridge_sheets(result))
    if evaluation is not None and not as_json:
        show(*evaluation_sheets(evaluation))
