"""Masking: a fraction of the tokens replaced by the tokenizer's mask token (CROP, A.1), with or without crops.

:func:`mask_ids` masks token ids in a training loop, :class:`Masker` the text itself, for a file. The tokenizer reads
a masked text back with the same mask tokens, but the rest of a word that is masked in part may become other pieces:
"em" of "em ##bed ##ding" leaves "[MASK]bedding", which is "[MASK] bed ##ding". If exactness counts, mask the ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Any

from retrokit.augmentation import draws
from retrokit.augmentation.texts import Counts, Rows, pair_row
from retrokit.core.errors import UsageError
from retrokit.data.jsonl import Row

if TYPE_CHECKING:  # cutting texts takes no PyTorch
    import torch
    from torch import Tensor
    from transformers import PreTrainedTokenizerFast

Span = tuple[int, int]

_SIDES = ("anchor", "positive")
_BATCH = 256  # rows that are tokenized at once


def masked_count(tokens: int, fraction: float) -> int:
    """How many of ``tokens`` are masked: fraction · tokens, a half rounded up, with ``fraction`` as it is written.

    >>> masked_count(10, 0.15), masked_count(9, 0.15), masked_count(100, 0.145), masked_count(3, 0.1)
    (2, 1, 15, 0)
    """
    return int((Decimal(repr(float(fraction))) * tokens).to_integral_value(ROUND_HALF_UP))


def check_fraction(fraction: float) -> None:
    """Raise :class:`UsageError` unless ``fraction`` lies between 0 and 1, both excluded."""
    if not 0 < fraction < 1:
        raise UsageError(f"a fraction of {fraction:g} of the tokens: expected more than 0 and less than 1")


def special_ids(tokenizer: PreTrainedTokenizerFast) -> frozenset[int]:
    """The ids of the tokens that are never masked: start, end, separator, padding, mask; not that of unknown words."""
    return frozenset(tokenizer.all_special_ids) - {tokenizer.unk_token_id}


def mask_ids(
    ids: Tensor,
    attention_mask: Tensor,
    special: Iterable[int],
    fraction: float,
    mask_id: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Token ids int64 ``[b, n]`` with a fraction of each row's tokens replaced by ``mask_id``, as a new tensor. In a
    row of k maskable tokens exactly ``masked_count(k, fraction)`` differ, any choice of them being equally likely.

    Args:
        attention_mask: ``[b, n]``, 0 at padding.
        special: ids that are neither counted nor masked (:func:`special_ids`).
        generator: draws the places, on its own device. Default: PyTorch's.

    >>> import torch
    >>> ids = torch.tensor([[101, 7, 8, 9, 7, 102], [101, 7, 102, 0, 0, 0]])
    >>> masked = mask_ids(ids, (ids != 0).long(), {101, 102}, 0.5, 103)
    >>> (masked == 103).sum(dim=1), masked[:, 0]
    (tensor([2, 1]), tensor([101, 101]))
    """
    import torch

    special_tokens = torch.tensor(sorted(special), dtype=ids.dtype, device=ids.device)
    maskable = attention_mask.bool() & ~torch.isin(ids, special_tokens)
    counts = [masked_count(tokens, fraction) for tokens in maskable.sum(dim=1).tolist()]
    device = ids.device if generator is None else generator.device
    order = torch.rand(ids.shape, generator=generator, device=device).to(ids.device)
    rank = order.masked_fill(~maskable, torch.inf).argsort(dim=1).argsort(dim=1)
    return ids.masked_fill(rank < torch.tensor(counts, device=ids.device)[:, None], mask_id)


