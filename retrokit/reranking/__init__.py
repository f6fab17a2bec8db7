"""The registry of rerankers: the table of names. A reranker scores a query with documents that a search has found."""

from __future__ import annotations

from retrokit.registry import Entry, Param, SpecRegistry

registry = SpecRegistry(
    "reranker",
    "retrokit.rerankers",
    [
        Entry(
            "cross-encoder",
            "a transformer that reads query and document together",
            "retrokit.reranking.cross_encoder:cross_encoder",
            (
                Param("path", str, required=True, summary="folder or hub id"),
                Param("max_length", int, minimum=1, summary="tokens of a query and a document that count"),
                Param("dtype", str, "fp32", choices=("fp32", "bf16", "fp16"), summary="type of the loaded weights"),
            ),
            positional="path",
        ),
    ],
)
