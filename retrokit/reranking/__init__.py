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
        Entry(
            "maxsim",
            "late interaction: each token of the query with the nearest of the document (COMP, F1)",
            "retrokit.reranking.maxsim:maxsim_reranker",
            (
                Param("encoder", str, "minilm", summary="whose token embeddings are compared"),
                Param(
                    "precision", str, "fp32", choices=("auto", "fp32", "bf16", "fp16"), summary="of encoding the texts"
                ),
            ),
            positional="encoder",
        ),
    ],
)
