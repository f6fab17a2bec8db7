"""The record that ``build-sure agreement`` prints, for reports."""

from retrokit.report.records import RecordEntry

AGREEMENT = RecordEntry(
    "agreement",
    "How far annotators of a SURE benchmark agree.",
    "retrokit.extensions.sure_judging.annotators:Agreement",
    sheets="retrokit.extensions.sure_judging.sheets:agreement_sheets",
)
