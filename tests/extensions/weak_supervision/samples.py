"""The command lines of ``retrokit augment queries``, ``mine`` and ``score``."""

from tests.samples import Samples

SAMPLES = Samples(
    writes_file={
        "augment mine": "augment mine in/pairs.jsonl --encoder static:8 --margin none --last-rank 7 -o {o}",
    },
    inputs={
        "augment queries": (
            "in/texts.jsonl --llm openai:x,url=http://127.0.0.1:9/v1 --existing in/pairs.jsonl -o new.jsonl"
        ),
        "augment mine": "in/pairs.jsonl --encoder in/bert --corpus in/beir --judge maxsim:encoder=in/bert",
        "augment score": "beir:in/beir --with in/bert",
    },
    line_schemas={"augment-(mine|queries|score)": "file-pairs"},
)
