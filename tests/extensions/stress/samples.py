"""The command lines of ``retrokit probe stress``."""

from tests.samples import Samples

SAMPLES = Samples(
    inputs={"probe stress": "in/bert --texts in/texts.jsonl --with in/bert"},
    printed={"stress": "probe stress static:dim=16,tokenizer=bert --texts texts.jsonl --json"},
    damaged={"probe stress --json": ("probe-stress.json", "report probe-stress.json -o out")},
)
