"""A BEIR folder in which near-misses are documents, to measure a verifier as a gate (COMP, C.2).

python docs/reproduction/scripts/plant_near_misses.py SCIFACT TRIPLETS.jsonl OUT

The documents are SciFact's, and for each triplet its paraphrase (para-N, the judged document) and its near-miss
(near-N). OUT/qrels has two splits: `claims`, the test claims of SciFact, and `sentences`, the texts of the triplets.
"""

import json
import shutil
import sys
from pathlib import Path


def lines(path: Path) -> list[dict[str, str]]:
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def main(scifact: Path, triplets: Path, out: Path) -> None:
    """Write the folder."""
    documents, queries = lines(scifact / "corpus.jsonl"), lines(scifact / "queries.jsonl")
    judgements = ["query-id\tcorpus-id\tscore"]
    for number, triplet in enumerate(lines(triplets)):
        documents.append({"_id": f"para-{number}", "text": triplet["positive"]})
        documents.append({"_id": f"near-{number}", "text": triplet["near_miss"]})
        queries.append({"_id": f"sentence-{number}", "text": triplet["text"]})
        judgements.append(f"sentence-{number}\tpara-{number}\t1")
    (out / "qrels").mkdir(parents=True, exist_ok=True)
    write(out / "corpus.jsonl", documents)
    write(out / "queries.jsonl", queries)
    (out / "qrels" / "sentences.tsv").write_text("\n".join([*judgements, ""]), "utf-8")
    shutil.copy(scifact / "qrels" / "test.tsv", out / "qrels" / "claims.tsv")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
