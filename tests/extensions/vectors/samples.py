"""The command lines of ``retrokit vectors``."""

from tests.samples import Samples

SAMPLES = Samples(
    runs={"vectors verify": ["vectors", "verify", "exported", "run"]},
    inputs={"vectors verify": "in/beir in/bert"},
    damaged={
        "export, verify": ("ex/export.json", "vectors verify ex static:dim=16"),
        "canaries": ("ex/canaries.json", "vectors verify ex static:dim=16"),
    },
)
