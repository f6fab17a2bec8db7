"""``retrokit check``."""

from retrokit.cli.common import show_record
from retrokit.core.errors import GateFailed
from retrokit.core.settings import common
from retrokit.evaluation.settings import CheckSettings


def check(settings: CheckSettings, as_json: bool = common("as_json")) -> None:
    """Check test sets and training data for faults.

    retrokit check beir:data/scifact pairs.jsonl --examples 3

    retrokit check beir:data/scifact pairs.jsonl --fail-on training-overlap
    """
    from retrokit.evaluation.check import check as check_data

    result = check_data(settings)
    show_record(as_json, "check", result)
    if result.failing:
        raise GateFailed(f"present: {', '.join(result.failing)}")
