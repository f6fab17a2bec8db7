"""Abstention: no answer to a query with nothing relevant in the corpus, with a bound on the error."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry, GroupEntry
from retrokit.core.registry import Entry, Extension, Param

if TYPE_CHECKING:
    from retrokit.extensions.abstention.calibrating import calibrate as calibrate
    from retrokit.extensions.abstention.reporting import report as report

ABSTAIN = Entry(
    "abstain",
    "a calibrated searcher that finds nothing for queries with nothing relevant",
    "retrokit.extensions.abstention.searcher:abstain",
    (
        Param("file", required=True, help="file of retrokit abstain calibrate"),
        Param(
            "error",
            0.05,
            above=0,
            maximum=0.5,
            help="share of queries with nothing relevant that are answered",
        ),
        Param("export", help="folder of retrokit export, whose documents are not embedded again"),
    ),
    positional="file",
)
EXTENSION = Extension(
    "abstention",
    "Give no answer to queries with nothing relevant, with a bound on the error.",
    commands=(
        GroupEntry("abstain", "Give no answer to a query with nothing relevant: calibrate and report the error.", ""),
        CommandEntry(
            "abstain calibrate",
            "Calibrate when a search abstains, because nothing relevant is in the corpus.",
            "retrokit.extensions.abstention.cli:calibrate",
        ),
        CommandEntry(
            "abstain report",
            "Measure the error of a calibrated searcher, and what its answers are worth.",
            "retrokit.extensions.abstention.cli:report",
            prints="json",
        ),
    ),
    entries={
        "retrokit.searchers": {"abstain": "retrokit.extensions.abstention:ABSTAIN"},
        "retrokit.records": {
            "abstain-calibrate": "retrokit.extensions.abstention.records:CALIBRATION",
            "abstain-report": "retrokit.extensions.abstention.records:REPORT",
        },
    },
    python={
        "calibrate": "retrokit.extensions.abstention.calibrating:calibrate",
        "report": "retrokit.extensions.abstention.reporting:report",
    },
)
__getattr__ = EXTENSION.attribute
