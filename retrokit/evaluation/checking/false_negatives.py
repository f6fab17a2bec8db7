"""Negatives of training data that rerankers score above the positive: likely answers.

In RLHN (Thakur et al., "Hard negatives, hard lessons", 2025) language models decide. A generative reranker is one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrokit.core.shards import Shards
from retrokit.data.check import DataFault, faults_of, shown
from retrokit.data.pairs import Source
from retrokit.data.training_rows import Pair
from retrokit.ranking import reranking
from retrokit.ranking.reranking.kept import KeptReranker


def false_negatives(source: Source, rerankers: Sequence[str], device: str | None) -> dict[int, list[int]]:
    """Record → its negatives that all ``rerankers`` score above its positive; none without rerankers."""
    rows = [(place, pair) for place, pair in enumerate(source.records) if isinstance(pair, Pair) and pair.negatives]
    if not rows or not rerankers:
        return {}
    queries = [pair.anchor for _, pair in rows]
    lists = [[pair.positive, *pair.negatives] for _, pair in rows]
    above = [np.ones(len(texts) - 1, dtype=bool) for texts in lists]
    for spec in rerankers:
        reranker = KeptReranker(reranking.create(spec, device), Shards(None))
        for row, scores in enumerate(reranker.rank_lists(queries, lists)):
            above[row] &= scores[1:] > scores[0]
    return {
        place: np.flatnonzero(is_above).tolist()
        for (place, _), is_above in zip(rows, above, strict=True)
        if is_above.any()
    }


def false_negative_fault(source: Source, doubted: dict[int, list[int]], examples: int) -> list[DataFault]:
    """These negatives as a fault."""
    items, total = [], 0
    for place, record in enumerate(source.records):
        if isinstance(record, Pair):
            total += len(record.negatives)
            items += [
                f"{shown(record.anchor)} | {shown(record.negatives[number])}" for number in doubted.get(place, ())
            ]
    return faults_of("false-negatives", "negatives", items, total, examples)
