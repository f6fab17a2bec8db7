"""What has to be mined: distinct anchors and documents, and which belong together."""

import hashlib
from collections import Counter
from collections.abc import Sequence

from retrokit.augmentation.mining.settings import MiningSettings
from retrokit.core.errors import DataError
from retrokit.data.training_rows import Pair


class TextSet:
    """Distinct texts, each known by its position; those that differ in white space only are the same."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._position: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, text: str) -> int:
        position = self._position.setdefault(_key(text), len(self.texts))
        if position == len(self.texts):
            self.texts.append(text)
        return position

    def find(self, text: str) -> int | None:
        return self._position.get(_key(text))


def _key(text: str) -> bytes:
    return hashlib.blake2b(" ".join(text.split()).encode(), digest_size=16).digest()


class MiningWork:
    """Anchors, documents and which belong together, as positions; the first ``candidates`` documents are searched."""

    def __init__(self, pairs: Sequence[Pair], candidates: Sequence[str] | None, settings: MiningSettings) -> None:
        self.pairs = pairs
        self.anchors, self.documents = TextSet(), TextSet()
        self.counts: Counter[str] = Counter(rows=len(pairs))
        own = (text for pair in pairs for text in (pair.positive, *pair.negatives))
        for text in own if candidates is None else candidates:
            before = len(self.documents)
            if not text.strip():
                self.counts["candidates_without_text"] += 1
            elif self.documents.add(text) < before:
                self.counts["candidates_repeated"] += 1
        self.candidates = len(self.documents)
        if not self.candidates:
            raise DataError("mining", "there are no candidates: the corpus holds no text")
        self.anchor_of = [self.anchors.add(pair.anchor) for pair in pairs]
        self.positive_of = [self.documents.add(pair.positive) for pair in pairs]
        self.excluded: list[set[int]] = [set() for _ in self.anchors.texts]
        self.own: list[dict[int, None]] = [{} for _ in self.anchors.texts]
        for pair, anchor, positive in zip(pairs, self.anchor_of, self.positive_of, strict=True):
            excluded = [positive, self.documents.find(pair.anchor)]
            self.own[anchor][positive] = None
            if settings.keep_negatives and settings.scores:
                self.own[anchor].update(dict.fromkeys(self.documents.add(text) for text in pair.negatives))
            if settings.keep_negatives:
                excluded += [self.documents.find(text) for text in pair.negatives]
            self.excluded[anchor].update(place for place in excluded if place is not None and place < self.candidates)
        outside = {position for position in self.positive_of if position >= self.candidates}
        self.counts.update(anchors=len(self.anchors), candidates=self.candidates, positives_not_candidates=len(outside))
