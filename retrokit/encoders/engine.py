"""Encoding many texts fast: sorted by length, in batches of a fixed token budget, results in input order. Images come
after the texts, in batches of a fixed size.

Embeddings do not depend on how texts fell into batches (≤ 1e-6 in fp32).
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from retrokit.core.errors import UsageError
from retrokit.core.notices import Advance, notice, progress
from retrokit.data.images import Image
from retrokit.encoders.base import Batch, read_characters
from retrokit.encoders.precision import multiplies
from retrokit.encoders.towers import keywords, tower_of

if TYPE_CHECKING:  # whoever reads all embeddings from the cache does without the library
    from sentence_transformers import CrossEncoder, SentenceTransformer

CHUNK = 512  # texts tokenised in one call, while a GPU computes the chunk before
IMAGES = 32  # decoded and computed at once
CHARACTERS_A_TOKEN = 32  # of a long text as many are looked at first
NO_LIMIT = 1_000_000  # a tokenizer without a maximum length names an absurdly high one
PIECE = 1 << 18  # characters of a long text that are tokenised at once where all of them count
ENDLESS = 1 << 16  # letters of a word
CPU_TOKENS = 4096  # padded tokens of a batch; measured best between 2,000 and 4,000 on two cores
GPU_TOKENS = 65536
SEVERAL = 8  # documents of a query from which on a decoder computes them apart from others
TRAINED_TEXTS = 32  # of like length computed at once where a processor trains on tokens: half as much is padded
KEPT = 512 * 2**20  # bytes of freed memory that stay with the process
LARGE = 32 * 2**20  # bytes of one piece from which on it is a mapping of its own; glibc takes no higher value
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of options in glibc's malloc.h

Features = tuple[np.ndarray, dict[str, Any]]
"""A batch of a chunk: its positions in the chunk ``[b]``, and the features of its texts."""

Chunk = tuple[np.ndarray, dict[str, Any]]
"""Positions ``[c]`` in all texts, and the features of these texts."""


@torch.inference_mode()
def batches(
    model: SentenceTransformer, texts: Sequence[str], role: str, prompt: str | None, dtype: torch.dtype
) -> Iterator[Batch]:
    """Embeddings of ``texts``, a chunk at a time, the longest texts first; they may be not finite. The first module
    computes in ``dtype``, pooling and what follows in float32."""
    is_image = np.array([isinstance(text, Image) for text in texts], dtype=bool)
    for modality, items in (("text", np.flatnonzero(~is_image)), ("image", np.flatnonzero(is_image))):
        if not len(items):
            continue
        tower = tower_of(model, role, modality)
        for chunk, outputs in _outputs(tower, [texts[item] for item in items.tolist()], role, prompt, dtype):
            positions, embeddings = [], []
            for rows, features in outputs:
                positions.append(items[chunk[rows]])
                embeddings.append(embeddings_of(tower, features, role).float().cpu().numpy())
            yield np.concatenate(positions), np.concatenate(embeddings)


@torch.inference_mode()
def pair_scores(model: CrossEncoder, queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
    """The scores of query i with document i by a cross-encoder, after its activation: float32 ``[n]`` of one output,
    else ``[n, outputs]``, as ``CrossEncoder.predict`` gives them. The first module computes in its weights' type."""
    from retrokit.encoders.prefixes import sharing

    prompt = None if model.default_prompt_name is None else model.prompts[model.default_prompt_name]
    order = longest_first([query + document for query, document in zip(queries, documents, strict=True)])
    groups = _by_query(order, queries) if sharing(model[0]) else [order]

    def features_of(chunk: np.ndarray) -> dict[str, Any]:
        return model.preprocess([(queries[i], documents[i]) for i in chunk], prompt=prompt)

    scores = np.empty((len(order), model.num_labels), dtype=np.float32)
    dtype = next(model.parameters()).dtype
    for chunk, outputs in _computed(model, _in_background(groups, CHUNK, features_of), dtype, {}):
        for rows, features in outputs:
            for module in list(model)[1:]:
                features = module(features)
            scores[chunk[rows]] = model.activation_fn(features["scores"]).float().cpu().numpy()
    return scores[:, 0] if model.num_labels == 1 else scores


