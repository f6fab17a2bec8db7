"""The loss of a verifier: rank an anchor's positive first, and tell it from its near-misses for all anchors alike.

The first is a cross-entropy over the anchor's candidates. It leaves open where scores of one anchor lie against those
of another, on which a threshold depends; so a verifier that yields logits also has a binary cross-entropy of positives
against the anchors' own negatives, or against the others where an anchor has none, both sides weighing the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

COSINE_SCALE = 20.0  # multiplies scores that are cosines; a logit is taken as it is


def verifier_loss(scores: Tensor, own: Tensor, learns_logits: bool) -> Tensor:
    """The loss, a scalar.

    Args:
        scores: of each anchor's candidates, float32 ``[n, k]``, its positive first; −∞ is padding.
        own: which are the anchor's own negatives, bool ``[n, k]``.
        learns_logits: whether the scores are logits, not cosines.

    >>> even = torch.zeros(2, 2)
    >>> round(verifier_loss(even, torch.tensor([[False, True]] * 2), learns_logits=False).item(), 4)
    0.6931
    """
    target = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    scaled = scores if learns_logits else COSINE_SCALE * scores
    ranking = nn.functional.cross_entropy(scaled, target)
    if not learns_logits:
        return ranking
    others = torch.isfinite(scores)
    others[:, 0] = False
    negative = own if bool(own.any()) else others
    return ranking + _binary(scores[:, 0], 1.0) + _binary(scores[negative], 0.0)


def _binary(logits: Tensor, label: float) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))
