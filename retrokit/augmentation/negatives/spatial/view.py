"""What a rule of relation answers."""

from __future__ import annotations

from collections.abc import Callable

from retrokit.augmentation.negatives.rules import Named
from retrokit.augmentation.negatives.view import View

Rule = Callable[[View, int], "Named | None"]
