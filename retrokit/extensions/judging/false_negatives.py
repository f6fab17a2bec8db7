"""Negatives of training data that rerankers score above the positive: likely answers.

In RLHN (Thakur et al., "Hard negatives, hard lessons", 2025) language models decide. A generative reranker is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.core.shards import Shards
from retrokit.core.sheet import Sheet
from retrokit.data.check import shown
from retrokit.data.pairs import Source, read_any_source
from retrokit.data.pairs import registry as training_data
from retrokit.data.records import PrintedRecord
from retrokit.data.training_rows import Pair
from retrokit.extensions.judging.settings import NegativesSettings
from retrokit.ranking import reranking
from retrokit.ranking.reranking.kept import KeptReranker


@dataclass(frozen=True)
class DoubtedNegatives:
    """Negatives of a data set that all rerankers score above the positive.

    Attributes:
        of: all its negatives.
        examples: as many as were requested.
    """

    name: str
    count: int
    of: int
    examples: list[str]


@dataclass(frozen=True)
class FalseNegatives(PrintedRecord):
    """The likely answers among the negatives of each data set."""

    data: list[DoubtedNegatives]

    @property
    def count(self) -> int:
        """Likely answers in all data sets."""
        return sum(doubted.count for doubted in self.data)

    def sheets(self) -> list[Sheet]:
        """A row for each data set, and the examples."""
        rows = []
        for doubted in self.data:
            share = f"{doubted.count / doubted.of:.1%}" if doubted.of else ""
            rows.append([doubted.name, f"{doubted.of:,}", f"{doubted.count:,}", share])
        columns = ["data", "negatives", "above the positive", "share"]
        sheets = [Sheet("Negatives that all rerankers score above the positive", columns, 1, rows)]
        examples = [[doubted.name, text] for doubted in self.data for text in doubted.examples]
        if examples:
            sheets.append(Sheet("Examples", ["data", "anchor | negative"], 2, examples))
        return sheets


@taking(NegativesSettings)
def find_false_negatives(settings: NegativesSettings) -> FalseNegatives:
    """Count the negatives of training data that all rerankers score above the positive.

    Raises:
        UsageError: a wrong name.
        DataError: a file that cannot be read.
    """
    parse_all(
        [
            *((training_data, spec) for spec in settings.data),
            *((reranking.registry_of(spec), spec) for spec in settings.with_),
        ]
    )
    rows = []
    for source in [read_any_source(spec) for spec in settings.data]:
        doubted = doubted_negatives(source, settings.with_, settings.device)
        rows.append(_counted(source, doubted, settings.examples))
    return FalseNegatives(rows)


def doubted_negatives(source: Source, rerankers: Sequence[str], device: str | None) -> dict[int, list[int]]:
    """Record → its negatives that all ``rerankers`` score above its positive; none without rerankers."""
    pairs = {index: pair for index, pair in enumerate(source.records) if isinstance(pair, Pair) and pair.negatives}
    if not pairs or not rerankers:
        return {}
    doubted = {}
    for index, is_above in zip(pairs, _above_positive(list(pairs.values()), rerankers, device), strict=True):
        if is_above.any():
            doubted[index] = np.flatnonzero(is_above).tolist()
    return doubted


def _above_positive(pairs: Sequence[Pair], rerankers: Sequence[str], device: str | None) -> list[np.ndarray]:
    """For each pair, which of its negatives all rerankers score above its positive, bool ``[negatives]``."""
    queries = [pair.anchor for pair in pairs]
    lists = [[pair.positive, *pair.negatives] for pair in pairs]
    above = [np.ones(len(pair.negatives), dtype=bool) for pair in pairs]
    for spec in rerankers:
        reranker = KeptReranker(reranking.create(spec, device), Shards(None))
        for row, scores in enumerate(reranker.rank_lists(queries, lists)):
            above[row] &= scores[1:] > scores[0]
    return above


def _counted(source: Source, doubted: Mapping[int, Sequence[int]], examples: int) -> DoubtedNegatives:
    items, total = [], 0
    for index, record in enumerate(source.records):
        if isinstance(record, Pair):
            total += len(record.negatives)
            items += [
                f"{shown(record.anchor)} | {shown(record.negatives[number])}" for number in doubted.get(index, ())
            ]
    return DoubtedNegatives(source.spec, len(items), total, items[:examples])