@torch.inference_mode()
def plainly(model: SentenceTransformer, texts: list[str], role: str) -> Tensor:
    """The embeddings ``[n, d]`` of a few texts by the model as it is, without a copy that computes faster."""
    model.eval()
    tower = tower_of(model, role)
    for module in list(tower)[1:]:
        module.float()
    features = tower.preprocess(texts, prompt=None, task=role)
    return embeddings_of(tower, _forward(tower[0], features, model.device, **keywords(tower, 0, role)), role)


def embeddings_of(model: SentenceTransformer, features: dict[str, Any], role: str) -> Tensor:
    """The embeddings ``[n, d]`` that the modules behind the first one make of its output, as the library truncates
    them."""
    for index in range(1, len(model)):
        features = model[index](features, **keywords(model, index, role))
    embeddings: Tensor = features["sentence_embedding"]
    return embeddings[:, : model.truncate_dim]


@torch.inference_mode()
def encode_tokens(
    model: SentenceTransformer, texts: Sequence[str], role: str, prompt: str | None, dtype: torch.dtype
) -> list[np.ndarray]:
    """Embeddings of the tokens of each text, float32 ``[tokens, d]``, in input order: what the first module yields.

    Padding and special tokens are left out (not the one for unknown words), and a prompt that the pooling leaves out.
    The arguments are those of :func:`batches`.
    """
    model = tower_of(model, role)
    special = torch.tensor(sorted(_special_ids(model)), dtype=torch.long)
    embeddings: list[np.ndarray] = [np.empty(0)] * len(texts)
    for chunk, outputs in _outputs(model, texts, role, prompt, dtype):
        for rows, features in outputs:
            tokens, lengths = _tokens(model, features, special.to(model.device))
            bounds = np.cumsum(lengths.cpu().numpy())[:-1]
            for row, text_tokens in zip(chunk[rows], np.split(tokens.float().cpu().numpy(), bounds), strict=True):
                embeddings[row] = text_tokens.copy()  # a view would keep the whole batch in memory
    return embeddings


def train_tokens(
    model: SentenceTransformer, texts: Sequence[str], role: str, prompt: str | None
) -> tuple[Tensor, Tensor]:
    """Embeddings of the tokens of a few texts, padded float32 ``[n, t, d]``, and which are no padding, bool ``[n, t]``.

    The tokens are those of :func:`encode_tokens`, but the gradients are retained and the model stays in its mode.
    """
    model = tower_of(model, role)
    special = torch.tensor(sorted(_special_ids(model)), dtype=torch.long, device=model.device)
    order = longest_first(texts)
    embeddings: list[Tensor] = [torch.empty(0)] * len(texts)
    batches_of_rows = [order]
    if model.device.type == "cpu":
        batches_of_rows = np.split(order, range(TRAINED_TEXTS, len(order), TRAINED_TEXTS))
    for rows in batches_of_rows:
        batch = model.preprocess([texts[row] for row in rows], prompt=prompt, task=role)
        tokens, lengths = _tokens(model, _forward(model[0], batch, model.device, **keywords(model, 0, role)), special)
        for row, text_tokens in zip(rows, tokens.split(lengths.tolist()), strict=True):
            embeddings[row] = text_tokens
    padded = nn.utils.rnn.pad_sequence(embeddings, batch_first=True)
    counts = torch.tensor([len(text_tokens) for text_tokens in embeddings], device=padded.device)
    return padded.float(), torch.arange(padded.shape[1], device=padded.device) < counts[:, None]


@cache
def keep_freed() -> None:
    """Let the process retain up to 512 MiB that it frees, if the C library is glibc. By default glibc returns more than
    a few megabytes to the system. The next layer gets them again, page by page, which takes a tenth of the time."""
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if adjust is not None:
        adjust(_TRIM_THRESHOLD, KEPT)
        adjust(_MMAP_THRESHOLD, LARGE)


def tokens_at_once(device: torch.device) -> int:
    """How many padded tokens a batch has at most."""
    return CPU_TOKENS if device.type == "cpu" else GPU_TOKENS


