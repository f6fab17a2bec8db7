"""The command lines of ``retrokit augment queries``, ``mine`` and ``score``."""

from tests.samples import Samples

REPORTS = {
    "augment mine in/pairs.jsonl --encoder static:8 --margin none --last-rank 7 -o mined.jsonl": """
413 negatives for 59 rows from 59 candidates; mean score #, of positives #
""",
    "augment score in/pairs.jsonl --with maxsim:encoder=static:8 -o scored.jsonl": """
59 rows scored
""",
    "augment queries in/texts.jsonl --llm openai:x,url=http://localhost:9/v1 --dry-run -o q.jsonl": """
16 passages: 80 queries to write, about 18,884 tokens of prompts; grading adds one call for …
openai:x: texts would be sent to localhost:9
""",
}
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
    reports=REPORTS,
)
