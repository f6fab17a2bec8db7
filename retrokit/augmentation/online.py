"""Augmentation while training: fresh pairs of every text in every epoch, without a file (CROP 3.1, A.1).

What a text gives is a function of the seed, the epoch and the text's running number, so that a resumed run sees
the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from retrokit import augmentation
from retrokit.augmentation import draws
from retrokit.augmentation.crops import CropSettings, crops_of, twins_of
from retrokit.augmentation.masking import check_fraction, mask_ids, special_ids
from retrokit.augmentation.texts import Counts
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.pairs import Source, part_of
from retrokit.data.training_rows import Unlabelled
from retrokit.encoders.base import Encoder


class Augmentation(Protocol):
    """Makes pairs of texts while training.

    Attributes:
        spec: its name, with parameters.
        needs_dropout: whether anchor and positive are the same text, so that only the encoder's dropout differs.
        fraction: the share of the tokens of both that is masked.
    """

    spec: str
    needs_dropout: bool
    fraction: float

    def problem(self, text: str) -> str | None:
        """Why the text can give no pair; ``None`` if it can."""

    def pair(self, text: str, seed: int, epoch: int, index: int) -> tuple[str, str]:
        """Anchor and positive of the text whose running number is ``index``."""


class Crops:
    """Two different chunks of a text, those that :func:`~retrokit.augmentation.crops.crop_pairs` draws first."""

    spec = ""
    needs_dropout = False
    fraction = 0.0
    _pairs_of = staticmethod(crops_of)

    def __init__(self, **settings: Any) -> None:
        self.settings = CropSettings(**settings)

    def problem(self, text: str) -> str | None:
        """Why the text has too few chunks."""
        return self.settings.why_too_few(text) if len(self.settings.chunks(text)) < 2 else None

    def pair(self, text: str, seed: int, epoch: int, index: int) -> tuple[str, str]:
        """The first pair of that epoch."""
        return next(self._pairs_of(self.settings.chunks(text), 1, seed, epoch, index))


class Dropout(Crops):
    """One chunk of a text, twice."""

    needs_dropout = True
    _pairs_of = staticmethod(twins_of)


class Mask:
    """The whole text twice, masked differently; or, on top of another augmentation, only the masking."""

    spec = ""
    needs_dropout = False

    def __init__(self, fraction: float) -> None:
        check_fraction(fraction)
        self.fraction = fraction

    def problem(self, text: str) -> str | None:
        """Only an empty text gives no pair."""
        return None if text.strip() else "empty text"

    def pair(self, text: str, seed: int, epoch: int, index: int) -> tuple[str, str]:
        """The text twice."""
        return text, text


class _Masked:
    """Pairs of one augmentation under the masking of another."""

    def __init__(self, pairs: Augmentation, mask: Augmentation) -> None:
        self.spec = f"{pairs.spec} {mask.spec}"
        self.needs_dropout = False  # two passes differ by their masks already
        self.fraction = mask.fraction
        self.problem, self.pair = pairs.problem, pairs.pair


def combined(specs: Sequence[str]) -> Augmentation:
    """The augmentation of one spec, or of two of which one masks.

    Raises:
        UsageError: a wrong spec, or augmentations that exclude each other.
    """
    augmentations: list[Augmentation] = [augmentation.registry.create(spec) for spec in specs]
    pairs = [augmentation for augmentation in augmentations if not augmentation.fraction]
    masks = [augmentation for augmentation in augmentations if augmentation.fraction]
    if len(pairs) > 1 or len(masks) > 1:
        raise UsageError(f"`augment=`: give one way to make pairs and at most one mask, not {', '.join(specs)}")
    return _Masked(pairs[0], masks[0]) if pairs and masks else augmentations[0]


def usable_part(source: Source, augmentation: Augmentation) -> Source:
    """The source with the texts that can give a pair; a notice counts those that cannot by reason.

    Raises:
        DataError: none can.
    """
    texts = [record.text for record in source.records if isinstance(record, Unlabelled)]
    problems = [augmentation.problem(text) for text in texts]
    counts = Counts(len(texts))
    counts.dropped.update(problem for problem in problems if problem is not None)
    counts.check_used(source.name, "other sentence counts, lengths or another splitter may keep more")
    counts.pairs = counts.used
    notice(f"{source.name}, in every epoch: {counts.summary()}")
    usable = part_of(source, np.array([problem is None for problem in problems]))
    return replace(usable, counts={**usable.counts, "texts_without_pair": counts.dropped.total()})


class Masking:
    """Replaces a share of a batch's tokens by the mask token, special tokens and padding excepted (CROP, A.1)."""

    def __init__(self, tokenizer: Any, fraction: float, seed: int) -> None:
        self.mask_id = tokenizer.mask_token_id
        self.special = special_ids(tokenizer)
        self.fraction, self.seed = fraction, seed

    def __call__(self, features: Mapping[str, Tensor], key: tuple[int | str, ...]) -> Tensor:
        """Token ids ``[b, n]`` with masks; of the same key the same."""
        generator = torch.Generator().manual_seed(draws.bits(self.seed, *key) >> 1)
        ids, attention = features["input_ids"], features["attention_mask"]
        return mask_ids(ids, attention, self.special, self.fraction, self.mask_id, generator)


def masking_of(augmentation: Augmentation, encoder: Encoder, seed: int) -> Masking | None:
    """The masking that the augmentation asks for, with the encoder's mask token; ``None`` if it asks for none.

    Raises:
        UsageError: the encoder has no mask token.
    """
    if not augmentation.fraction:
        return None
    tokenizer = encoder.with_tokens().tokenizer
    if getattr(tokenizer, "mask_token_id", None) is None:
        raise UsageError(f"`augment=` {augmentation.spec}: the tokenizer of {encoder.spec} has no mask token")
    return Masking(tokenizer, augmentation.fraction, seed)
