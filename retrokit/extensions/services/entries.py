"""The encoder and the reranker of a service."""

from retrokit.core.registry import Entry, Param
from retrokit.core.settings import service_params
from retrokit.encoders import PROMPTS

ENCODER = Entry(
    "api",
    "a service that speaks OpenAI's embeddings protocol: hosted ones, vLLM, Ollama, TEI",
    "retrokit.extensions.services.embedding:api",
    (
        *service_params(timeout=60.0),
        Param("revision", help="version of the model, for the cache key"),
        Param(
            "dimensions",
            int,
            minimum=1,
            maximum=65536,
            help="embedding dimensions, if the service takes them",
        ),
        Param("batch", 64, minimum=1, maximum=4096, help="texts per call"),
        Param("concurrency", 8, minimum=1, maximum=1024, help="concurrent calls"),
        *PROMPTS,
        Param("input_type", help="cohere, jina, nvidia, voyage or FIELD:QUERY:DOCUMENT"),
    ),
    positional="model",
    extra="llm",
)
RERANKER = Entry(
    "rerank-api",
    "a service that reranks, by Cohere's protocol: hosted ones, Jina, vLLM",
    "retrokit.extensions.services.scoring:rerank_api",
    (
        Param("model", required=True, help="name at the service"),
        Param("url", required=True, receives_texts=True, help="up to /v1 or /v2"),
        Param("key_env", "RERANK_API_KEY", help="environment variable of the key, if any"),
        Param("timeout", 60.0, minimum=0.1, maximum=86_400, help="seconds for a complete answer"),
        Param("revision", help="name of the model's state"),
        Param("batch", 100, minimum=1, maximum=10_000, help="documents of a call"),
        Param("concurrency", 8, minimum=1, maximum=1024, help="calls at once"),
    ),
    positional="model",
    extra="llm",
)
