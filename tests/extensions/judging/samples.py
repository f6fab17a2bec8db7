"""The command lines of ``retrokit judge``."""

from retrokit import cli
from tests.samples import Samples


def make_repaired() -> dict[str, str]:
    """Repair pairs."""
    assert cli.run(["judge", "repair", "pairs.jsonl", "-o", "repaired"]) == 0
    return {}


SAMPLES = Samples(
    runs={
        "judge estimate": ["judge", "estimate", "beir:task", "--systems", "bm25", "--metrics", "ndcg@10"],
        "judge repair": ["judge", "repair", "task", "pairs.jsonl", "-o", "repaired"],
        "judge negatives": ["judge", "negatives", "pairs.jsonl", "--with", "run"],
    },
    writes_file={
        "judge pool": "judge pool in/beir --systems static:8 --metrics ndcg@10 --sample 20 --pairs {o}",
    },
    writes_folder={"judge repair": "judge repair in/pairs.jsonl -o {o}"},
    inputs={
        "judge pool": "in/beir --systems run:in/run.trec --with in/bert",
        "judge repair": "in/beir in/pairs.jsonl --with in/bert",
    },
    makers={"repaired": make_repaired},
    damaged={
        "repaired data": ("repaired/pairs.jsonl", "augment mix repaired/pairs.jsonl -o out"),
        "TREC run, judge": ("run.trec", "judge estimate beir --systems run:run.trec --metrics ndcg@10"),
        "mined, judge": ("mined.jsonl", "judge negatives mined.jsonl --with static:dim=16"),
        "mined, repair": ("mined.jsonl", "judge repair mined.jsonl -o out"),
    },
    file_schemas={r"changes\.jsonl": "file-change"},
)
