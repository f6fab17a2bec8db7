"""What ``--sim auto`` stands for: the similarity that a probe of the encoder predicts to train best (MAG 4.5)."""

from __future__ import annotations

from typing import Any

from retrokit.encoders.base import Encoder
from retrokit.notices import notice
from retrokit.probing.fisher import PAIRS, measure
from retrokit.training.batches import TrainingSet
from retrokit.training.preflight import texts_of


def choose_similarity(encoder: Encoder, data: TrainingSet, seed: int) -> tuple[str, dict[str, Any]]:
    """The similarity for this encoder and a sample of the training pairs, and the findings; says what and why.

    Raises:
        DataError: too few pairs.
    """
    pairs = list(dict.fromkeys(zip(*texts_of(data, PAIRS, seed), strict=True)))
    found = measure(encoder, pairs, "the training data", seed=seed)
    notice(f"`sim` auto: {found.prediction.choice}. {found.verdict}. {found.method}")
    return found.prediction.choice, {"kappa": found.method, **vars(found.prediction)}