class Masker:
    """Masks a ``fraction`` of the tokens of a text, in the text itself, as ``tokenizer`` cuts it.

    Tokens that hold no character of the text (a lone space of some tokenizers) are neither counted nor masked.

    Raises:
        UsageError: a fraction out of range, or a tokenizer that has no mask token or gives no offsets.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, fraction: float) -> None:
        check_fraction(fraction)
        if getattr(tokenizer, "mask_token", None) is None:
            raise UsageError("masking needs an encoder whose tokenizer has a mask token; this one has none")
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError("masking needs a fast tokenizer: this one gives no offsets")
        self._tokenizer, self._fraction = tokenizer, fraction
        self._token, self._special = str(tokenizer.mask_token), special_ids(tokenizer)

    def spans(self, texts: Sequence[str]) -> list[list[Span]]:
        """Where the maskable tokens of each text are: (start, end) in characters, in order."""
        encoded = self._tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        maskable = []
        for ids, spans in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            text_spans = []
            for token, (start, end) in zip(ids, spans, strict=True):
                if token not in self._special and start < end:
                    text_spans.append((start, end))
            maskable.append(text_spans)
        return maskable

    def mask(self, text: str, spans: Sequence[Span], *key: int | str) -> str:
        """``text``, whose tokens are at ``spans``, with the tokens masked that ``key`` decides.

        A character of several tokens (an emoji of byte tokens) goes as a whole with the first of them.
        """
        return self._put(text, self._choose(spans, *key))

    def mask_twice(self, text: str, spans: Sequence[Span], *key: int | str) -> tuple[str, str] | None:
        """Two maskings of ``text`` with different tokens masked, or ``None`` where all or none must be masked."""
        if not 0 < masked_count(len(spans), self._fraction) < len(spans):
            return None
        first = self._choose(spans, *key, "anchor")
        others = (self._choose(spans, *key, "positive", attempt) for attempt in count())
        return self._put(text, first), self._put(text, next(other for other in others if other != first))

    def _choose(self, spans: Sequence[Span], *key: int | str) -> list[Span]:
        chosen = draws.distinct(len(spans), masked_count(len(spans), self._fraction), *key)
        return [spans[index] for index in sorted(chosen)]

    def _put(self, text: str, spans: Sequence[Span]) -> str:
        masked, done = "", 0
        for start, end in spans:
            masked += text[done:start] + self._token  # byte tokens share the span of their character
            done = end
        return masked + text[done:]


def masked_rows(
    rows: Rows, masker: Masker, field: str = "text", epochs: int = 1, seed: int = 0, counts: Counts | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a file masked, as a stream, one epoch after another, in the file's order; counted in ``counts``.

    A row with ``anchor`` and ``positive`` has both masked, independently, and keeps all else. Any other row is a text
    in the field ``field``: two different maskings of it make a row ``anchor``, ``positive`` and, if it has one, ``id``.

    Raises:
        DataError: a line that is neither pair nor text, or no row that can be masked; while the rows are read.
    """
    counts = Counts() if counts is None else counts
    rows.check(epochs)
    for epoch in range(epochs):
        for index, (row, texts, spans) in enumerate(_with_spans(rows, masker, field)):
            counts.texts += not epoch  # a row counts once, in the first epoch
            if len(texts) == 2:
                masked = dict(row)
                for side, text, text_spans in zip(_SIDES, texts, spans, strict=True):
                    masked[side] = masker.mask(text, text_spans, seed, epoch, index, side)
                yield masked
            elif pair := masker.mask_twice(texts[0], spans[0], seed, epoch, index):
                yield pair_row(*pair, row.id_if_any)
            else:
                if not epoch:
                    counts.dropped["too few tokens for two maskings" if spans[0] else "empty text"] += 1
                continue
            counts.pairs += 1
        counts.check_used(rows.name, "a larger fraction may mask more")


def _with_spans(rows: Rows, masker: Masker, field: str) -> Iterator[tuple[Row, list[str], list[list[Span]]]]:
    """Each row with its texts, those of a pair or the one in ``field``, and the spans of their tokens."""
    stream = (row for _, row in rows)
    while batch := list(islice(stream, _BATCH)):
        texts = []
        for row in batch:
            fields = _SIDES if row.keys() >= set(_SIDES) else (field,)
            texts.append([row.text_of(name) for name in fields])
        spans = iter(masker.spans(list(chain.from_iterable(texts))))
        for row, row_texts in zip(batch, texts, strict=True):
            yield row, row_texts, [next(spans) for _ in row_texts]
