"""What of tests stands in training data, as tables."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from retrokit.core.sheet import Sheet

SHOWN = 100  # characters of a text


def overlap_sheets(overlaps: Sequence[Mapping[str, Any]]) -> list[Sheet]:
    """Counts and examples of :class:`~retrokit.data.overlap.Overlap` as plain values; what there is nothing of is left
    out."""
    counts, examples = [], []
    for overlap in overlaps:
        for what in ("queries", "pairs", "documents"):
            numbers = (overlap["counts"].get(f"{what}{kind}") for kind in ("", "_seen", "_near"))
            counts.append([overlap["test"], what, *("" if count is None else f"{count:,}" for count in numbers)])
        for example in overlap["examples"]:
            texts = [textwrap.shorten(example[side], SHOWN, placeholder="…") for side in ("test", "training")]
            examples.append([overlap["test"], example["what"], *texts])
    sheets = [
        Sheet("tests in the training data", ["test", "", "in all", "there", "nearly"], 2, counts, ""),
        Sheet("examples", ["test", "", "text of the test", "text of the training data"], 4, examples, ""),
    ]
    return [sheet for sheet in sheets if sheet.rows]
