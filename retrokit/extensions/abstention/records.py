"""The records of ``abstain calibrate`` and ``abstain report``, for reports."""

from retrokit.report.records import RecordEntry

CALIBRATION = RecordEntry(
    "abstain-calibrate",
    "What abstain calibrate measured.",
    "retrokit.extensions.abstention.results:CalibrationReport",
    sheets="retrokit.extensions.abstention.sheets:calibration_sheet",
)
REPORT = RecordEntry(
    "abstain-report",
    "What abstain report measured.",
    "retrokit.extensions.abstention.results:AbstentionReport",
    sheets="retrokit.extensions.abstention.sheets:report_sheet",
)
