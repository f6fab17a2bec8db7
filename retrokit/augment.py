"""Training data without labels: what ``retrokit augment`` does, each way a function that reads and writes JSON lines.

A path may end in ``.gz``; ``-`` is standard input or output. All return counts. An unfinished output leaves no file.
"""

from __future__ import annotations

from typing import Any

from retrokit.augmentation.crops import CropSettings, crop_pairs
from retrokit.augmentation.edits.files import write_near_misses as near_misses
from retrokit.augmentation.masking import Masker, masked_rows
from retrokit.augmentation.mixing import mix
from retrokit.augmentation.settings import MaskSettings, PairSettings
from retrokit.augmentation.splitting import split_pairs
from retrokit.augmentation.texts import Counts, Rows, Texts
from retrokit.core.outputs import check_settings
from retrokit.core.settings import taking
from retrokit.data.jsonl import write_jsonl
from retrokit.data.labelled import write_split as split
from retrokit.encoders import registry as encoders

__all__ = [
    "CropSettings",
    "PairSettings",
    "crops",
    "dropout",
    "mask",
    "mix",
    "near_misses",
    "split",
    "split_pairs",
]


def _pairs(source: str, output: str, crops: CropSettings, more: dict[str, Any], twice: bool = False) -> Counts:
    settings = PairSettings(source, output, **more)
    check_settings(settings)
    counts, texts = Counts(), Texts(source, settings.field)
    rows = crop_pairs(texts, crops, settings.per_text, settings.epochs, settings.seed, counts, twice=twice)
    write_jsonl(output, rows)
    return counts


def crops(source: str, output: str, settings: CropSettings = CropSettings(), **more: Any) -> Counts:
    """Write pairs of two chunks of the same text (CROP 3.1); ``more`` as in :class:`PairSettings`."""
    return _pairs(source, output, settings, more)


def dropout(source: str, output: str, settings: CropSettings = CropSettings(), **more: Any) -> Counts:
    """Write pairs of a chunk with itself, for an encoder whose dropout differs (SimCSE, CROP 3.1); ``more`` as
    in :class:`PairSettings`."""
    return _pairs(source, output, settings, more, twice=True)


@taking(MaskSettings)
def mask(settings: MaskSettings) -> Counts:
    """Write pairs with a ``fraction`` of the tokens of ``encoder`` masked in both texts; of a text that is no pair, two
    maskings make one (CROP A.1)."""
    check_settings(settings)
    tokenizer = encoders.create(settings.encoder, device="cpu").with_tokens().tokenizer
    counts, masker = Counts(), Masker(tokenizer, settings.fraction)
    rows = masked_rows(Rows(settings.source), masker, settings.field, settings.epochs, settings.seed, counts)
    write_jsonl(settings.output, rows)
    return counts
