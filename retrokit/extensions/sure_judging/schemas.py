"""The JSON that ``build-sure agreement`` prints, and a line of verdicts."""

from retrokit.core.shapes import but
from retrokit.extensions.sure_judging.annotators import Agreement, Joint

OUTPUTS = {
    "build-sure-agreement": but(
        Agreement, cohen=[{"annotators": [str], "kappa": float | None}], joint=[Joint], kinds={"*": Joint}
    ),
}
KINDS = {"build-sure-agreement": ["agreement"]}
FILES = {
    "sure-verdict": (
        "A line of verdicts on a SURE benchmark, of the page of build-sure audit or of a model.",
        {"query": str, "kind": str, "qualified": bool, "annotator": str, "sample": (str, "Digest of what was judged.")},
    ),
}
