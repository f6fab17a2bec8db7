"""Pairs as a BEIR folder of train, dev and test that share no texts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from retrokit.augmentation import draws
from retrokit.augmentation.settings import SHARES
from retrokit.core.errors import DataError, UsageError
from retrokit.data.beir import write_beir
from retrokit.data.corpus import Document
from retrokit.data.overlap import Bigrams, Shingles
from retrokit.data.pairs import read_pairs
from retrokit.data.training_rows import Pair, normal_form

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class SplitCounts:
    """Queries and judgements by split, documents and how many of them are negatives only (``unjudged``), ``groups`` of
    joined anchors, and the ``largest`` group's anchors."""

    folder: str
    queries: dict[str, int]
    judgements: dict[str, int]
    documents: int
    unjudged: int
    groups: int
    largest: int

    def summary(self) -> str:
        """In a line."""
        splits = ", ".join(f"{count:,} in {name}" for name, count in self.queries.items())
        groups = f"{self.groups:,} groups that share texts or nearly so, the largest of {self.largest:,}"
        line = f"{self.folder}: queries: {splits}; they form {groups}; {self.documents:,} documents"
        return f"{line}, {self.unjudged:,} of them negatives, which are not judged" if self.unjudged else line


def split_pairs(
    data: Sequence[str], output: str, shares: tuple[float, float, float] = SHARES, seed: int = 0
) -> SplitCounts:
    """Write the pairs of the specs ``data`` as a BEIR folder, whose splits train, dev and test have about these
    ``shares`` of the anchors; one with a share of 0 is not written. Negatives become unjudged documents.

    Anchors that a chain of shared texts joins are in one split; texts that differ in case or white space only, and
    near-duplicates (:data:`retrokit.data.overlap.NEAR`), are the same. Groups too large for dev and test are for train.

    Raises:
        UsageError: wrong specs, shares that do not add up to 1, or a folder that exists.
        DataError: data that cannot be used, or a split for which no group is small enough.
    """
    _check_shares(shares)
    pairs = read_pairs(data)
    group_of = _groups(pairs)
    split_of = _assigned(group_of, dict(zip(SPLITS, shares, strict=True)), seed, ", ".join(data))
    queries = {anchor: f"q{number}" for number, anchor in enumerate(split_of, start=1)}
    positives = dict.fromkeys(pair.positive for pair in pairs)
    negatives = chain.from_iterable(pair.negatives for pair in pairs)
    documents = {text: f"d{number}" for number, text in enumerate(positives | dict.fromkeys(negatives), start=1)}
    used_splits = set(split_of.values())
    qrels: dict[str, dict[str, dict[str, int]]] = {name: {} for name in SPLITS if name in used_splits}
    for pair in pairs:
        qrels[split_of[pair.anchor]].setdefault(queries[pair.anchor], {})[documents[pair.positive]] = 1
    corpus = (Document(id=id, title="", text=text) for text, id in documents.items())
    write_beir(output, corpus, zip(queries.values(), queries, strict=True), qrels)
    groups = Counter(group_of.values())
    return SplitCounts(
        output,
        queries={name: len(judged) for name, judged in qrels.items()},
        judgements={name: sum(map(len, judged.values())) for name, judged in qrels.items()},
        documents=len(documents),
        unjudged=len(documents) - len(positives),
        groups=len(groups),
        largest=max(groups.values()),
    )


def _check_shares(shares: Sequence[float]) -> None:
    if min(shares) < 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6) or shares[0] == 0:
        raise UsageError(f"`shares=` {','.join(f'{share:g}' for share in shares)}: expected three that add up to 1")


def _groups(pairs: Sequence[Pair]) -> dict[str, int]:
    """Each anchor's group, by a number: those joined by a chain of texts that are shared or nearly the same."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    numbers: dict[str, int] = {}
    joined = []
    for pair in pairs:
        anchor = numbers.setdefault(normal_form(pair.anchor), len(numbers))
        joined.append((anchor, numbers.setdefault(normal_form(pair.positive), len(numbers))))
    near = np.array([*Bigrams(numbers, Shingles()).alike()], dtype=np.int64).reshape(-1, 2)
    edges = np.concatenate([np.array(joined), near])
    graph = coo_array((np.ones(len(edges)), edges.T), shape=(len(numbers), len(numbers)))
    group = connected_components(graph, directed=False)[1].tolist()
    return {pair.anchor: group[anchor] for pair, (anchor, _) in zip(pairs, joined, strict=True)}


def _assigned(group_of: Mapping[str, int], shares: Mapping[str, float], seed: int, where: str) -> dict[str, str]:
    """Each anchor's split: the groups, in random order, fill test, then dev, as long as they fit."""
    members: dict[int, list[str]] = {}
    for anchor, group in group_of.items():
        members.setdefault(group, []).append(anchor)
    order = sorted(members, key=lambda group: min(draws.bits(seed, normal_form(anchor)) for anchor in members[group]))
    room = {name: round(shares[name] * len(group_of)) for name in ("test", "dev")}
    split_of = dict.fromkeys(order, "train")
    for group in order:
        size = len(members[group])
        for name in room:
            if size <= room[name]:
                split_of[group] = name
                room[name] -= size
                break
    empty = [name for name, share in shares.items() if share and name not in split_of.values()]
    if empty:
        largest = max(map(len, members.values()))
        sizes = f"{len(members)} groups of {len(group_of)} anchors, the largest of {largest}"
        raise DataError(where, f"leaves nothing for {empty[0]}: texts that are shared or nearly the same make {sizes}")
    return {anchor: split_of[group] for anchor, group in group_of.items()}
