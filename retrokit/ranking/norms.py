"""Whether the norms of an export harm an approximate index, and what the same norm for all would change.

A graph such as HNSW leads to documents that are near to each other. By the inner product, documents of a large norm are
near to all others, and those of a small norm cannot be reached (Morozov and Babenko, "Non-metric Similarity Graphs for
Maximum Inner Product Search", 2018).
"""

import numpy as np

from retrokit import similarities
from retrokit.core.errors import MissingExtra
from retrokit.core.notices import notice
from retrokit.data.exports import Export, step_of
from retrokit.ranking.retrieval.approximate import ApproximateIndex
from retrokit.ranking.retrieval.embeddings import row_norms

FACTOR = 1.5  # of the 99th percentile of the norms to the first
QUERIES, INDEX = 100, "HNSW32"


def warn_of_norms(export: Export) -> None:
    """Warn if the norms of documents differ by :data:`FACTOR`, and if that costs recall. It is measured on a sample,
    some of which are the queries, as it is and with one norm for all documents."""
    rows = export.take(np.arange(0, export.note["count"], step_of(export.note["count"])))
    norms = row_norms(rows)
    low, high = np.percentile(norms, [1, 99])
    if high <= FACTOR * low:
        return
    problem = f"norms of documents vary from {low:.3g} to {high:.3g}; with `one_length=` they are the same"
    queries = rows[:: -(-len(rows) // QUERIES)]
    last = np.sqrt(norms.max() ** 2 - norms**2)
    try:
        before = _recall(rows, queries)
        after = _recall(np.column_stack([rows, last]), np.pad(queries, [(0, 0), (0, 1)]))
    except MissingExtra as error:
        notice(f"{problem}. What that gains in an approximate index was not measured: {error}")
        return
    if before < after:
        notice(f"{problem}, and recall@10 of {INDEX} is {after:.2f} in place of {before:.2f} (measured on a sample)")


def _recall(documents: np.ndarray, queries: np.ndarray) -> float:
    index = ApproximateIndex(similarities.registry.create("dot"), documents.astype(np.float32), INDEX)
    (recall,) = index.search(queries, 10).recall.values()
    return recall
