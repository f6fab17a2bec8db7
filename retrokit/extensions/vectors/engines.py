"""Vectors from a data engine (Ray Data, Spark, Daft), where one machine is not enough.

:func:`embed_batches` embeds a batch of Arrow. An engine calls it as any function, and distributes, retries and resumes
the batches. :func:`~retrokit.extensions.vectors.adoption.adopt` then registers the result as an export.
"""

from typing import Any

from retrokit.core.errors import UsageError
from retrokit.data.corpus import Document
from retrokit.encoders.base import Encoder
from retrokit.ranking.export import check_factorable
from retrokit.ranking.retrieval.embeddings import prepared_rows
from retrokit.similarities.base import Role

ID, EMBEDDING = "id", "embedding"


def chunks_refused(encoder: str) -> UsageError:
    """The error for an encoder that cuts documents: a job writes one vector of each text."""
    return UsageError(f"{encoder}: cuts documents into chunks; use 'retrokit export --shard' for these")


def embed_batches(
    encoder: Encoder, table: Any, role: Role = "document", sim: str | None = None, precision: str = "auto"
) -> Any:
    """The prepared embeddings of a table or record batch of Arrow, as the same kind, in its order.

    Args:
        table: columns ``id`` and ``text``; of documents optionally ``title``.
        sim: similarity that prepares them; default: the encoder's own.

    Returns:
        Columns ``id`` and ``embedding`` (a list of float32). They have the bits of ``retrokit export`` if the batches
        are its portions, computed by as many threads: rows in the order of the file, 8,192
        (:data:`retrokit.data.exports.CHUNK`) at a time.

    Raises:
        UsageError: a column is missing, the similarity does not fit, or the encoder cuts documents into chunks.
    """
    import pyarrow

    names = table.schema.names
    for column in (ID, "text"):
        if column not in names:
            raise UsageError(f"the table has no column {column!r}, only {', '.join(names)}; name it in the engine")
    if role == "document" and encoder.in_chunks() is not None:
        raise chunks_refused(encoder.spec)
    similarity = encoder.similarity_of(sim)
    check_factorable(similarity)
    encoder.use_with(similarity)
    texts = table.column("text").to_pylist()
    if None in texts:
        raise UsageError(f"the table has no text in row {texts.index(None) + 1} of a batch; filter it in the engine")
    if role == "document":
        titles = table.column("title").to_pylist() if "title" in names else [None] * len(texts)
        texts = [Document("", title or "", text).full_text for title, text in zip(titles, texts, strict=True)]
    rows = prepared_rows(similarity, encoder.embed(texts, role, precision), role)
    vectors = pyarrow.array(list(rows), pyarrow.list_(pyarrow.float32()))
    return type(table).from_arrays([table.column(ID), vectors], names=[ID, EMBEDDING])
