"""Training data without labels: what ``retrokit augment`` does, each way a function that reads and writes JSON lines.

A path may end in ``.gz``; ``-`` is standard input or output. All return what became of the rows. Nothing is left of an
output that was not finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from retrokit.augmentation.crops import CropSettings, crop_pairs, dropout_pairs
from retrokit.augmentation.masking import Masker, masked_rows
from retrokit.augmentation.mining.mine import mine
from retrokit.augmentation.mining.settings import MiningSettings
from retrokit.augmentation.mixing import mix
from retrokit.augmentation.negatives.files import write_near_misses as negatives
from retrokit.augmentation.texts import Counts, Rows, Texts
from retrokit.data.jsonl import write_jsonl
from retrokit.data.labelled import write_split as split
from retrokit.data.outputs import check_file
from retrokit.encoders import registry as encoders

__all__ = ["CropSettings", "MiningSettings", "crops", "dropout", "mask", "mine", "mix", "negatives", "split"]


@dataclass(frozen=True)
class _Pairs:
    """Writes ``per_text`` pairs of each text in each of ``epochs``."""

    made: Callable[..., Iterator[dict[str, Any]]]

    def __call__(
        self,
        source: str,
        output: str,
        settings: CropSettings = CropSettings(),
        per_text: int = 1,
        epochs: int = 1,
        field: str = "text",
        seed: int = 0,
    ) -> Counts:
        check_file(output, [source])
        counts = Counts()
        write_jsonl(output, self.made(Texts(source, field), settings, per_text, epochs, seed, counts))
        return counts


crops = _Pairs(crop_pairs)
"""Write pairs of two chunks of the same text (CROP 3.1)."""
dropout = _Pairs(dropout_pairs)
"""Write pairs of a chunk with itself, for an encoder whose dropout tells them apart (SimCSE, CROP 3.1)."""


def mask(
    source: str,
    output: str,
    encoder: str,
    fraction: float = 0.15,
    epochs: int = 1,
    field: str = "text",
    seed: int = 0,
) -> Counts:
    """Write pairs with a ``fraction`` of the tokens of ``encoder`` masked in both texts; of a text that is no pair, two
    maskings make one (CROP A.1)."""
    check_file(output, [source])
    counts, masker = Counts(), Masker(encoders.create(encoder, device="cpu").with_tokens().tokenizer, fraction)
    write_jsonl(output, masked_rows(Rows(source), masker, field, epochs, seed, counts))
    return counts
