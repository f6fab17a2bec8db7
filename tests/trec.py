"""How trec_eval orders the documents of a run."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from retrokit.data.trec import read_judgements


def trec_order(scores: Mapping[str, float]) -> list[str]:
    """The documents by score in single precision, the highest first, then by descending id."""
    return sorted(scores, key=lambda document: (np.float32(scores[document]), document), reverse=True)


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Query id → document id → grade."""
    qrels: dict[str, dict[str, int]] = {}
    for _, query_id, document_id, grade in read_judgements(path):
        qrels.setdefault(query_id, {})[document_id] = grade
    return qrels
