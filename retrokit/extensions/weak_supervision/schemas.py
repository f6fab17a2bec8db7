"""The JSON that ``retrokit augment queries`` prints."""

from typing import Any

from retrokit.core.shapes import Either, but
from retrokit.extensions.weak_supervision.writing import TypeCounts, WrittenQueries

_COUNTS: Any = {"*": int}
OUTPUTS = {
    "augment-queries": Either(
        [
            but(
                WrittenQueries,
                kept=(int, "Queries that were kept."),
                types={"*": but(TypeCounts, dropped=_COUNTS)},
                counts=_COUNTS,
                rejections=_COUNTS,
                calls=(_COUNTS, "Of the language model: calls, those answered from the store, tokens."),
            ),
            {"passages": int, "queries": int, "prompt_tokens": int},
        ]
    ),
}
KINDS = {"augment-queries": ["queries", "estimate"]}
