"""Crops and dropout: training pairs from a text's own chunks (CROP 3.1, A.1), and the splitters that cut sentences.

A chunk is N consecutive sentences, none too short or too long. A crop pair is two different chunks of a text, which may
overlap. A dropout pair (SimCSE) is one chunk twice, for an encoder that drops different units each time. Both take the
texts with two different chunks, so that they compare on the same texts.

Every draw is a function of the seed, the epoch, the text's running number and the number of the draw, so a training
loop draws at random access what a file would hold, and a resumed run sees the same.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Protocol

from retrokit.augmentation import draws
from retrokit.core.errors import UsageError
from retrokit.core.registry import Entry, Param, Registry
from retrokit.core.settings import Settings, setting

if TYPE_CHECKING:  # a help page needs no reader of texts
    from retrokit.augmentation.texts import Counts, Texts

_HERE = "retrokit.augmentation.crops"
# sentencex takes time that grows with the square of a text's quotes and brackets; longer texts go to it in pieces
_PIECE = 20_000
_SHORT = 30
"""Characters of the shortest sentence of a short text."""


class Splitter(Protocol):
    """Cuts a text into sentences and joins neighbouring ones."""

    def cut(self, text: str) -> list[str]:
        """The sentences in order; they may be empty, and may carry white space at their ends."""

    def join(self, sentences: Sequence[str]) -> str:
        """One text of sentences that follow each other and carry no white space at their ends."""


@dataclass(frozen=True)
class Period:
    """Cut at every "." and join by ". ": a joined text ends without a period.

    >>> Period().cut("One. Two, e.g. this")
    ['One', ' Two, e', 'g', ' this']
    """

    def cut(self, text: str) -> list[str]:
        """The parts between the periods."""
        return text.split(".")

    def join(self, sentences: Sequence[str]) -> str:
        """The sentences with a period and a space between."""
        return ". ".join(sentences)


@dataclass(frozen=True)
class Multilingual:
    """Cut as sentencex does for ``language`` (or its nearest relative, in the last resort English), and join by a
    space, but for after a full-width mark (。！？」); sentences keep their end marks.

    >>> Multilingual("en").cut("Dr. Smith took 3.5 mg, cf. Fig. 2. Why? Nobody knows.")
    ['Dr. Smith took 3.5 mg, cf. Fig. 2. ', 'Why? ', 'Nobody knows.']
    """

    language: str

    def cut(self, text: str) -> list[str]:
        """The sentences of sentencex; one that crosses a multiple of 20,000 characters is cut at a space."""
        from sentencex import segment

        sentences: list[str] = []
        for piece in _pieces(text):
            sentences += segment(self.language, piece)
        return sentences

    def join(self, sentences: Sequence[str]) -> str:
        """The sentences with a space between where their script has one."""
        joined = ""
        for sentence in sentences:
            if joined and not _ends_wide(joined):
                joined += " "
            joined += sentence
        return joined


def _pieces(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PIECE:
        end = text.rfind(" ", start, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end
    yield text[start:]


def _ends_wide(sentence: str) -> bool:
    last = sentence[-1:] or " "
    return unicodedata.category(last).startswith("P") and unicodedata.east_asian_width(last) in "FW"


_LANGUAGE = Param("language", "en", pattern=r"[a-z]{2,3}(-[a-z0-9]+)*", help="a language code such as en, de or zh")
splitters = Registry(
    "splitter",
    "retrokit.splitters",
    [
        Entry("period", "cut at every period, as the CROP paper does", f"{_HERE}:Period"),
        Entry(
            *("multilingual", "real sentences, by the rules of a language", f"{_HERE}:Multilingual", (_LANGUAGE,)),
            positional="language",
        ),
    ],
)


@dataclass(frozen=True)
class CropSettings(Settings):
    """How chunks are cut: ``sentences`` (the paper's t) of ``min_chars`` to ``max_chars`` characters each, both
    included, as ``splitter`` cuts them. Raises :class:`UsageError`: a number out of range, or an unknown splitter."""

    sentences: int = setting(2, "Consecutive sentences of a chunk.", minimum=1)
    min_chars: int = setting(100, "Shorter sentences are left out.", minimum=1)
    max_chars: int = setting(250, "Longer sentences are left out.", minimum=1)
    splitter: str = setting(
        "period", "period (the paper's), or multilingual, or multilingual:de: real sentences.", names="splitters"
    )
    keep_short: bool = setting(
        False, f"Cut texts with too few chunks into sentences from {_SHORT} characters; CROP 3.1 drops such texts."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_chars < self.min_chars:
            raise UsageError(f"no sentence has {self.min_chars} or more and {self.max_chars} or fewer characters")
        _ = self._splitter

    @cached_property
    def _splitter(self) -> Splitter:
        return splitters.create(self.splitter)

    def chunks(self, text: str) -> tuple[str, ...]:
        """The different chunks of ``text``, in order. A sentence's length counts the space that it was cut with, as in
        the code of CROP's authors.

        >>> CropSettings(min_chars=3, max_chars=5).chunks("One. Two. a. Three. Four. One. Two.")
        ('One. Two', 'Two. Four', 'Four. One')
        """
        sentences = []
        for sentence in self._splitter.cut(text):
            if self.min_chars <= len(sentence) <= self.max_chars and not sentence.isspace():
                sentences.append(sentence.strip())
        starts = range(len(sentences) - self.sentences + 1)
        joined = [self._splitter.join(sentences[start : start + self.sentences]) for start in starts]
        chunks = tuple(dict.fromkeys(joined))
        if self.keep_short and len(chunks) < 2:
            return self._for_short_texts.chunks(text)
        return chunks

    @cached_property
    def _for_short_texts(self) -> "CropSettings":
        return replace(self, sentences=1, min_chars=min(_SHORT, self.min_chars), keep_short=False)

    def why_too_few(self, text: str) -> str:
        """Why ``text`` has no two different chunks."""
        if self.keep_short:
            return self._for_short_texts.why_too_few(text)
        if not text.strip():
            return "empty text"
        sentences = "1 sentence" if self.sentences == 1 else f"{self.sentences} sentences"
        return f"too few chunks of {sentences} of {self.min_chars} to {self.max_chars} characters"


def crops_of(chunks: Sequence[str], count: int, seed: int, epoch: int, index: int) -> Iterator[tuple[str, str]]:
    """``count`` pairs (anchor, positive) that the text of running number ``index`` gives in ``epoch``.

    ``chunks`` are at least two, all different. Every ordered pair of different chunks is equally likely. The draws take
    each unordered pair once before any comes again; then each comes the other way round.
    """
    for turn, rank in _in_rounds(len(chunks) * (len(chunks) - 1) // 2, count, seed, epoch, index):
        # rank counts the unordered pairs as (0, 1), (0, 2), (1, 2), (0, 3)…
        later = (1 + isqrt(8 * rank + 1)) // 2
        earlier = rank - later * (later - 1) // 2
        # every second round turns what the round before it gave
        is_turned = (draws.bits(seed, epoch, index, "turned", turn // 2, rank) ^ turn) & 1
        yield (chunks[later], chunks[earlier]) if is_turned else (chunks[earlier], chunks[later])


def twins_of(chunks: Sequence[str], count: int, seed: int, epoch: int, index: int) -> Iterator[tuple[str, str]]:
    """``count`` pairs of a chunk with itself; each of ``chunks`` comes once before any comes again."""
    for _, number in _in_rounds(len(chunks), count, seed, epoch, index):
        yield chunks[number], chunks[number]


def _in_rounds(size: int, count: int, *key: int) -> Iterator[tuple[int, int]]:
    """``count`` draws (round, number below ``size``); a round takes each number once, in an order of its own."""
    for turn in range(-(-count // size)):
        for number in draws.distinct(size, min(size, count - turn * size), *key, turn):
            yield turn, number


def crop_pairs(
    texts: "Texts",
    settings: CropSettings,
    per_text: int = 1,
    epochs: int = 1,
    seed: int = 0,
    counts: "Counts | None" = None,
    *,
    twice: bool = False,
) -> Iterator[dict[str, str]]:
    """Rows ``anchor``, ``positive`` and, where the text has one, ``id``, as a stream: one epoch after another, in the
    texts' order, ``per_text`` pairs each; of two chunks, or with ``twice`` of one chunk and itself.

    A text's running number counts those that are left out too. What the texts gave is added to ``counts``.

    Raises:
        UsageError: several epochs of a pipe.
        DataError: a line that is no text, or no text with enough chunks (the message counts them by reason).
    """
    from retrokit.augmentation.texts import Counts, pair_row

    counts = Counts() if counts is None else counts
    pairs_of = twins_of if twice else crops_of
    texts.check(epochs)
    for epoch in range(epochs):
        for index, text in enumerate(texts):
            chunks = settings.chunks(text.text)
            counts.texts += not epoch
            if len(chunks) < 2:
                if not epoch:
                    counts.dropped[settings.why_too_few(text.text)] += 1
                continue
            for anchor, positive in pairs_of(chunks, per_text, seed, epoch, index):
                counts.pairs += 1
                yield pair_row(anchor, positive, text.id)
        counts.check_used(texts.name, "other sentence counts, lengths or another splitter may keep more")
