"""Examples held out of training data by their anchors: wherever an anchor stands, it is in the same part."""

from collections.abc import Sequence

import numpy as np

from retrokit.core.errors import DataError
from retrokit.data.images import content_of
from retrokit.data.pairs import Source, part_of
from retrokit.data.records import digest64
from retrokit.data.training_rows import normal_form, texts_of_record


def hold_out(
    sources: Sequence[Source], size: float, seed: int = 0, most: int | None = None
) -> tuple[list[Source], list[Source]]:
    """The sources without the examples of some anchors, and those examples; a source that has nothing in
    one of the parts is not in it.

    An anchor is held out by its text and the seed alone: where its hash is in the lowest ``size`` of all hashes, so
    that the same text, in whatever case and spacing, is in one part in all sources. ``size`` is a share of the anchors;
    from 1 on, their number, which is met about, as is ``most``.

    Raises:
        DataError: nothing is left in one of the parts.
    """
    places = [np.array([_place(texts_of_record(record)[0], seed) for record in source.records]) for source in sources]
    count = len(np.unique(np.concatenate(places)))
    share = min(size if size < 1 else size / count, 1.0 if most is None else most / count)
    chosen = [mine < share for mine in places]
    for part, is_left in (("hold out", any(map(np.any, chosen))), ("train on", not all(map(np.all, chosen)))):
        if not is_left:
            names = ", ".join(source.spec for source in sources)
            raise DataError(names, f"a holdout of {size:g} leaves nothing to {part}; anchors: {count}")
    parts = list(zip(sources, chosen, strict=True))
    held_out = [part_of(source, mine) for source, mine in parts if mine.any()]
    return [part_of(source, ~mine) for source, mine in parts if not mine.all()], held_out


def _place(anchor: str, seed: int) -> float:
    """Where an anchor stands among all, from 0 to below 1."""
    return (digest64(b"%d " % seed + content_of(normal_form(anchor))) >> 11) / 2**53
