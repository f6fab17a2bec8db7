"""Crops and dropout: training pairs made of a text's own chunks (CROP, sections 3.1 and A.1).

A text is split into sentences; those under 100 or over 250 characters (counted without white space at the ends) are
left out; a chunk is ``t`` = 2 consecutive ones of the sentences that are left. A crop pair is two different chunks of
a text, which may overlap; a dropout pair (SimCSE) is one chunk twice, for an encoder in training mode that drops
different units each time. A text that has too few chunks gives no pair, and is counted with the reason.

What is drawn is a function of the seed, the epoch, the text's running number and the number of the draw alone. So a
training loop can draw at random access (:func:`pair`, :func:`chunk`) what a file would hold (:func:`crop_pairs`,
:func:`dropout_pairs`), and a resumed run sees what the interrupted one would have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import isqrt

from retrokit.augmentation import draws
from retrokit.augmentation.chunks import CropSettings
from retrokit.augmentation.texts import Counts, Text, Texts, check_number, pair_row

# (chunks, how many pairs, seed, epoch, running number of the text) → the pairs
_Draw = Callable[[Sequence[str], int, int, int, int], Iterator[tuple[str, str]]]


def pair(chunks: Sequence[str], seed: int, epoch: int, index: int, draw: int = 0) -> tuple[str, str]:
    """The pair (anchor, positive) that the text of running number ``index`` gives in ``epoch``.

    ``chunks`` are the text's chunks, at least two, all different. Every ordered pair of different chunks is equally
    likely. The draws 0, 1, 2… of an epoch take each unordered pair once before any comes again; then each comes the
    other way round. Takes time that grows with ``draw``.

    Raises:
        ValueError: fewer than two chunks.
    """
    return next(islice(_pairs(chunks, draw + 1, seed, epoch, index), draw, None))


def chunk(chunks: Sequence[str], seed: int, epoch: int, index: int, draw: int = 0) -> str:
    """The chunk that the text of running number ``index`` gives in ``epoch``; the draws of an epoch take each chunk
    once before any comes again.

    Raises:
        ValueError: no chunk.
    """
    return next(islice(_chunks(chunks, draw + 1, seed, epoch, index), draw, None))


def _pairs(chunks: Sequence[str], count: int, seed: int, epoch: int, index: int) -> Iterator[tuple[str, str]]:
    if len(chunks) < 2:
        raise ValueError(f"a pair takes two chunks, not {len(chunks)}")
    for turn, rank in _in_rounds(len(chunks) * (len(chunks) - 1) // 2, count, seed, epoch, index):
        # rank counts the unordered pairs as (0, 1), (0, 2), (1, 2), (0, 3)…
        later = (1 + isqrt(8 * rank + 1)) // 2
        earlier = rank - later * (later - 1) // 2
        # every second round turns what the round before it gave
        is_turned = (draws.bits(seed, epoch, index, "turned", turn // 2, rank) ^ turn) & 1
        yield (chunks[later], chunks[earlier]) if is_turned else (chunks[earlier], chunks[later])


def _chunks(chunks: Sequence[str], count: int, seed: int, epoch: int, index: int) -> Iterator[str]:
    if not chunks:
        raise ValueError("there is no chunk to draw")
    for _, place in _in_rounds(len(chunks), count, seed, epoch, index):
        yield chunks[place]


def _in_rounds(size: int, count: int, *key: int) -> Iterator[tuple[int, int]]:
    """``count`` draws (round, number below ``size``); a round takes each number once, in an order of its own."""
    for turn in range(-(-count // size)):
        for number in draws.distinct(size, min(size, count - turn * size), *key, turn):
            yield turn, number


# --- files


def croppable(
    texts: Texts, settings: CropSettings, counts: Counts, needed: int = 2
) -> Iterator[tuple[int, Text, tuple[str, ...]]]:
    """The texts that have ``needed`` different chunks or more: running number, text and chunks of each, as a stream.

    The running number counts all texts, also those that are left out: what a text gives does not depend on the
    settings' verdict on those before it. Texts read and left out are added to ``counts``.

    Raises:
        DataError: a line that is no text, or no text with enough chunks (the message counts them by reason).
    """
    for index, text in enumerate(texts):
        counts.texts += 1
        chunks = settings.chunks(text.text)
        if len(chunks) >= needed:
            yield index, text, chunks
        else:
            counts.dropped[settings.why_too_few(text.text)] += 1
    counts.check_used(texts.name, "other sentence counts, lengths or another splitter may keep more")


def crop_pairs(
    texts: Texts,
    settings: CropSettings,
    per_text: int = 1,
    epochs: int = 1,
    seed: int = 0,
    counts: Counts | None = None,
    *,
    twice: bool = False,
) -> Iterator[dict[str, str]]:
    """Rows ``anchor``, ``positive`` and, where the text has one, ``id``, as a stream: one epoch after another, in the
    texts' order, ``per_text`` pairs each; of two chunks, or with ``twice`` of one chunk and itself.

    For several epochs ``texts`` is read several times (a pipe's are kept in a temporary file). What becomes of the
    texts is added to ``counts``.

    Raises:
        UsageError: ``per_text`` or ``epochs`` is below 1.
        DataError: as for :func:`croppable`, while the rows are read.
    """
    check_number("pairs per text", per_text)
    check_number("epochs", epochs)
    counted = Counts() if counts is None else counts
    draw: _Draw = _twice if twice else _pairs

    def rows() -> Iterator[dict[str, str]]:
        if epochs > 1:
            texts.keep()
        for epoch in range(epochs):
            # a text counts once, in the first epoch
            for index, text, chunks in croppable(texts, settings, Counts() if epoch else counted, 1 if twice else 2):
                for anchor, positive in draw(chunks, per_text, seed, epoch, index):
                    counted.pairs += 1
                    yield pair_row(anchor, positive, text.id)

    return rows()


dropout_pairs = partial(crop_pairs, twice=True)
"""Rows as those of :func:`crop_pairs`, whose anchor and positive are one and the same chunk."""


def _twice(chunks: Sequence[str], count: int, seed: int, epoch: int, index: int) -> Iterator[tuple[str, str]]:
    return ((piece, piece) for piece in _chunks(chunks, count, seed, epoch, index))
