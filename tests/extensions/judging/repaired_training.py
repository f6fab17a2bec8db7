"""Does training on repaired data rank better than on data with answers among the negatives?

    python tests/extensions/judging/repaired_training.py ../shared/data/scifact work/scifact --encoder FOLDER

Hides 30% of the training judgements, so that mined negatives contain answers, has `retrokit judge repair` repair the
pairs, trains three seeds on each form of them, and compares on the test split. A folder without a training split gives
half of its test queries. Says how many of the negatives were hidden answers, and how many of those were repaired.
"""

import argparse
import subprocess
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from retrokit.data.beir import read_beir, splits_of, write_beir
from retrokit.data.corpus import Document
from retrokit.data.jsonl import read_jsonl, write_jsonl

SHARE, SEEDS = 0.3, 3
Qrels = dict[str, dict[str, int]]


def run(*words: object) -> None:
    """A command of retrokit."""
    print("$ retrokit", *words, flush=True)
    subprocess.run(["retrokit", *map(str, words)], check=True)


def prepare(source: str, folder: Path) -> tuple[Path, set[tuple[str, str]]]:
    """A BEIR folder with the test and what is left of the training judgements, and the texts of the hidden pairs."""
    test = read_beir(source)
    train = read_beir(source, "train") if "train" in splits_of(source) else test
    rng = np.random.default_rng(0)
    trained = (
        set(train.qrels) if train is not test else set(rng.permutation(sorted(test.qrels))[: len(test.qrels) // 2])
    )
    pairs = [(query, document) for query, document in train.pairs() if query in trained]
    hidden = {pairs[place] for place in rng.choice(len(pairs), round(SHARE * len(pairs)), replace=False)}
    left: Qrels = {}
    for query, document in pairs:
        if (query, document) not in hidden:
            left.setdefault(query, {})[document] = 1
    judged = {query: grades for query, grades in test.qrels.items() if train is not test or query not in trained}
    queries = dict(zip([*test.query_ids, *train.query_ids], [*test.queries, *train.queries], strict=True))
    documents = dict(zip(test.document_ids, test.documents, strict=True))
    data = folder / "data"
    if not data.exists():
        texts = (Document(id, "", text) for id, text in documents.items())
        write_beir(data, texts, queries.items(), {"test": judged, "train": left})
    return data, {(queries[query], documents[document]) for query, document in hidden}


def negatives(path: Path) -> Iterable[tuple[str, str]]:
    """Each anchor with each of its negatives."""
    return ((row["anchor"], text) for _, row in read_jsonl(path) for text in row.get("negatives", ()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--reranker", nargs="+", default=["minilm", "maxsim:minilm"])
    parser.add_argument("--finetune", nargs=argparse.REMAINDER, default=[], help="further options of finetune")
    given = parser.parse_args()
    data, hidden = prepare(given.source, given.folder)
    forms = {name: given.folder / name / "plain.jsonl" for name in ("left-out", "relabelled")}
    forms = {"plain": given.folder / "plain.jsonl", **forms}
    if not forms["plain"].exists():
        pairs = read_beir(data, "train")
        texts = dict(zip(pairs.document_ids, pairs.documents, strict=True))
        rows = (
            {"anchor": query, "positive": texts[document]}
            for id, query in zip(pairs.query_ids, pairs.queries, strict=True)
            for document in pairs.qrels[id]
        )
        write_jsonl(given.folder / "pairs.jsonl", rows)
        mining = ("--encoder", "bm25", "--negatives", "7", "--margin", "none", "--last-rank", "30")
        run("augment", "mine", given.folder / "pairs.jsonl", "--corpus", data, *mining, "-o", forms["plain"])
    rerankers = [word for spec in given.reranker for word in ("--with", spec)]
    for name, more in (("left-out", []), ("relabelled", ["--relabel"])):
        if not (given.folder / name).exists():
            run("judge", "repair", forms["plain"], *rerankers, *more, "-o", given.folder / name)
    before = set(negatives(forms["plain"]))
    after = set(negatives(forms["left-out"]))
    print(f"{len(before):,} negatives, {len(before & hidden):,} of them hidden answers; repair leaves out")
    print(f"{len(before - after):,}, of which {len((before - after) & hidden):,} are hidden answers", flush=True)
    models = []
    for name, path in forms.items():
        for seed in range(SEEDS):
            models.append(given.folder / f"{name}-{seed}")
            if not models[-1].exists():
                run("finetune", given.encoder, "--data", path, "--seed", seed, "-o", models[-1], *given.finetune)
    run("eval", *models, given.encoder, "--on", f"beir:{data}", "--metrics", "ndcg@10,recall@100")


if __name__ == "__main__":
    main()
