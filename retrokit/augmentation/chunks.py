"""How a text is cut into chunks: N consecutive sentences, none too short or too long (CROP, section 3.1)."""

from dataclasses import dataclass
from functools import cached_property

from retrokit.augmentation.splitters import Splitter, registry
from retrokit.core.errors import UsageError
from retrokit.core.settings import Settings, setting


@dataclass(frozen=True)
class CropSettings(Settings):
    """How chunks are cut: ``sentences`` (the paper's t) of ``min_chars`` to ``max_chars`` characters each, both
    included, as ``splitter`` cuts them. Raises :class:`UsageError`: a number out of range, or an unknown splitter."""

    sentences: int = setting(2, "Consecutive sentences of a chunk.", minimum=1)
    min_chars: int = setting(100, "Shorter sentences are left out.", minimum=1)
    max_chars: int = setting(250, "Longer sentences are left out.", minimum=1)
    splitter: str = setting("period", "period (the paper's), or multilingual, or multilingual:de: real sentences.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_chars < self.min_chars:
            raise UsageError(f"no sentence has {self.min_chars} or more and {self.max_chars} or fewer characters")
        _ = self._splitter

    @cached_property
    def _splitter(self) -> Splitter:
        return registry.create(self.splitter)

    def chunks(self, text: str) -> tuple[str, ...]:
        """The different chunks of ``text``, in order.

        >>> CropSettings(min_chars=2, max_chars=4).chunks("One. Two. a. Three. Four. One. Two.")
        ('One. Two', 'Two. Four', 'Four. One')
        """
        low, high, size = self.min_chars, self.max_chars, self.sentences
        sentences = [piece for raw in self._splitter.cut(text) if low <= len(piece := raw.strip()) <= high]
        starts = range(len(sentences) - size + 1)
        return tuple(dict.fromkeys([self._splitter.join(sentences[i : i + size]) for i in starts]))

    def why_too_few(self, text: str) -> str:
        """Why ``text`` has no two different chunks, or none at all, in words; for a text that has too few."""
        lengths = [len(piece) for raw in self._splitter.cut(text) if (piece := raw.strip())]
        count = sum(self.min_chars <= length <= self.max_chars for length in lengths)
        wanted = f"{self.min_chars} to {self.max_chars} characters"
        if not lengths:
            return "empty text"
        if max(lengths) < self.min_chars:
            return f"every sentence under {self.min_chars} characters"
        if min(lengths) > self.max_chars:
            return f"every sentence over {self.max_chars} characters"
        if count == 0:
            return f"no sentence of {wanted}"
        if count < self.sentences:
            return f"fewer than {self.sentences} sentences of {wanted}"
        if count == self.sentences:
            return f"only one chunk ({self.sentences} sentence{'s' * (self.sentences > 1)} of {wanted})"
        return "all chunks the same"
