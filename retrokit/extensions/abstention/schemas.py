"""The JSON that the commands print, and the file of a calibration."""

from retrokit.core.shapes import Either, but
from retrokit.extensions.abstention.calibration import Abstention
from retrokit.extensions.abstention.results import AbstentionReport, CalibrationReport, Spread

OUTPUTS = {
    "abstain-calibrate": but(CalibrationReport, wrong=Either([Spread, None])),
    "abstain-report": AbstentionReport,
}
FILES = {"abstention": ("The file of retrokit abstain calibrate -o: when a search abstains.", Abstention)}
