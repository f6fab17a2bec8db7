"""The reranker ``colbert``: late interaction of a multi-vector encoder, through sentence-transformers.

Khattab and Zaharia, "ColBERT", 2020. Any ``MultiVectorEncoder`` of the library: it brings its own prefixes, query
expansion, projection and list of tokens that do not count, and is scored by its own MaxSim.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from typing import Any

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder

from retrokit.core.errors import DataError
from retrokit.encoders.checks import PROBES, UNUSED, check_positions, whole_weights
from retrokit.encoders.fingerprint import tokenizer_settings
from retrokit.ranking.reranking.library import ModelReranker, loading_model


class MultiVectorReranker(ModelReranker):
    """Scores pairs by the sum, over the query's vectors, of the best product with one of the document's."""

    @torch.inference_mode()
    def library_scores(self, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
        """Each distinct text is encoded once."""
        first, second = list(dict.fromkeys(queries)), list(dict.fromkeys(documents))
        query_of = dict(zip(first, self.model.encode_query(first, show_progress_bar=False), strict=True))
        document_of = dict(zip(second, self.model.encode_document(second, show_progress_bar=False), strict=True))
        similarities = self.model.similarity_pairwise(
            [query_of[text] for text in queries], [document_of[text] for text in documents]
        )
        scores: np.ndarray = similarities.float().cpu().numpy()
        return scores

    def description(self) -> list[Any]:
        """Modules, tokenizer, prompts, similarity, length."""
        modules: list[Any] = [(type(part).__name__, getattr(part, "get_config_dict", dict)()) for part in self.model]
        tokenizer = tokenizer_settings(self.model.tokenizer.backend_tokenizer)
        return [modules, tokenizer, self.model.prompts, self.model.similarity_fn_name, self.model.max_seq_length]


def colbert(path: str, max_length: int | None, device: str | None = None) -> MultiVectorReranker:
    """A multi-vector encoder from a local folder or a hub id; raises as :func:`loading_model` does."""
    with loading_model("colbert", "multi-vector encoder", path), whole_weights(UNUSED), _said() as records:
        loaded = MultiVectorEncoder(path, device=device, model_kwargs={"dtype": torch.float32})
        check_positions(loaded, path)
        loaded.encode_document(PROBES, show_progress_bar=False)
    if any("randomly-initialised" in record.getMessage() for record in records):
        raise DataError(path, "is not a multi-vector encoder: it has no projection of its token vectors")
    if max_length is not None:
        loaded.max_seq_length = max_length
    return MultiVectorReranker(f"colbert:{path}", loaded)


@contextmanager
def _said() -> Iterator[list[logging.LogRecord]]:
    """What the library says while it loads: of a model without a projection it makes a random one, and says so in a
    log line only."""
    library, handler = logging.getLogger(MultiVectorEncoder.__module__), BufferingHandler(sys.maxsize)
    before = library.level, library.propagate
    library.setLevel(logging.INFO)
    library.propagate = False
    library.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        library.removeHandler(handler)
        library.setLevel(before[0])
        library.propagate = before[1]
