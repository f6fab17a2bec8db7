"""The JSON that the commands print, and the files in a study's folder."""

from typing import Any, Literal

from retrokit.core.shapes import but
from retrokit.extensions.studies.state import DONE, FAILED, MISSING, State, StudyStates
from retrokit.extensions.studies.steps import Step
from retrokit.extensions.studies.why import ChangedSetting, Why

STATE = but(State, state=Literal[DONE, FAILED, MISSING], seconds=float | None)
STATES = but(StudyStates, states=[STATE])
STEP_STATE = {
    **{"command": [str], "seconds": (float, "Seconds."), "code": (int, "Exit code."), "error?": (str, "Last lines.")},
    "processor": (str, "What it ran on."),
}

OUTPUTS: dict[str, Any] = {
    "study-plan": [but(Step, seconds=(float | None, "Estimated; null: not known."))],
    "study-why-this-figure": but(
        Why, changes=[but(ChangedSetting, explains=(bool, "Whether it gives the published figure."))]
    ),
    "study-status": STATES,
}
KINDS = {"study-plan": ["step"], "study-status": ["steps"], "study-why-this-figure": ["why"]}
FILES: dict[str, Any] = {
    "plan": (
        "plan.json, in a study's folder.",
        {"title": str, "text": str, "started_in": str, "gates": [str], "steps": [Step]},
    ),
    "steps": ("states.json, in a study's folder: how far the study is, for a report.", STATES),
    "begun": (
        "steps/NAME.begun.json, in a study's folder: the files that the step has read.",
        {"files": {"*": (str, "Digest of its bytes.")}},
    ),
    "step": ("steps/NAME.json and steps/NAME.failed.json, in a study's folder.", STEP_STATE),
}
