"""What a search is asked for: for Python, and on the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from retrokit.core.settings import PRECISION, PRECISIONS, Settings, setting


@dataclass(frozen=True)
class SearchSettings(Settings):
    """Which documents are searched by what, and for what. ``k`` is the number of documents of a query."""

    searcher: str | None = setting(
        None,
        "Encoder, bm25 or another searcher; with `index_folder=` by default the encoder that made it.",
        argument=True,
        metavar="SYSTEM",
    )
    corpus: str | None = setting(
        None, "Texts to search in: JSON lines of id and text, - is standard input; or a BEIR folder."
    )
    index_folder: str | None = setting(
        None, "Folder of retrokit export, whole or in shards, whose documents are not embedded again."
    )
    queries: str | None = setting(None, "Queries: JSON lines of id and text, TSV of both, or a BEIR folder.")
    query: Sequence[str] = setting((), "A query. Repeatable.")
    k: int = setting(10, "Documents of a query.", flags=("-k",), minimum=1)
    sim: str | None = setting(None, "Similarity; default: the encoder's own, or the folder's.")
    dims: int | None = setting(None, "Use the first N dimensions of the encoder's only.", minimum=1)
    index: str | None = setting(
        None, "Search through an index of faiss, e.g. HNSW32 or IVF4096,PQ32:nprobe=64; default: exactly."
    )
    quantize: str | None = setting(
        None, "Search in fewer bits: float16, int8, binary, binary+rescore; default: none, or the folder's."
    )
    precision: str = setting("auto", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)

    def options(self) -> dict[str, Any]:
        """Those of :func:`retrokit.ranking.retrieval.create`."""
        return {name: getattr(self, name) for name in ("sim", "dims", "precision", "index", "quantize")}
