"""How trec_eval orders the documents of a run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def trec_order(scores: Mapping[str, float]) -> list[str]:
    """The documents by score in single precision, the highest first, then by descending id."""
    return sorted(scores, key=lambda document: (np.float32(scores[document]), document), reverse=True)
