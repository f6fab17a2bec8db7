"""Two encoders as one: their vectors side by side, so that one index and one inner product score by both."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

import numpy as np

from retrokit import encoders, similarities
from retrokit.encoders.base import Encoder, Item
from retrokit.encoders.views import EncoderView
from retrokit.errors import UsageError
from retrokit.similarities.base import Role


class JointEncoder(EncoderView):
    """``[√(1−weight)·a, √weight·b]`` of embeddings of length 1, so that the cosine of two texts is ``(1−weight)·cos_a +
    weight·cos_b``. What else is asked of it, such as how many tokens count, it says of ``a``."""

    def __init__(self, a: Encoder, b: Encoder, weight: float) -> None:
        super().__init__(a)
        self._parts = ((a, 1 - weight), (b, weight))
        self.similarity = similarities.registry.create("cosine")
        self.had_normalize = False

    @property
    def dimension(self) -> int:
        return sum(part.dimension for part, _ in self._parts)

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        sides = []
        for part, share in self._parts:
            made = part.embed(items, role, precision).astype(np.float64)
            lengths = np.linalg.norm(made, axis=1, keepdims=True)
            sides.append(math.sqrt(share) * made / np.maximum(lengths, np.finfo(np.float32).tiny))
        return np.concatenate(sides, axis=1).astype(np.float32)

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        first, second = (part.cut(items, role) for part, _ in self._parts)
        return None if first is None or second is None else first | second

    def fingerprint(self) -> str:
        parts = [(part.fingerprint(), share) for part, share in self._parts]
        return hashlib.sha256(f"joint {parts}".encode()).hexdigest()

    def code(self) -> Mapping[str, str] | None:
        codes = [Encoder.code(self), *(part.code() for part, _ in self._parts)]
        known = [code for code in codes if code is not None]
        if len(known) < len(codes):
            return None
        return {f"{place} {name}": value for place, code in enumerate(known) for name, value in code.items()}

    def settle(self) -> None:
        for part, _ in self._parts:
            part.settle()

    def in_chunks(self) -> None:
        return None

    use_with, batches = Encoder.use_with, Encoder.batches
    with_tokens, with_layers, to_train = Encoder.with_tokens, Encoder.with_layers, Encoder.to_train


def joint(a: str, b: str, weight: float, device: str | None = None) -> JointEncoder:
    """The encoders ``a`` and ``b`` as one. Raises :class:`UsageError` where they are the same, or one has several
    embeddings of a document."""
    made = [encoders.registry.create(spec, device=device) for spec in (a, b)]
    if made[0].spec == made[1].spec:
        raise UsageError(f"joint: a and b are both {made[0].spec}")
    for part in made:
        if part.in_chunks() is not None:
            raise UsageError(f"joint: {part.spec} has several embeddings of a document; leave its chunks out")
    return JointEncoder(made[0], made[1], weight)
