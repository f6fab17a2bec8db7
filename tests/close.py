"""Comparing floats by the arithmetic that made them, and not by digits that one processor happens to give."""

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

BF16_UNIT = 2**16
"""A unit in the last place of bf16, in those of float32."""

LEAST_P = 1e-6
"""The least p of a drawn sample, about five standard deviations: with other seeds, too, chance does not go below it."""


def assert_rounded(
    actual: ArrayLike, expected: ArrayLike, units: float = 64, dtype: type = np.float32, size: float = 0.0
) -> None:
    """Check that two arrays differ by rounding alone: by ``units`` units in the last place of the largest value.

    Where sums may cancel, ``size`` is that of their terms: a cosine of 0 is a sum of terms up to 1.
    """
    sides = [side.detach() if isinstance(side, Tensor) else side for side in (actual, expected)]
    actual, expected = (np.asarray(side, dtype=np.float64) for side in sides)
    size = max(size, *(float(np.abs(side[np.isfinite(side)]).max(initial=0.0)) for side in (actual, expected)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=units * np.finfo(dtype).eps * size)
