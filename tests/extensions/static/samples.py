"""The command lines of ``retrokit distil-static``."""

from tests.samples import Samples

REPORTS = {
    "distil-static model:in/bert --dims 4 -o table": """
table: 200 tokens, 4 dimensions with #% of the variance
""",
}
SAMPLES = Samples(
    runs={"distil-static": ["distil-static", "model:bert", "--dims", "4", "-o", "table"]},
    writes_whole_folder={
        "distil-static": "distil-static in/bert --corpus in/beir/corpus.jsonl --dims 4 -o {o}",
    },
    inputs={"distil-static": "in/bert --corpus in/texts.jsonl"},
    reports=REPORTS,
)
