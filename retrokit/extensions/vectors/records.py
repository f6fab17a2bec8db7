"""The records of ``vectors bridge``, ``vectors identify`` and ``vectors verify``, for reports."""

from retrokit.report.records import RecordEntry

BRIDGE = RecordEntry(
    "bridge",
    "What a map between two encoders is worth.",
    "retrokit.extensions.vectors.bridging:Bridged",
    sheets="retrokit.extensions.vectors.sheets:bridge_sheets",
)
IDENTIFICATION = RecordEntry(
    "vectors-identify",
    "Which encoders gave the vectors of a table.",
    "retrokit.extensions.vectors.identification:Identification",
    sheets="retrokit.extensions.vectors.sheets:identify_sheets",
)
VERIFICATION = RecordEntry(
    "vectors-verify",
    "Whether an encoder gives the vectors of an export.",
    "retrokit.extensions.vectors.canaries:CanaryReport",
    sheets="retrokit.extensions.vectors.sheets:canary_sheet",
)
