"""Which candidates become negatives, and the record of what was mined."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from retrokit.errors import UsageError

SAMPLINGS = ("top", "random")

COUNTS = (
    *("rows", "anchors", "candidates", "candidates_repeated", "candidates_without_text", "positives_not_candidates"),
    *("excluded", "within_absolute_margin", "within_relative_margin", "above_max_score", "below_min_score"),
    *("negatives", "rows_complete", "rows_short", "rows_without", "rows_dropped"),
)


@dataclass(frozen=True)
class MiningSettings:
    """Which candidates become negatives; the defaults are those of SFS, B.2. ``None`` turns a bound off.

    ``keep_negatives`` puts the mined negatives after those that a row has (which do not count as any of the wanted),
    else they replace them. ``drop_rows_without`` leaves rows for which nothing was found out. ``scores`` adds
    ``positive_score`` and ``negative_scores`` to each row.

    Raises:
        UsageError: a value out of its range.
    """

    negatives: int = 7
    sampling: str = "top"
    first_rank: int = 1
    last_rank: int = 100
    absolute_margin: float | None = 0.04
    relative_margin: float | None = None
    max_score: float | None = None
    min_score: float | None = None
    keep_negatives: bool = True
    drop_rows_without: bool = False
    scores: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.negatives < 1:
            raise UsageError(f"negatives must be at least 1, not {self.negatives}")
        if self.sampling not in SAMPLINGS:
            raise UsageError(f"sampling {self.sampling!r} is none of {', '.join(SAMPLINGS)}")
        if not 1 <= self.first_rank <= self.last_rank:
            raise UsageError(f"ranks {self.first_rank} to {self.last_rank} are not a range from 1 upwards")
        window = self.last_rank - self.first_rank + 1
        if self.negatives > window:
            raise UsageError(f"{self.negatives} negatives cannot come from {window} ranks; widen the range of ranks")
        for name in ("absolute_margin", "relative_margin"):
            margin = getattr(self, name)
            if margin is not None and not 0 <= margin < math.inf:
                raise UsageError(f"{name} must be 0 or more, not {margin}")
        for name in ("max_score", "min_score"):
            bound = getattr(self, name)
            if bound is not None and not math.isfinite(bound):
                raise UsageError(f"{name} must be a finite number, not {bound}")
        if self.max_score is not None and self.min_score is not None and self.min_score > self.max_score:
            raise UsageError(f"min_score {self.min_score} is above max_score {self.max_score}")
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, not {self.seed}")


@dataclass(frozen=True)
class Mined:
    """What was mined. ``counts`` has the keys

    rows, anchors, candidates (distinct texts searched), candidates_repeated, candidates_without_text,
    positives_not_candidates (known positives that the corpus does not hold; their scores count all the same),
    excluded (anchors, known positives and given negatives met among the best candidates),
    within_absolute_margin, within_relative_margin, above_max_score, below_min_score (candidates of rows that each bound
    took out, in this order), negatives (mined), rows_complete (all wanted negatives), rows_short (some), rows_without
    (none) and rows_dropped.

    The means are over rows and over mined negatives; ``None`` where there are none.
    """

    encoder: str
    similarity: str
    judge: str | None
    settings: MiningSettings
    counts: dict[str, int]
    mean_positive_score: float | None
    mean_negative_score: float | None

    def summary(self) -> str:
        """What came of it, in a line."""
        counts, wanted = self.counts, self.settings.negatives
        line = f"{counts['negatives']:,} negatives for {counts['rows']:,} rows from {counts['candidates']:,} candidates"
        if counts["rows_short"]:
            line += f"; {counts['rows_short']:,} rows got fewer than {wanted}"
        if counts["rows_without"]:
            fate = "left out" if counts["rows_dropped"] else "kept without"
            line += f"; {counts['rows_without']:,} rows got none ({fate})"
        if self.mean_positive_score is not None and self.mean_negative_score is not None:
            line += f"; mean score {self.mean_negative_score:.3f}, of positives {self.mean_positive_score:.3f}"
        return line

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return asdict(self)
