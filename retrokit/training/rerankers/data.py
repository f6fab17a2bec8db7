"""What a reranker is trained and measured on: candidates of each anchor, and examples held out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from retrokit.data.pairs import Source
from retrokit.data.training_rows import Pair, texts_of_record
from retrokit.training.batches import Example
from retrokit.training.loss import known_pairs

OTHERS = 30  # documents of other anchors in a list that is ranked


@dataclass(frozen=True)
class Candidates:
    """The texts of a batch, and which documents each anchor is compared with.

    Attributes:
        columns: positions among the documents, int64 ``[n, k]``: the anchor's positive, its negatives, then documents
            of others; −1 is padding.
        own: which of them are the anchor's own negatives, bool ``[n, k]``.
    """

    anchors: list[str]
    documents: list[str]
    columns: Tensor
    own: Tensor


def draw_candidates(
    examples: Sequence[Example], positives: Tensor, in_batch: int, random: np.random.Generator
) -> Candidates:
    """Compare each anchor with its positive, its negatives, and ``in_batch`` documents of the other examples at random.

    A document that is a known positive of the anchor (``positives``: sorted codes) is never among the others.
    """
    anchors, lists = zip(*(texts_of_record(example.record) for example in examples), strict=True)
    documents = [text for texts in lists for text in texts]
    ids = torch.tensor([number for example in examples for number in example.document_ids])
    known = known_pairs(positives, torch.tensor([example.anchor_id for example in examples]), ids).numpy()
    counts = [len(example.document_ids) for example in examples]
    starts = np.cumsum([0, *counts])
    rows = []
    for i, count in enumerate(counts):
        mine = np.arange(starts[i], starts[i] + count)
        free = np.flatnonzero(~known[i])
        free = free[~np.isin(ids[free].numpy(), ids[mine].numpy())]
        others = random.permutation(free)[:in_batch]
        rows.append((mine, others))
    width = max(len(mine) + len(others) for mine, others in rows)
    columns = np.full((len(rows), width), -1, dtype=np.int64)
    own = np.zeros((len(rows), width), dtype=bool)
    for row, (mine, others) in enumerate(rows):
        columns[row, : len(mine) + len(others)] = np.concatenate([mine, others])
        own[row, 1 : len(mine)] = True
    return Candidates(list(anchors), documents, torch.from_numpy(columns), torch.from_numpy(own))


def pairs_of(source: Source) -> Iterator[Pair]:
    """The records of a source of pairs."""
    for record in source.records:
        assert isinstance(record, Pair)
        yield record


@dataclass(frozen=True)
class RankedLists:
    """Pairs to score, those of an anchor one after another: its positive, its negatives, documents of others."""

    queries: list[str]
    documents: list[str]
    starts: list[int]
    negatives: list[int]

    @classmethod
    def of(cls, records: Sequence[Pair], others: int = OTHERS) -> RankedLists:
        """Lists of the records with ``others``, drawn at random by a fixed seed, none of them a positive of the
        anchor."""
        random = np.random.default_rng(42)
        positives: dict[str, set[str]] = {}
        for record in records:
            positives.setdefault(record.anchor, set()).add(record.positive)
        pool = list(dict.fromkeys(record.positive for record in records))
        queries: list[str] = []
        documents: list[str] = []
        starts, negatives = [0], []
        for record in records:
            drawn = [pool[i] for i in random.permutation(len(pool))[: 2 * others].tolist()]
            mine = [record.positive, *record.negatives]
            avoided = {record.anchor, *record.negatives, *positives[record.anchor]}
            candidates = [*mine, *[text for text in drawn if text not in avoided][:others]]
            queries += [record.anchor] * len(candidates)
            documents += candidates
            starts.append(len(documents))
            negatives.append(len(record.negatives))
        return cls(queries, documents, starts, negatives)

    def metrics(self, scores: np.ndarray) -> dict[str, float]:
        """Of scores ``[n]`` of the pairs, higher is better: nDCG@10, the share of positives that come first, and where
        there are negatives the area under the ROC curve of positives against them. Equal scores count against the
        positive."""
        from retrokit.metrics.separation import roc_auc

        lists = list(zip(self.starts, self.starts[1:], strict=False))
        ranks = np.array([1 + int((scores[a + 1 : b] >= scores[a]).sum()) for a, b in lists])
        own = [scores[a + 1 : a + 1 + count] for (a, _), count in zip(lists, self.negatives, strict=True)]
        results = {
            "ndcg@10": float(np.where(ranks <= 10, 1 / np.log2(1 + ranks), 0.0).mean()),
            "accuracy": float((ranks == 1).mean()),
        }
        negative = np.concatenate(own)
        if len(negative):
            results["roc_auc"] = roc_auc(np.array([scores[a] for a, _ in lists]), negative)
            results["negative_score"] = float(negative.mean())
        return results
