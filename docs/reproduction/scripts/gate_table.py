"""What a verifier in front of a list costs and saves (COMP, C.2): the first documents that it rejects are left out.

python docs/reproduction/scripts/gate_table.py FOLDER OUT

FOLDER is of plant_near_misses.py. OUT has minilm's first documents, first.trec, and the default verifier's scores of
them, claims.trec and sentences.trec. The baseline leaves out what minilm's cosine scores too low, at the threshold that
accepts as many paraphrases as the verifier. Prints Markdown, differences with 95% over queries (paired t).
"""

import sys
from pathlib import Path

import numpy as np

from retrokit.data.trec import read_judgements, read_run
from retrokit.metrics.ranking import evaluate_run, mean
from retrokit.metrics.significance import paired_t_test, share_of
from retrokit.ranking.reranking.verifier import folder_of, read_verifier

Run = dict[str, dict[str, float]]
METRICS = ("ndcg@10", "recall@10", "accuracy@1")


def gated(run: Run, scores: Run, threshold: float) -> Run:
    """The documents of a run whose score reaches the threshold, in the run's order."""
    return {
        query: {document: value for document, value in run[query].items() if scores[query][document] >= threshold}
        for query in run
    }


def near_miss(query: str) -> str:
    """The id of the near-miss of a sentence; no document's for a claim."""
    return query.replace("sentence", "near")


def main(folder: Path, out: Path) -> None:
    """Print a row for each split and way of ranking."""
    verified = {split: read_run(out / f"{split}.trec") for split in ("sentences", "claims")}
    searched = read_run(out / "first.trec")
    strict = read_verifier(folder_of("default")).calibration["threshold"]
    print("| queries | list | documents | near-miss in it | nDCG@10 | less | recall@10 | less | accuracy@1 | less |")
    print("|---|---|---:|---|---:|---|---:|---|---:|---|")
    for split, scores in verified.items():
        qrels: dict[str, dict[str, int]] = {}
        for _, query, document, grade in read_judgements(folder / "qrels" / f"{split}.tsv"):
            qrels.setdefault(query, {})[document] = grade
        first = {query: {one: searched[query][one] for one in scores[query]} for query in scores}
        if split == "sentences":
            judged = [(query, one) for query in qrels for one in qrels[query] if one in first[query]]
            accepted = np.mean([scores[query][one] >= strict for query, one in judged])
            loose = np.quantile([first[query][one] for query, one in judged], 1 - accepted)
        lists = {
            "all": first,
            "gate: default": gated(first, scores, strict),
            "gate: cosine": gated(first, first, loose),
            "ordered by default": scores,
        }
        before = evaluate_run(qrels, first, METRICS)
        for name, run in lists.items():
            cells = [f"{np.mean([len(documents) for documents in run.values()]):.1f}"]
            share = share_of(np.array([near_miss(query) in run[query] for query in run]))
            cells.append(f"{share.value:.3f} ({share.low:.3f} to {share.high:.3f})")
            for metric, values in evaluate_run(qrels, run, METRICS).items():
                test = paired_t_test(before[metric], values)
                cells += [f"{mean(values):.3f}", f"{test.difference:+.3f} ({test.low:+.3f} to {test.high:+.3f})"]
            print(f"| {split} | {name} | {' | '.join(cells)} |")
        if split == "sentences":
            let_in = [
                {query: float(near_miss(query) in lists[name][query]) for query in scores}
                for name in ("gate: cosine", "gate: default")
            ]
            less = paired_t_test(*let_in)
    print(f"\nnear-misses, default less cosine: {less.difference:+.3f} ({less.low:+.3f} to {less.high:+.3f})")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
