"""The records that the commands print, for reports."""

from retrokit.report.records import RecordEntry

ESTIMATE = RecordEntry(
    "judge-estimate",
    "Bounds and estimates of metrics on a test set.",
    "retrokit.extensions.judging.systems:Unjudged",
)
REPAIR = RecordEntry(
    "judge-repair",
    "Changes in repaired copies of data.",
    "retrokit.extensions.judging.repair:DataRepair",
)
NEGATIVES = RecordEntry(
    "judge-negatives",
    "Negatives that are likely answers.",
    "retrokit.extensions.judging.false_negatives:FalseNegatives",
)
