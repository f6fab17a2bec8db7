"""The command lines of ``retrokit push``."""

from tests.samples import Samples

SAMPLES = Samples(
    runs={"push": ["push", "run", "me/run", "--dry-run", "upload"]},
    inputs={"push": "in/bert me/it --results in/beir"},
    damaged={"run, push": ("trained/retrokit.json", "push trained me/model --dry-run out")},
)
