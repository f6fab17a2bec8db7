"""The command lines of ``retrokit abstain``, and of the searcher ``abstain``."""

from retrokit import cli
from tests.samples import Samples


def make_calibration() -> dict[str, str]:
    """Calibrate a table of tokens."""
    words = ["static:dim=16", "--on", "beir:beir", "--error", "0.5", "--signal", "score", "-o", "cal.json"]
    assert cli.run(["abstain", "calibrate", *words]) == 0
    return {}


SEARCH = "search abstain:cal.json,error=0.5 --corpus beir/corpus.jsonl --queries beir/queries.jsonl -o out"
REPORTS = {
    "abstain calibrate static:16 --on beir:in/task --error 0.5 --signal score -o cal.json": """
dense:static:16, beir:in/task: cal.json
value | 95% interval
threshold of the score | #
expected error | #% | #% – #%
realised error | #% | #% – #%
answered, of queries with relevant documents | #% | #% – #%
first document not relevant | #% | #% – #%
the same if all are answered | #%
error: share of queries with nothing relevant in the corpus that are answered, promised to be …
task (test): 16 queries, 16 documents, 16 judgements
""",
}
SAMPLES = Samples(
    runs={
        "abstain calibrate": ["abstain", "calibrate", "run", "--on", "beir:task", "--error", "0.5", "-o", "cal.json"],
        "abstain": ["search", "abstain:cal.json,error=0.5", "--corpus", "task/corpus.jsonl", "--query", "a cat"],
    },
    writes_file={
        "abstain calibrate": "abstain calibrate static:8 --on beir:in/beir --error 0.5 --signal score -o {o}",
    },
    inputs={"abstain calibrate": "in/bert --on beir:in/beir"},
    damaged={
        "calibration": ("cal.json", SEARCH),
        "calibration, report": ("cal.json", "abstain report cal.json --on beir:beir,split=dev --error 0.5"),
    },
    makers={"cal.json": make_calibration},
    file_kinds={"abstention": "file-abstention"},
    reports=REPORTS,
)
