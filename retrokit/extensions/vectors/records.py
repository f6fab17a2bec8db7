"""The records of ``vectors bridge`` and ``vectors verify``, for reports."""

from retrokit.report.records import RecordEntry

BRIDGE = RecordEntry(
    "bridge",
    "What a map between two encoders is worth.",
    "retrokit.extensions.vectors.bridging:Bridged",
    sheets="retrokit.extensions.vectors.sheets:bridge_sheets",
)
VERIFICATION = RecordEntry(
    "vectors-verify",
    "Whether an encoder gives the vectors of an export.",
    "retrokit.extensions.vectors.canaries:CanaryReport",
    sheets="retrokit.extensions.vectors.sheets:canary_sheet",
)
