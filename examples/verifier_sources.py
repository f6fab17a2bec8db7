"""What a verifier loses with a source of its training: the table of ``verifier_sources.sh``.

    python examples/verifier_sources.py ranking.json examples/near_misses/test.jsonl people.jsonl

The ranking is what ``retrokit rerank --json`` prints of verifiers in folders ``without-SOURCE-SEED``; the files hold
triplets, or what ``peoples_near_misses.py build`` makes. A cell is the mean over the seeds, their standard deviation
(n - 1), and, for all but the first column, the p-value of a t-test of Student against ``none``, uncorrected.
"""

import json
import re
import sys
from collections import defaultdict

import numpy as np
from scipy import stats

from retrokit.data.jsonl import read_jsonl
from retrokit.metrics.separation import false_accept_rate, roc_auc
from retrokit.ranking import reranking
from retrokit.ranking.reranking.base import Reranker

FAMILIES = ("negation", "binding", "spatial")


def pairs_of(path: str) -> list[tuple[str, str, str]]:
    """Anchors, candidates and a family each: ``same`` for what says the same."""
    found = []
    for _, row in read_jsonl(path):
        anchor = row.get("anchor") or row["text"]
        if "positive" in row:
            found.append((anchor, row["positive"], "same"))
        if "near_miss" in row:
            found.append((anchor, row["near_miss"], row["family"].split(": ")[-1]))
    return found


def measured(verifier: Reranker, files: list[str]) -> dict[str, float]:
    """Areas under the ROC curve, by family too, and the share let in where 95% of the paraphrases pass."""
    values = {}
    for path in files:
        pairs = pairs_of(path)
        scores = verifier.score_pairs([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        kinds = np.array([pair[2] for pair in pairs])
        same, others = scores[kinds == "same"], scores[kinds != "same"]
        values[f"{path}: all"] = roc_auc(same, others)
        values |= {f"{path}: {family}": roc_auc(same, scores[kinds == family]) for family in FAMILIES}
        values[f"{path}: let in"] = false_accept_rate(same, others)
    return values


def main() -> None:
    """Print the table, a row for each measure and a column for each source that is left out."""
    ranking, *files = sys.argv[1:]
    table: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with open(ranking, encoding="utf-8") as stream:
        results = json.load(stream)["results"]
    for result in results:
        if run := re.search(r"(\w+:)(\S*without-(\w+)-\d+),", result["similarity"]):
            table["ndcg@10"][run[3]].append(result["metrics"]["ndcg@10"])
            for name, value in measured(reranking.registry.create(run[1] + run[2], device="cpu"), files).items():
                table[name][run[3]].append(value)
    left_out = list(table["ndcg@10"])
    print("| measure |", " | ".join(left_out), "|\n|---|" + "---|" * len(left_out))
    for name, by_source in table.items():
        cells = []
        for source, values in by_source.items():
            p_value = "" if source == "none" else f", p={stats.ttest_ind(by_source['none'], values).pvalue:.2g}"
            cells.append(f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}{p_value}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
