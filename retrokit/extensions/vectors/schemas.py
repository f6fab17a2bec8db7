"""The JSON that the commands print."""

from retrokit.extensions.vectors.canaries import CanaryReport

OUTPUTS = {"vectors-verify": CanaryReport}
