"""The known positives of training data, written out by hand."""

from collections.abc import Iterable, Mapping

import numpy as np

from retrokit.data.training_rows import pair_codes, text_id


def codes(known: Mapping[str, Iterable[str]]) -> np.ndarray:
    """The sorted codes int64 of each anchor with its positives."""
    pairs = [(text_id(anchor), text_id(text)) for anchor, texts in known.items() for text in texts]
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return np.unique(pair_codes(array[:, 0], array[:, 1]))
