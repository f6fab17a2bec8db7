"""Texts in tokens: which are longer than counts, and where they can be cut into chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.data.images import Image
from retrokit.encoders import engine
from retrokit.encoders.towers import tower_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def cut(model: SentenceTransformer, items: Sequence[str], role: str, prompt: str | None) -> np.ndarray | None:
    """Which items have more tokens than count in that role, prompt and special tokens included, bool ``[n]``; ``None``:
    its tokenizer does not tell."""
    model = tower_of(model, role)
    is_cut, limit = np.zeros(len(items), dtype=bool), engine.token_limit(model, role)
    backend = _backend(model)
    if limit is None or backend is None:
        return is_cut if limit is None else None
    most, texts = limit - _special(model), dict[int, str]()
    for row, item in enumerate(items):
        text = item if isinstance(item, Image) else (prompt or "") + item
        if not isinstance(item, Image) and len(text.encode(errors="replace")) > most:  # a token has a byte at least
            texts[row] = text
    rows = list(texts)
    for part in (rows[start : start + engine.CHUNK] for start in range(0, len(rows), engine.CHUNK)):
        starts = [engine.start_of(texts[row], model.tokenizer, limit) for row in part]
        is_cut[part] = [_count(encoding) > most for encoding in backend.encode_batch(starts, add_special_tokens=False)]
    return is_cut


def spans(
    model: SentenceTransformer, texts: Sequence[str], prompt: str | None, size: int, overlap: int, spec: str
) -> list[np.ndarray]:
    """The chunks of each text as :meth:`retrokit.encoders.base.Encoder.spans` gives them; it raises the same."""
    model = tower_of(model, "document")
    backend, limit = _backend(model), engine.token_limit(model, "document")
    if backend is None:
        raise UsageError(f"{spec}: its tokenizer does not tell where tokens lie, so there are no chunks")
    if limit is not None and size > limit:
        raise UsageError(f"{spec}: chunks of {size} tokens are longer than the {limit} that count (max_length)")
    overhead = _special(model) + _count(backend.encode(prompt or "", add_special_tokens=False))
    if size - overhead <= overlap:
        tokens = f"{overhead} special tokens and those of the prompt"
        raise UsageError(f"{spec}: chunks of {size} tokens must hold more than their overlap of {overlap} and {tokens}")
    return [_spans(backend, text, size - overhead, overlap) for text in texts]


def _spans(backend: Any, text: str, size: int, overlap: int) -> np.ndarray:
    whole = np.array([[0, len(text)]], dtype=np.int64)
    if len(text.encode(errors="replace")) <= size:
        return whole
    tokens = np.array(list(_tokens(backend, text)), dtype=np.int64).reshape(-1, 3)
    starts, ends, words = tokens.T
    chunks, first, last = [], 0, 0
    while first + size < len(tokens):
        stop = first + size
        edge = int(np.searchsorted(words, words[stop]))  # where the word begins that would be cut
        last = edge if edge > max(first, last) else stop
        chunks.append((starts[first], ends[last - 1]))
        first = min(last, int(np.searchsorted(words, words[max(last - overlap, first + 1) - 1], side="right")))
    if not chunks:
        return whole
    return np.array([*chunks, (starts[first], len(text))], dtype=np.int64)


def _tokens(backend: Any, text: str) -> Iterator[tuple[int, int, int]]:
    """The first character, the last one + 1, and the word of each token; a long text is tokenised in pieces."""
    word = 0
    for start, end in engine.pieces(text):
        base = word
        encoding = backend.encode(text[start:end], add_special_tokens=False)
        for part in (encoding, *encoding.overflowing):
            for (first, last), number, counts in zip(part.offsets, part.word_ids, part.attention_mask, strict=True):
                if counts:
                    word = word if number is None else base + number
                    yield start + first, start + last, word
        word += 1


def _count(encoding: Any) -> int:
    """Tokens of what a tokenizer has made, also of what it cut off; padding has no attention."""
    return sum(sum(part.attention_mask) for part in (encoding, *encoding.overflowing))


def _backend(model: SentenceTransformer) -> Any:
    """The tokenizer of the package tokenizers, if there is one."""
    backend = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    return backend if hasattr(backend, "truncation") else None


def _special(model: SentenceTransformer) -> int:
    """Tokens that are added to a text; to that of a static encoder none."""
    tokenizer = model.tokenizer
    return 0 if hasattr(tokenizer, "encode_batch") else int(tokenizer.num_special_tokens_to_add(pair=False))
