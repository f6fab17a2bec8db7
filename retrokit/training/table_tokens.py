"""The tokens of the texts that a table of embeddings is trained on, computed once for all epochs of a run, and in the
cache for all runs on the same texts with the same tokenizer.

Computing tokens takes as long as a table's step; of a transformer's step it is less than a fiftieth.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, compress, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from retrokit.core.notices import progress
from retrokit.data.training_rows import text_id
from retrokit.encoders.kept import Note, kept
from retrokit.encoders.store import cache_folder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Preprocess = Callable[..., dict[str, Any]]

TEXTS_AT_ONCE = 4096
PIECES = 2**18  # whose tokens are remembered


class TableTokens:
    """The features of texts, as the library's ``StaticEmbedding.preprocess`` gives them, from tokens in a folder.

    Args:
        folder: has the numbers of texts, in order, where the tokens of each start and end, and the tokens.
        mapped: the tokens are read from the file as they are needed, and not held in memory.
        preprocess: gives the features of texts that the folder does not have, such as those held out.
    """

    def __init__(self, folder: Path, mapped: bool, preprocess: Preprocess) -> None:
        self._preprocess = preprocess
        self._texts = np.load(folder / "texts.npy")
        self._starts, self._ends = np.load(folder / "bounds.npy")
        self._tokens = np.load(folder / "tokens.npy", mmap_mode="r" if mapped else None)

    def __call__(self, texts: Sequence[str], prompt: str | None, task: str, **limit: int) -> dict[str, Any]:
        """Token ids of all texts one after another ``[t]``, and where each text starts ``[n]``."""
        numbers = np.array([text_id(with_prompt) for with_prompt in prompted(texts, prompt)], dtype=np.int64)
        rows = np.searchsorted(self._texts, numbers).clip(max=len(self._texts) - 1)
        if not np.array_equal(self._texts[rows], numbers):
            return self._preprocess(texts, prompt=prompt, task=task, **limit)
        starts = self._starts[rows]
        lengths = self._ends[rows] - starts
        offsets = lengths.cumsum() - lengths
        tokens = self._tokens[np.repeat(starts - offsets, lengths) + np.arange(lengths.sum())]
        return {"input_ids": torch.from_numpy(tokens.astype(np.int64)), "offsets": torch.from_numpy(offsets)}


def prompted(texts: Iterable[str], prompt: str | None) -> list[str]:
    """Each text behind the prompt."""
    return [(prompt or "") + text for text in texts]


def tokens_of(tokenizer: Tokenizer, texts: Callable[[], Iterable[str]], preprocess: Preprocess) -> TableTokens:
    """The tokens of ``texts()``, which include their prompts, from the cache if they are there. Those of others are
    left to ``preprocess``."""
    numbers, first = np.unique(np.fromiter(map(text_id, texts()), dtype=np.int64), return_index=True)
    settings = hashlib.sha256(tokenizer.to_str().encode()).hexdigest()
    key = f"{settings} {hashlib.sha256(numbers.tobytes()).hexdigest()}"

    def write(folder: Path) -> Note:
        is_first = np.zeros(first.max() + 1, dtype=bool)
        is_first[first] = True
        tokens, lengths = _tokenised(tokenizer, compress(texts(), is_first), len(numbers))
        order = first.argsort().argsort()
        ends = lengths.cumsum()
        bounds = np.stack([ends - lengths, ends])[:, order]
        for name, array in (("texts", numbers), ("bounds", bounds), ("tokens", tokens)):
            np.save(folder / f"{name}.npy", array)
        return Note("tokens", f"of {len(numbers)} texts")

    with kept("tokens", key, write) as folder:
        return TableTokens(folder, mapped=cache_folder() is not None, preprocess=preprocess)


def _tokenised(tokenizer: Tokenizer, texts: Iterator[str], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The token ids of all texts one after another, and how many each text has."""
    narrowest = np.min_scalar_type(tokenizer.get_vocab_size())
    splits = _splits_at_spaces(tokenizer)
    by_piece: dict[str, list[int]] = {}
    parts, lengths = [], []
    with progress("tokenising", count, "texts") as advance:
        while batch := list(islice(texts, TEXTS_AT_ONCE)):
            if not splits or len(by_piece) > PIECES:
                by_piece.clear()
            pieces = [text.split(" ") if splits else [text] for text in batch]
            missing = [piece for piece in dict.fromkeys(chain.from_iterable(pieces)) if piece not in by_piece]
            encodings = tokenizer.encode_batch_fast(missing, add_special_tokens=False)
            by_piece.update((piece, encoding.ids) for piece, encoding in zip(missing, encodings, strict=True))
            for text_pieces in pieces:
                ids = list(chain.from_iterable(map(by_piece.__getitem__, text_pieces)))
                parts.append(np.array(ids, dtype=narrowest))
                lengths.append(len(ids))
            advance(len(batch))
            del batch  # before the next one is read
    return np.concatenate(parts), np.array(lengths, dtype=np.int64)


def _splits_at_spaces(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its parts between spaces, one after another: BERT's are, unless a text
    is cut, or a token has spaces in or around it."""
    is_bert = isinstance(tokenizer.normalizer, BertNormalizer) and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
    added = tokenizer.get_added_tokens_decoder().values()
    has_spaces = any(" " in token.content or token.lstrip or token.rstrip for token in added)
    return is_bert and tokenizer.truncation is None and not has_spaces
