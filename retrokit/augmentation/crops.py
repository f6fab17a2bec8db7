"""Crops and dropout: training pairs made of a text's own chunks (CROP, sections 3.1 and A.1).

A crop pair is two different chunks of a text (:mod:`.chunks`), which may overlap. A dropout pair (SimCSE) is one chunk
twice, for an encoder in training mode that drops different units each time.

What is drawn is a function of the seed, the epoch, the text's running number and the number of the draw alone: a
training loop draws at random access what a file would hold, and a resumed run sees what the interrupted one would have.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import isqrt

from retrokit.augmentation import draws
from retrokit.augmentation.chunks import CropSettings
from retrokit.augmentation.texts import Counts, Texts, pair_row


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
    """``count`` pairs of a chunk with itself; each of ``chunks``, at least one, comes once before any comes again."""
    return ((chunks[place], chunks[place]) for _, place in _in_rounds(len(chunks), count, seed, epoch, index))


def _in_rounds(size: int, count: int, *key: int) -> Iterator[tuple[int, int]]:
    """``count`` draws (round, number below ``size``); a round takes each number once, in an order of its own."""
    for turn in range(-(-count // size)):
        for number in draws.distinct(size, min(size, count - turn * size), *key, turn):
            yield turn, number


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

    A text's running number counts those that are left out too. What the texts gave is added to ``counts``. For several
    epochs a pipe is copied into a temporary file.

    Raises:
        DataError: a line that is no text, or no text with enough chunks (the message counts them by reason).
    """
    counts = Counts() if counts is None else counts
    pairs_of = twins_of if twice else crops_of
    if epochs > 1:
        texts.keep()
    for epoch in range(epochs):
        for index, text in enumerate(texts):
            chunks = settings.chunks(text.text)
            counts.texts += not epoch
            if len(chunks) < 2 - twice:
                if not epoch:
                    counts.dropped[settings.why_too_few(text.text)] += 1
                continue
            for anchor, positive in pairs_of(chunks, per_text, seed, epoch, index):
                counts.pairs += 1
                yield pair_row(anchor, positive, text.id)
        counts.check_used(texts.name, "other sentence counts, lengths or another splitter may keep more")


dropout_pairs = partial(crop_pairs, twice=True)
"""Rows as those of :func:`crop_pairs`, whose anchor and positive are one and the same chunk."""
