"""Whether the norms of an export harm an approximate index, and what the same norm for all would change.

A graph such as HNSW leads to documents that are near to each other. By the inner product, documents of a large norm are
near to all others, and those of a small norm cannot be reached (Morozov and Babenko, "Non-metric Similarity Graphs for
Maximum Inner Product Search", 2018).
"""

import numpy as np

from retrokit import similarities
from retrokit.core.errors import MissingExtra
from retrokit.core.notices import notice
from retrokit.data.exports import Export
from retrokit.ranking.retrieval.approximate import ApproximateIndex
from retrokit.ranking.retrieval.embeddings import row_norms

FACTOR = 1.5  # of the 99th percentile of the norms to the first
DOCUMENTS, QUERIES, K, INDEX = 10_000, 100, 10, "HNSW32"


def warn_of_norms(export: Export) -> None:
    """Warn if the norms of documents differ by :data:`FACTOR`. The recall is that of a sample, some of which are the
    queries, as they are and with one norm for all documents."""
    count = export.note["count"]
    rows = export.take(np.unique(np.linspace(0, count - 1, min(count, DOCUMENTS)).astype(np.int64)))
    norms = row_norms(rows)
    low, high = np.percentile(norms, [1, 99])
    if high <= FACTOR * low:
        return
    last = np.sqrt(norms.max() ** 2 - norms**2).astype(np.float32)
    queries = rows[:: -(-len(rows) // QUERIES)]
    try:
        before = _recall(rows, queries)
        after = _recall(np.column_stack([rows, last]), np.pad(queries, [(0, 0), (0, 1)]))
        effect = f"recall@{K} of {INDEX} on a sample is {before:.2f}, and {after:.2f} with `one_length=`"
    except MissingExtra as error:
        effect = f"`one_length=` gives all documents one norm; its effect was not measured ({error})"
    notice(f"norms vary from {low:.3g} to {high:.3g}, which harms approximate indexes by the inner product: {effect}")


def _recall(documents: np.ndarray, queries: np.ndarray) -> float:
    index = ApproximateIndex(similarities.registry.create("dot"), documents, INDEX)
    (recall,) = index.search(queries, K).recall.values()
    return recall
