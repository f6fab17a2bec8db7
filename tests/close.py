"""Comparing floats by the arithmetic that made them, and not by digits that one processor happens to give."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def assert_rounded(actual: ArrayLike, expected: ArrayLike, units: float = 64, dtype: type = np.float32) -> None:
    """Check that two arrays differ by rounding alone: by ``units`` units in the last place of the largest value."""
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    size = max((float(np.abs(side[np.isfinite(side)]).max(initial=0.0)) for side in (actual, expected)), default=0.0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=units * np.finfo(dtype).eps * size)
