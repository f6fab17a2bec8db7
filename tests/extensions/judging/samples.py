"""The command lines of ``retrokit judge``."""

from retrokit import cli
from tests.samples import Samples


def make_repaired() -> dict[str, str]:
    """Repair pairs."""
    assert cli.run(["judge", "repair", "pairs.jsonl", "-o", "repaired"]) == 0
    return {}


REPORTS = {
    "judge pool in/task --systems static:8 --metrics ndcg@10 --sample 20 --pairs judged.csv": """
task (test): 16 queries, 16 documents, 16 judgements
judged.csv: 20 of 148 pairs to judge; then give the verdicts to `retrokit judge estimate`
""",
    "judge estimate beir:in/task --systems static:8 --metrics ndcg@10": """
beir:in/task: what the judgements do not know
metric | system | judged | as judged | bounds
ndcg@10 | static:8 | #% | # | # … #
148 pairs among the first 10 of each query are not judged
bounds: whichever of those are relevant
task (test): 16 queries, 16 documents, 16 judgements
""",
    "judge repair in/triplets.jsonl --with maxsim:encoder=in/bert -o repaired": """
repaired: changes by reason
reason | changes
rerankers | …
in/triplets.jsonl: columns not used: 'family'
repaired: repaired copies, with … changes listed in changes.jsonl
""",
    "judge negatives in/triplets.jsonl --with maxsim:encoder=in/bert": """
Negatives that all rerankers score above the positive
data | negatives | above the positive | share
in/triplets.jsonl | 32 | … | #%
in/triplets.jsonl: columns not used: 'family'
""",
}
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
    reports=REPORTS,
)
