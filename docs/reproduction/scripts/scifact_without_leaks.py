"""SciFact as a BEIR folder in which nothing that is trained on is related to a claim of the test.

    python docs/reproduction/scripts/scifact_without_leaks.py data/scifact OUT [FIRST]

SciFact's claims were written in groups, which the published split divides: "0-dimensional biomaterials show inductive
properties" is in test, "… lack inductive properties" in train, with the same abstract as evidence. Here two claims are
related if they have a judged document in common, or half of their words; train and dev are what has no relation, over
however many others, to a claim of test, which stays as it is, nor to each other. ``shared`` and ``unshared`` are the
test's claims that have a document in common with the published train split, and the others. With ``FIRST`` the corpus
is what is judged and what BM25 ranks in the first ``FIRST`` of a claim, for encoders that take too long for all.
"""

import json
import random
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from retrokit.data.corpus import read_queries
from retrokit.ranking.retrieval.bm25 import BM25

DEV = 0.25
"""Share of the claims without relation to the test that become dev."""


def main(source: Path, out: Path, first: int | None = None) -> None:
    """Write the folder, and say how many claims each part has. Interrupted, it leaves no folder of that name."""
    if out.exists():
        print(f"{out} is there already")
        return
    texts = dict(read_queries(source / "queries.jsonl"))
    rows = {split: judgements(source / "qrels" / f"{split}.tsv") for split in ("train", "test")}
    documents = defaultdict(set)
    for claim, document, _ in [*rows["train"], *rows["test"]]:
        documents[claim].add(document)
    words = {claim: set(re.findall(r"\w+", texts[claim].lower())) for claim in documents}

    def related(one: str, other: str) -> bool:
        shared = len(words[one] & words[other])
        return bool(documents[one] & documents[other]) or shared >= 0.5 * len(words[one] | words[other])

    test = {row[0] for row in rows["test"]}
    free = [group for group in sorted(groups(sorted(documents), related)) if not test & set(group)]
    random.Random(0).shuffle(free)
    dev: set[str] = set()
    while len(dev) < DEV * sum(map(len, [*free, dev])):
        dev.update(free.pop())
    trained = {document for _, document, _ in rows["train"]}
    shared = {claim for claim in test if documents[claim] & trained}
    parts = {"train": set[str]().union(*free), "dev": dev, "test": test, "shared": shared, "unshared": test - shared}
    unfinished = out.with_name(f".{out.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    (unfinished / "qrels").mkdir(parents=True)
    shutil.copy(source / "queries.jsonl", unfinished)
    corpus = (source / "corpus.jsonl").read_text().splitlines(keepends=True)
    if first:
        corpus = nearest(corpus, [texts[claim] for claim in sorted(documents)], set().union(*documents.values()), first)
        print(f"corpus: {len(corpus)} documents")
    (unfinished / "corpus.jsonl").write_text("".join(corpus))
    for part, claims in parts.items():
        lines = ["\t".join(row) for row in [*rows["train"], *rows["test"]] if row[0] in claims]
        (unfinished / "qrels" / f"{part}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, ""]))
        print(f"{part}: {len(claims)} claims, {len(lines)} judgements")
    print(
        f"left out of train and dev: {len(documents.keys() - set().union(*parts.values()))} claims related to the test"
    )
    unfinished.rename(out)


def nearest(corpus: list[str], claims: list[str], judged: set[str], first: int) -> list[str]:
    """The lines of the corpus that are judged, or among BM25's ``first`` of a claim."""
    documents = [json.loads(line) for line in corpus]
    index = BM25(k1=1.5, b=0.75, language="english").index([f"{one['title']} {one['text']}" for one in documents])
    found = {place for _, places in index.search(claims, first) for place in places}
    return [line for place, line in enumerate(corpus) if place in found or documents[place]["_id"] in judged]


def judgements(path: Path) -> list[list[str]]:
    """The rows of a file of judgements, without its header."""
    return [line.split("\t") for line in path.read_text().splitlines()[1:]]


def groups(claims: list[str], related: Callable[[str, str], bool]) -> list[list[str]]:
    """The claims in groups, so that those of different groups are not related."""
    left, found = list(claims), []
    while left:
        group, edge = [], [left.pop()]
        while edge:
            one = edge.pop()
            group.append(one)
            near = [other for other in left if related(one, other)]
            left = [other for other in left if other not in near]
            edge += near
        found.append(group)
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