def ranges_of_tokens(lengths: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Ranges of at most ``limit`` tokens, padding included, of texts whose lengths do not increase; or of one text.

    >>> ranges_of_tokens([9, 5, 4, 3, 1, 1], 10)
    [(0, 1), (1, 3), (3, 6)]
    """
    ranges, start = [], 0
    while start < len(lengths):
        end = min(len(lengths), start + max(1, limit // max(1, lengths[start])))
        ranges.append((start, end))
        start = end
    return ranges


def longest_first(texts: Sequence[str]) -> np.ndarray:
    """Positions of ``texts`` in the order in which they are encoded, by characters; ties in their own order."""
    return np.argsort([-len(text) for text in texts], kind="stable")


def _outputs(
    model: SentenceTransformer, texts: Sequence[str], role: str, prompt: str | None, dtype: torch.dtype
) -> Iterator[tuple[np.ndarray, Iterator[Features]]]:
    """Chunks of positions in ``texts``, all of one modality, each with the first module's float32 outputs."""
    size = IMAGES if isinstance(texts[0], Image) else CHUNK
    limit = token_limit(model, role)

    def features(chunk: np.ndarray) -> dict[str, Any]:
        if isinstance(texts[chunk[0]], Image):
            return preprocess(model, [texts[i] for i in chunk], prompt, role)
        starts = [start_of(texts[i], model.tokenizer, limit) for i in chunk]
        if hasattr(model.tokenizer, "encode_batch") and any(len(start) > 2 * PIECE for start in starts):
            return _bags(model, starts, role, prompt)
        return preprocess(model, starts, prompt, role)

    work = read_characters(texts, limit)
    unit = "images" if isinstance(texts[0], Image) else "characters"
    with progress(f"encoding {role} texts", work.sum(), unit) as advance:
        chunks = _in_background([longest_first(texts)], size, features)
        for chunk, outputs in _computed(model, chunks, dtype, keywords(model, 0, role)):
            yield chunk, _counted(outputs, work[chunk], advance)


def _counted(outputs: Iterator[Features], work: np.ndarray, advance: Advance) -> Iterator[Features]:
    for rows, features in outputs:
        yield rows, features
        advance(work[rows].sum())


def _computed(
    model: SentenceTransformer | CrossEncoder, chunks: Iterator[Chunk], dtype: torch.dtype, options: Mapping[str, Any]
) -> Iterator[tuple[np.ndarray, Iterator[Features]]]:
    """Each chunk with the float32 outputs of the model's first module, which computes in ``dtype``."""
    device = model.device
    if device.type == "cpu":
        keep_freed()
    model.eval()
    first: Callable[..., dict[str, Any]] = model[0]
    if multiplies(model[0]) or any(weight.dtype != dtype for weight in model[0].parameters()):
        from retrokit.encoders.packed import computing
        from retrokit.encoders.prefixes import sharing

        first = computing(model[0], dtype)
        first = sharing(first) or first
    max_tokens, max_items = tokens_at_once(device), CHUNK  # of a batch; lowered for all chunks that follow

    def outputs_of(prepared: Iterator[Features]) -> Iterator[Features]:
        nonlocal max_tokens, max_items
        waiting: list[Features] = []
        while batch_of_rows := waiting.pop() if waiting else next(prepared, None):
            rows, batch = batch_of_rows
            try:
                features = _forward(first, batch, device, **options)
            except torch.OutOfMemoryError:
                waiting += _halves(rows, batch, device)
                if _is_by_items(batch, len(rows)):
                    max_items = len(rows) // 2
                else:
                    max_tokens = max(1, max_tokens // 2)
                notice(f"the memory of {device} ran out: on with batches of half the size")
                continue
            yield rows, features

    for chunk, features in chunks:
        yield chunk, outputs_of(_batches(features, len(chunk), max_tokens, max_items))


def _by_query(order: np.ndarray, queries: Sequence[str]) -> list[np.ndarray]:
    """The pairs in ``order`` of each query that has several, and the pairs of all others."""
    counts = Counter(queries)
    groups: dict[str | None, list[int]] = {}
    for row in order.tolist():
        query = queries[row]
        groups.setdefault(query if counts[query] >= SEVERAL else None, []).append(row)
    return [np.array(group) for group in groups.values()]


def _in_background(
    groups: Sequence[np.ndarray], size: int, features_of: Callable[[np.ndarray], dict[str, Any]]
) -> Iterator[Chunk]:
    """Chunks of each group with their features; the next one is prepared in the background while the model computes."""
    chunks = [group[start : start + size] for group in groups for start in range(0, len(group), size)]
    with ThreadPoolExecutor(1, "tokenise") as background:
        submitted = (background.submit(features_of, chunk) for chunk in chunks)
        following = next(submitted, None)
        for chunk in chunks:
            assert following is not None
            features = following.result()
            following = next(submitted, None)
            yield chunk, features


def preprocess(
    model: SentenceTransformer, items: Sequence[str], prompt: str | None, task: str, **limit: int
) -> dict[str, Any]:
    """The features of items in the role ``task``, all of them texts or all images; an image has no prompt. ``limit`` is
    a ``max_length``, which does not raise the model's own."""
    if limit and (model_limit := token_limit(model, task)) is not None:
        limit = {"max_length": min(model_limit, limit["max_length"])}
    inputs: Sequence[Any] = items
    if isinstance(items[0], Image):
        inputs = [{"image": item.picture()} for item in items if isinstance(item, Image)]
    elif len(model.modalities) > 1:  # else the library opens what looks like the path or the address of an image
        inputs = [{"text": text} for text in items]
    features: dict[str, Any] = model.preprocess(inputs, prompt=prompt, task=task, **limit)
    return features


def pieces(text: str) -> Iterator[tuple[int, int]]:
    """Where the pieces of a text lie that are tokenised one by one, each from a space on."""
    starts = [0]
    while len(text) - starts[-1] > 2 * PIECE and (space := text.find(" ", starts[-1] + PIECE)) > 0:
        starts.append(space)
    return pairwise([*starts, len(text)])


def _bags(model: SentenceTransformer, texts: Sequence[str], role: str, prompt: str | None) -> dict[str, Any]:
    """The features of a static encoder's texts, of a long one piece by piece: a token takes half a kilobyte."""
    bags = []
    for text in texts:
        ids = []
        for start, end in pieces(text):
            features = model.preprocess([text[start:end]], prompt=None if start else prompt, task=role)
            ids.append(features["input_ids"])
        bags.append(torch.cat(ids))
    starts = np.cumsum([0, *(len(bag) for bag in bags[:-1])])
    return {"input_ids": torch.cat(bags), "offsets": torch.from_numpy(starts)}


def token_limit(model: SentenceTransformer, role: str) -> int | None:
    """Tokens of a text that count in its role; ``None``: all."""
    model = tower_of(model, role)
    truncation = getattr(model.tokenizer, "truncation", None)  # of the package tokenizers: a static encoder's
    length = truncation["max_length"] if truncation else None
    if not hasattr(model.tokenizer, "encode_batch"):
        length = getattr(model[0], f"{role}_length", None) or model.max_seq_length
    return None if length is None or length > NO_LIMIT else int(length)


def start_of(text: str, tokenizer: Any, limit: int | None) -> str:
    """As much of a long text as decides its first ``limit`` tokens: a tokenizer makes all tokens of a text, half a
    kilobyte each, before it cuts them off.

    The rest is left out from a space on that lies at least ``limit`` tokens behind the last one that counts. Words are
    tokenised one by one, and where a tokenizer takes a text as a whole, what is so far ahead decides nothing. Of a word
    without end the start is left where such a word is unknown anyway (word pieces).
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if len(text) > ENDLESS:
        text = _without_endless_words(text, backend)
    if limit is None or not hasattr(backend, "truncation") or truncates_left(tokenizer):
        return text
    size = CHARACTERS_A_TOKEN * limit
    while 2 * size < len(text):
        start = text[:size]
        word = "" if start[-1].isspace() else start.split()[-1]
        if len(word) < size // 2:  # longer, it is a script without spaces
            start = start[: size - len(word)]
        encoding = backend.encode(start, add_special_tokens=False)
        pieces = [encoding, *encoding.overflowing]
        if sum(len(piece.ids) for piece in pieces) >= 2 * limit:
            return start
        size *= 2
    return text


def _without_endless_words(text: str, backend: Any) -> str:
    longest_word = getattr(getattr(backend, "model", None), "max_input_chars_per_word", ENDLESS)
    if longest_word >= ENDLESS:
        return text
    return re.sub(rf"([A-Za-z0-9]{{{ENDLESS}}})[A-Za-z0-9]+", r"\1", text)


def truncates_left(tokenizer: Any) -> bool:
    """Whether a fast tokenizer cuts off the start of a long text."""
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    sides = (getattr(tokenizer, "truncation_side", ""), (backend.truncation or {}).get("direction"))
    return "left" in sides


def _special_ids(model: SentenceTransformer) -> set[int]:
    """The ids of special tokens, without the one for unknown words unless it has a second meaning."""
    tokenizer = model.tokenizer
    if not hasattr(tokenizer, "all_special_ids"):  # a static encoder's, of the package tokenizers
        unknown = getattr(tokenizer.model, "unk_token", None)
        added = tokenizer.get_added_tokens_decoder().items()
        return {id for id, token in added if token.special and token.content != unknown}
    roles = ("bos", "eos", "sep", "pad", "cls", "mask")
    ids = {getattr(tokenizer, f"{role}_token_id", None) for role in roles}
    return {id for id in tokenizer.all_special_ids if id in ids or id != tokenizer.unk_token_id}


def _tokens(model: SentenceTransformer, features: dict[str, Any], special: Tensor) -> tuple[Tensor, Tensor]:
    """The embeddings ``[tokens, d]`` of all texts of a batch one after another, and how many each text has, ``[n]``."""
    ids = features["input_ids"]
    counts = ~torch.isin(ids, special)
    if "token_embeddings" not in features:  # a bag of tokens: flat, and ``offsets`` say where each text starts
        text = torch.bucketize(torch.arange(len(ids), device=ids.device), features["offsets"], right=True) - 1
        lengths = torch.bincount(text[counts], minlength=len(features["offsets"]))
        return nn.functional.embedding(ids[counts], model[0].embedding.weight), lengths
    mask = features["attention_mask"].bool()
    if "prompt_length" in features and not all(getattr(module, "include_prompt", True) for module in model):
        counts &= mask.cumsum(dim=1) > features["prompt_length"]
    counts &= mask
    return features["token_embeddings"][counts], counts.sum(dim=1)


def _forward(
    first: Callable[..., dict[str, Any]], batch: dict[str, Any], device: torch.device, **options: str
) -> dict[str, Any]:
    """The output of a first module, which takes more than features; its floats are float32."""
    return floats_in_float32(first(on_device(batch, device), **options))


def on_device(features: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The features, their tensors on ``device``."""
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in features.items()}


def floats_in_float32(features: dict[str, Any]) -> dict[str, Any]:
    """The features, their tensors of other floating-point types converted."""
    converted = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            converted[name] = value.float()
    return converted


def _batches(features: dict[str, Any], count: int, max_tokens: int, max_items: int = CHUNK) -> Iterator[Features]:
    """Batches of at most ``max_tokens`` padded tokens, longest texts first; or of ``max_items`` images."""
    mask = features.get("attention_mask")
    if mask is None or mask.ndim != 2:  # a bag of tokens (static) has no padding to save
        if count <= max_items or not _is_by_items(features, count):
            yield np.arange(count), features
            return
        for start in range(0, count, max_items):
            rows = np.arange(start, min(count, start + max_items))
            yield rows, _rows(features, rows)
        return
    lengths = mask.sum(dim=1).numpy()
    order = np.argsort(-lengths, kind="stable")
    for start, end in ranges_of_tokens(lengths[order].tolist(), max_tokens):
        rows = order[start:end]
        yield rows, _rows(features, rows, mask)


def _is_by_items(features: dict[str, Any], count: int) -> bool:
    """Whether each of ``count`` items has a row of its own in all features, and no padding: images do."""
    tensors = [value for value in features.values() if isinstance(value, Tensor) and value.ndim]
    is_bag = "offsets" in features or "attention_mask" in features
    return bool(tensors) and not is_bag and all(len(tensor) == count for tensor in tensors)


def _halves(rows: np.ndarray, batch: dict[str, Any], device: torch.device) -> list[Features]:
    """Two batches in place of one, the first of them last; raises :class:`UsageError` about one that cannot be cut."""
    mask = batch.get("attention_mask")
    if len(rows) == 1 or not (_is_by_items(batch, len(rows)) or (mask is not None and mask.ndim == 2)):
        raise UsageError(
            f"the memory of {device} is too small for one batch; give a smaller max_length, or another `device=`"
        )
    if device.type == "cuda":
        torch.cuda.empty_cache()
    first, second = np.split(np.arange(len(rows)), [len(rows) // 2])
    return [(rows[half], _rows(batch, half, mask)) for half in (second, first)]


def _rows(features: dict[str, Any], rows: np.ndarray, mask: Tensor | None = None) -> dict[str, Any]:
    """The given rows, without the columns that are padding in all of them."""
    index = torch.from_numpy(rows)
    if mask is None:
        return {name: value[index] if isinstance(value, Tensor) else value for name, value in features.items()}
    columns = mask[index].any(dim=0)
    selected = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor) and value.ndim and len(value) == len(mask):
            selected[name] = value[index]
            if value.ndim >= 2 and value.shape[1] == mask.shape[1]:
                selected[name] = value[index][:, columns]
    return selected
