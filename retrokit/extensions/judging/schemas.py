"""The JSON that the commands print, and the lines of their files."""

from retrokit.extensions.judging.false_negatives import FalseNegatives
from retrokit.extensions.judging.repair import DataChange, DataRepair
from retrokit.extensions.judging.systems import Unjudged

OUTPUTS = {"judge-estimate": Unjudged, "judge-repair": DataRepair, "judge-negatives": FalseNegatives}
FILES = {
    "change": ("A line of changes.jsonl, in the folder of judge repair.", DataChange),
    "relevance-verdict": (
        "A line of verdicts of the page of judge pool; the filled CSV has the same columns.",
        {
            **{"query-id": str, "document-id": str},
            "probability": (float, "With which the pair was drawn."),
            "of": (int, "Pairs of the sample."),
            **{"relevant": bool, "annotator": str, "sample": str},
        },
    ),
}
