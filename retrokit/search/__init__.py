"""Search for the documents that a similarity scores highest: exact, or approximate through an index of faiss."""

from __future__ import annotations

from retrokit.search.approximate import Approximate, approximate_top_k, check_index
from retrokit.search.exact import top_k

__all__ = ["Approximate", "approximate_top_k", "check_index", "top_k"]
