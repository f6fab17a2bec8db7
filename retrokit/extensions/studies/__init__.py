"""Studies: the commands of one TOML file, every combination of their options, run as a graph by Snakemake.

``steps`` reads the file and makes the steps, each a command line that a user could type. ``engine`` runs them, and
``state`` reads their states.
"""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry, GroupEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.studies.why import why_this_figure as why_this_figure

EXTENSION = Extension(
    "studies",
    "Run experiments defined in TOML, and find out why a figure differs.",
    commands=(
        GroupEntry("study", "Run an experiment grid defined in TOML, and report its results.", ""),
        CommandEntry(
            "study run",
            "Run the missing steps of a study, then write its report. Rerun to resume.",
            "retrokit.extensions.studies.cli:run",
        ),
        CommandEntry(
            "study which-similarity",
            "Recommend a similarity for training: a sweep over similarities and seeds, with significance.",
            "retrokit.extensions.studies.cli:which_similarity",
        ),
        CommandEntry(
            "study is-it-better-than-bm25",
            "Compare an encoder with BM25 and with their fusion.",
            "retrokit.extensions.studies.cli:is_it_better_than_bm25",
        ),
        CommandEntry(
            "study does-it-see-near-misses",
            "Run a stress test (probe stress) as a study: negation, roles, places, numbers, typos.",
            "retrokit.extensions.studies.cli:does_it_see_near_misses",
        ),
        CommandEntry(
            "study why-this-figure",
            "Find the setting that explains a published figure: prompt, pooling, length, titles, similarity.",
            "retrokit.extensions.studies.cli:why_this_figure",
            prints="json",
        ),
        CommandEntry(
            "study plan",
            "Print the steps as command lines, in an order that can be run.",
            "retrokit.extensions.studies.cli:plan",
        ),
        CommandEntry(
            "study status",
            "Show which steps are done, failed or missing.",
            "retrokit.extensions.studies.cli:status",
        ),
        CommandEntry(
            "study report",
            "Write the report of the finished steps.",
            "retrokit.extensions.studies.cli:report",
        ),
    ),
    entries={
        "retrokit.records": {
            "steps": "retrokit.extensions.studies.records:STEPS",
            "why": "retrokit.extensions.studies.records:WHY",
        }
    },
    python={"why_this_figure": "retrokit.extensions.studies.why:why_this_figure"},
)
__getattr__ = EXTENSION.attribute
