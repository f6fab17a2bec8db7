"""The JSON that the commands print."""

from retrokit.core.shapes import Either, Printed, but
from retrokit.extensions.vectors.bridging import Bridged
from retrokit.extensions.vectors.canaries import CanaryReport
from retrokit.extensions.vectors.identification import Identification

OUTPUTS = {
    "vectors-adopt": Printed("export"),
    "vectors-bridge": but(
        Bridged,
        curve=([{"texts": int, "mrr": float}], "Of maps fitted to fewer texts."),
        gained=({"*": float | None}, "Share of what embedding again would gain, by task; null: nothing."),
        evaluation=(Either([Printed("eval"), None]), "Old, bridged and embedded again (--on)."),
    ),
    "vectors-identify": Identification,
    "vectors-train": Printed("finetune"),
    "vectors-verify": CanaryReport,
}
KINDS = {"vectors-adopt": ["export"], "vectors-bridge": ["bridge"], "vectors-train": ["preflight", "training"]}
