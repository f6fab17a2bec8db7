"""What the embedding cache holds, as a table for people and as JSON."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.filesize import decimal

from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import to_json
from retrokit.encoders.store.database import EmbeddingCache
from retrokit.encoders.store.graphs import held_graphs


def cache_json(cache: EmbeddingCache) -> list[str]:
    """Sizes in bytes; the last use in ISO 8601, UTC."""
    held = cache.held()
    encoders = [
        {**asdict(encoder), "last_used": datetime.fromtimestamp(encoder.last_used, UTC).isoformat(timespec="seconds")}
        for encoder in held
    ]
    graphs = [asdict(graph) for graph in held_graphs(cache.folder)]
    about = {"folder": str(cache.folder), "limit": cache.limit, "size": sum(encoder.size for encoder in held)}
    return [to_json({**about, "encoders": encoders, "graphs": graphs})]


def cache_table(cache: EmbeddingCache) -> list[Any]:
    """A row per encoder, the last used first; a line per converted transformer; and where they lie."""
    held = cache.held()
    rows = []
    for of in held:
        numbers = [f"{of.dimension:,}", f"{of.rows:,}", decimal(of.size)]
        used = f"{datetime.fromtimestamp(of.last_used):%Y-%m-%d %H:%M}"
        rows.append([of.spec, of.kind, of.precision, of.device, *numbers, used, of.fingerprint[:8]])
    columns = ["encoder", "kind", "precision", "device", "dimensions", "embeddings", "size", "last used", "fingerprint"]
    return [
        *([Sheet(None, columns, 4, rows, last_words=2)] if rows else []),
        *(f"{graph.spec}: {decimal(graph.size)}; {graph.said} ({graph.sample})" for graph in held_graphs(cache.folder)),
        f"{decimal(sum(encoder.size for encoder in held))} of at most {decimal(cache.limit)} in {cache.folder}",
    ]
