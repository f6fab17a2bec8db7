"""What the embedding cache holds, as a table for people and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from rich.filesize import decimal

from retrokit.data.jsonl import to_json
from retrokit.encoders.store.database import EmbeddingCache
from retrokit.encoders.store.graphs import held_graphs
from retrokit.report.sheets import table


def cache_json(cache: EmbeddingCache) -> list[str]:
    """Sizes in bytes; the last use in ISO 8601, UTC."""
    held = cache.held()
    encoders = [
        {**asdict(encoder), "last_used": _time(encoder.last_used).isoformat(timespec="seconds")} for encoder in held
    ]
    total = sum(encoder.size for encoder in held)
    graphs = [asdict(graph) for graph in held_graphs(cache.folder)]
    about = {"folder": str(cache.folder), "limit": cache.limit, "size": total}
    return [to_json({**about, "encoders": encoders, "graphs": graphs})]


def cache_table(cache: EmbeddingCache) -> list[Any]:
    """A row per encoder, the last used first; a line per converted transformer; and where they lie."""
    held = cache.held()
    total = f"{decimal(sum(encoder.size for encoder in held))} of at most {decimal(cache.limit)} in {cache.folder}"
    graphs = [
        f"{graph.spec}: {decimal(graph.size)}; {graph.said} ({graph.sample})" for graph in held_graphs(cache.folder)
    ]
    if not held:
        return [*graphs, total]
    words = ["encoder", "kind", "precision", "device"]
    encoders = table(None, words, ["dimensions", "embeddings", "size"])
    for name in ("last used", "fingerprint"):
        encoders.add_column(name)
    for encoder in held:
        shown = (f"{encoder.dimension:,}", f"{encoder.rows:,}", decimal(encoder.size))
        used = _time(encoder.last_used).astimezone().strftime("%Y-%m-%d %H:%M")
        encoders.add_row(
            encoder.spec, encoder.kind, encoder.precision, encoder.device, *shown, used, encoder.fingerprint[:8]
        )
    return [encoders, *graphs, total]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
