"""The JSON that ``retrokit probe stress`` prints, and the lines that ``--save-edits`` writes."""

from typing import Literal

from retrokit.extensions.stress.stress import StressProbe

OUTPUTS = {"probe-stress": StressProbe}
FILES = {
    "stress-edit": (
        "A line of what retrokit probe stress --save-edits writes.",
        {
            **{"id": str, "capability": str, "kind": Literal["edit", "control"], "edit": str},
            **{"query": str, "original": str, "edited": str, "edited_query?": (str, "Where the query is edited.")},
        },
    ),
}
