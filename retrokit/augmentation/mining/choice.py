"""From the pool of an anchor to the negatives of its rows: margins, sampling, and what is written."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from retrokit.augmentation.draws import distinct
from retrokit.augmentation.mining.settings import MiningSettings
from retrokit.augmentation.mining.work import MiningWork
from retrokit.core.notices import Advance


@dataclass
class Pool:
    """For one anchor: the pool (positions of documents) and its scores, and the scores of the documents that its own
    rows hold."""

    pool: np.ndarray
    scores: np.ndarray
    own: dict[int, np.float32]


class MinedRows:
    """Makes the rows of the output, and counts."""

    def __init__(self, work: MiningWork, settings: MiningSettings) -> None:
        self.work, self.settings = work, settings
        self._sums = {"positive": 0.0, "negative": 0.0}

    @property
    def means(self) -> dict[str, float | None]:
        """The mean scores of the positives, over rows, and of the mined negatives; ``None`` of nothing."""
        counts = {"positive": len(self.work.pairs), "negative": self.work.counts["negatives"]}
        return {f"mean_{of}_score": self._sums[of] / counts[of] if counts[of] else None for of in counts}

    def all(self, pools: Iterator[Pool], advance: Advance) -> Iterator[dict[str, Any]]:
        """The rows in order; an anchor's pool is held until its last row."""
        held: dict[int, Pool] = {}
        left = Counter(self.work.anchor_of)
        for row, anchor in enumerate(self.work.anchor_of):
            if anchor not in held:  # anchors are numbered in the order in which rows first name them
                held[anchor] = next(pools)
            mined = self._row(row, held[anchor])
            left[anchor] -= 1
            if not left[anchor]:
                del held[anchor]
            advance(1)
            if mined is not None:
                yield mined

    def _row(self, row: int, pool: Pool) -> dict[str, Any] | None:
        pair, wanted, counts = self.work.pairs[row], self.settings, self.work.counts
        positive = pool.own[self.work.positive_of[row]]
        allowed = self._allowed(pool.scores, positive)
        if wanted.sampling == "random" and len(allowed) > wanted.negatives:
            allowed = allowed[sorted(distinct(len(allowed), wanted.negatives, wanted.seed, row))]
        # best score first; of equal scores the better rank first
        chosen = allowed[np.argsort(-pool.scores[allowed], kind="stable")][: wanted.negatives]
        scores = [_rounded(score) for score in pool.scores[chosen]]
        is_complete = len(chosen) == wanted.negatives
        counts["rows_complete" if is_complete else "rows_short" if len(chosen) else "rows_without"] += 1
        counts["negatives"] += len(chosen)
        self._sums["positive"] += float(positive)
        self._sums["negative"] += sum(scores)
        own_negatives = pair.negatives if wanted.keep_negatives else ()
        negatives = [*own_negatives, *(self.work.documents.texts[document] for document in pool.pool[chosen])]
        if not negatives and wanted.drop_rows_without:
            counts["rows_dropped"] += 1
            return None
        mined: dict[str, Any] = {"anchor": pair.anchor, "positive": pair.positive, "negatives": negatives}
        if wanted.scores:
            own_scores = [_rounded(pool.own[self.work.documents.add(text)]) for text in own_negatives]
            mined |= {"positive_score": _rounded(positive), "negative_scores": [*own_scores, *scores]}
        return mined

    def _allowed(self, scores: np.ndarray, positive: np.float32) -> np.ndarray:
        """Which scores are within all bounds, as positions."""
        wanted = self.settings
        allowed = np.ones(len(scores), dtype=bool)
        outside: dict[str, Any] = {}
        if wanted.absolute_margin is not None:
            outside["within_absolute_margin"] = scores + wanted.absolute_margin > positive
        if wanted.relative_margin is not None:
            highest = positive - abs(positive) * np.float32(wanted.relative_margin)
            outside["within_relative_margin"] = scores > highest
        if wanted.max_score is not None:
            outside["above_max_score"] = scores > wanted.max_score
        if wanted.min_score is not None:
            outside["below_min_score"] = scores < wanted.min_score
        for name, is_out in outside.items():
            self.work.counts[name] += int(np.count_nonzero(allowed & is_out))
            allowed &= ~is_out
        return np.flatnonzero(allowed)


def _rounded(score: np.float32) -> float:
    """Six decimals: a float32 between 1 and 16 has no more."""
    return round(float(score), 6)
