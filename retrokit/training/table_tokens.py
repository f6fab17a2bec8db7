"""The tokens of the texts that a table of embeddings is trained on, computed once for all epochs of a run, and in the
cache for all runs on the same texts with the same tokenizer.

Computing tokens takes as long as a table's step; of a transformer's step it is less than a fiftieth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from retrokit.core.notices import progress
from retrokit.data.training_rows import text_id
from retrokit.encoders.kept import Note, kept
from retrokit.encoders.store import cache_folder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Preprocess = Callable[..., dict[str, Any]]

TEXTS_AT_ONCE = 4096


class TableTokens:
    """The features of texts, as the library's ``StaticEmbedding.preprocess`` gives them, from tokens in a folder.

    Args:
        folder: has the numbers of texts, in order, and their tokens.
        mapped: the tokens are read from the file as they are needed, and not held in memory.
        preprocess: gives the features of texts that the folder does not have, such as those held out.
    """

    def __init__(self, folder: Path, mapped: bool, preprocess: Preprocess) -> None:
        self._preprocess = preprocess
        self._texts = np.load(folder / "texts.npy")
        self._ends = np.load(folder / "ends.npy")
        self._tokens = np.load(folder / "tokens.npy", mmap_mode="r" if mapped else None)

    def __call__(self, texts: Sequence[str], prompt: str | None, task: str, **limit: int) -> dict[str, Any]:
        """Token ids of all texts one after another ``[t]``, and where each text starts ``[n]``."""
        numbers = np.array([text_id(with_prompt) for with_prompt in prompted(texts, prompt)], dtype=np.int64)
        rows = np.searchsorted(self._texts, numbers).clip(max=len(self._texts) - 1)
        if not np.array_equal(self._texts[rows], numbers):
            return self._preprocess(texts, prompt=prompt, task=task, **limit)
        starts, ends = self._ends[rows], self._ends[rows + 1]
        tokens = np.concatenate([self._tokens[start:end] for start, end in zip(starts, ends, strict=True)])
        lengths = ends - starts
        offsets = lengths.cumsum() - lengths
        return {"input_ids": torch.from_numpy(tokens.astype(np.int64)), "offsets": torch.from_numpy(offsets)}


def prompted(texts: Iterable[str], prompt: str | None) -> list[str]:
    """Each text behind the prompt."""
    return [(prompt or "") + text for text in texts]


def tokens_of(tokenizer: Tokenizer, texts: Iterable[str], preprocess: Preprocess) -> TableTokens:
    """The tokens of ``texts``, which include their prompts, from the cache if they are there. Those of others are left
    to ``preprocess``."""
    by_number = {text_id(text): text for text in texts}
    numbers = np.array(sorted(by_number), dtype=np.int64)
    settings = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    key = f"{settings} {hashlib.sha256(numbers.tobytes()).hexdigest()}"

    def write(folder: Path) -> Note:
        in_order = [by_number[number] for number in numbers.tolist()]
        tokens, ends = _tokenised(tokenizer, in_order)
        for name, array in (("texts", numbers), ("ends", ends), ("tokens", tokens)):
            np.save(folder / f"{name}.npy", array)
        return Note("tokens", f"of {len(numbers)} texts")

    with kept("tokens", key, write) as folder:
        return TableTokens(folder, mapped=cache_folder() is not None, preprocess=preprocess)


def _tokenised(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The token ids of all texts one after another, and before and behind each text how many there are so far."""
    narrowest = np.min_scalar_type(tokenizer.get_vocab_size())
    parts, lengths = [], []
    with progress("tokenising", len(texts), "texts") as advance:
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            batch = texts[start : start + TEXTS_AT_ONCE]
            for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                parts.append(np.array(encoding.ids, dtype=narrowest))
                lengths.append(len(encoding.ids))
            advance(len(batch))
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return np.concatenate(parts), ends
