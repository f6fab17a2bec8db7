"""The task ``rag``."""

from retrokit.core.registry import Entry, Param

RAG = Entry(
    "rag",
    "question answering over the best passages: corpus.jsonl, and queries.jsonl with answers",
    "retrokit.extensions.rag.task:rag",
    (
        Param("path", required=True, help="the folder"),
        Param("reader", required=True, help="what answers: a language model, or a folder or hub id of one"),
        Param("k", 5, minimum=1, help="passages that it reads"),
        Param("new_tokens", 32, minimum=1, help="tokens of an answer at most"),
        Param("store", help="file that keeps the answers"),
    ),
    positional="path",
)
