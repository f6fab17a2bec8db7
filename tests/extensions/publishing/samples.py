"""The command lines of ``retrokit push``."""

from tests.samples import Samples

REPORTS = {
    "push runs/qnorm me/run --license mit --dry-run upload": """
upload: README.md, config_sentence_transformers.json, model.safetensors, modules.json, …
""",
}
SAMPLES = Samples(
    runs={"push": ["push", "run", "me/run", "--dry-run", "upload"]},
    inputs={"push": "in/bert me/it --results in/beir"},
    damaged={"run, push": ("trained/retrokit.json", "push trained me/model --dry-run out")},
    reports=REPORTS,
)
