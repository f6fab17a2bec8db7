"""Judging: what the judgements of a test set do not know, from a few verdicts, and data repaired with them."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry, GroupEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.judging.false_negatives import find_false_negatives as find_false_negatives
    from retrokit.extensions.judging.repair import repair_data as repair_data
    from retrokit.extensions.judging.systems import draw_pairs_to_judge as draw_pairs_to_judge
    from retrokit.extensions.judging.systems import estimate_metrics as estimate_metrics

EXTENSION = Extension(
    "judging",
    "Judge what test sets leave open, and repair data.",
    commands=(
        GroupEntry("judge", "Judge what a test set leaves open, estimate metrics, and repair data.", ""),
        CommandEntry(
            "judge pool",
            "Draw unjudged pairs that systems rank first, for people to judge.",
            "retrokit.extensions.judging.cli:pool",
        ),
        CommandEntry(
            "judge estimate",
            "Bound the metrics of systems, or estimate them from verdicts on a few pairs.",
            "retrokit.extensions.judging.cli:estimate",
            prints="json",
        ),
        CommandEntry(
            "judge repair",
            "Write repaired copies of test sets and training data, and a list of every change.",
            "retrokit.extensions.judging.cli:repair",
        ),
        CommandEntry(
            "judge negatives",
            "Count negatives of training data that rerankers score above the positive.",
            "retrokit.extensions.judging.cli:negatives",
            prints="json",
        ),
    ),
    entries={
        "retrokit.records": {
            "judge-estimate": "retrokit.extensions.judging.records:ESTIMATE",
            "judge-repair": "retrokit.extensions.judging.records:REPAIR",
            "judge-negatives": "retrokit.extensions.judging.records:NEGATIVES",
        }
    },
    python={
        "draw_pairs_to_judge": "retrokit.extensions.judging.systems:draw_pairs_to_judge",
        "estimate_metrics": "retrokit.extensions.judging.systems:estimate_metrics",
        "find_false_negatives": "retrokit.extensions.judging.false_negatives:find_false_negatives",
        "repair_data": "retrokit.extensions.judging.repair:repair_data",
    },
)
__getattr__ = EXTENSION.attribute
