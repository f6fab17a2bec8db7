"""Data and exports at addresses such as ``s3://bucket/corpus.jsonl``, by fsspec."""

from retrokit.core.registry import Extension

EXTENSION = Extension(
    "addresses",
    "Read data from addresses such as s3://bucket/corpus.jsonl, and export embeddings to them.",
    entries={"retrokit.file_systems": {"any": "retrokit.extensions.addresses.entries:ANY"}},
)
__getattr__ = EXTENSION.attribute
