"""The command lines of ``retrokit distil-static``."""

from tests.samples import Samples

SAMPLES = Samples(
    runs={"distil-static": ["distil-static", "model:bert", "--dims", "4", "-o", "table"]},
    writes_whole_folder={
        "distil-static": "distil-static in/bert --corpus in/beir/corpus.jsonl --dims 4 -o {o}",
    },
    inputs={"distil-static": "in/bert --corpus in/texts.jsonl"},
)
