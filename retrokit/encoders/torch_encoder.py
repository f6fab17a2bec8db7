"""The encoder that computes with PyTorch: a SentenceTransformer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from retrokit.core.errors import UsageError
from retrokit.data.images import Image, check_texts
from retrokit.data.prompted import texts_of
from retrokit.encoders import engine, layers, processes
from retrokit.encoders.base import (
    Batch,
    Encoder,
    Item,
    LayeredEncoder,
    TokenEncoder,
    TrainableEncoder,
    check_finite,
    gathered,
)
from retrokit.encoders.fingerprint import Weights, code_of, describe
from retrokit.encoders.precision import PRECISIONS, choose_precision, multiplies, name_of
from retrokit.encoders.prompts import other_prompts, role_prompts
from retrokit.encoders.towers import has_routes, tower_of, towers
from retrokit.similarities.base import Role, Similarity

if TYPE_CHECKING:  # a plain model does without the library
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer


SHOWN = 200  # characters of what is cut off


def cut(model: SentenceTransformer, items: Sequence[str], role: str, prompt: str | None) -> np.ndarray | None:
    """Which items have more tokens than count in that role, prompt and special tokens included, bool ``[n]``; ``None``:
    its tokenizer does not tell."""
    model = tower_of(model, role)
    is_cut, limit = np.zeros(len(items), dtype=bool), engine.token_limit(model, role)
    if limit is None:
        return is_cut
    backend = _backend(model)
    if backend is None:
        return None
    max_tokens, long_texts = limit - _special(model), dict[int, str]()
    for row, item in enumerate(items):
        if isinstance(item, Image):
            continue
        text = (prompt or "") + item
        if len(text.encode(errors="replace")) > max_tokens:  # a token has a byte at least
            long_texts[row] = text
    long_rows = list(long_texts)
    for start in range(0, len(long_rows), engine.CHUNK):
        rows = long_rows[start : start + engine.CHUNK]
        starts = [engine.start_of(long_texts[row], model.tokenizer, limit) for row in rows]
        encodings = backend.encode_batch(starts, add_special_tokens=False)
        is_cut[rows] = [_count(encoding) > max_tokens for encoding in encodings]
    return is_cut


def in_words(model: SentenceTransformer, item: str, role: str, prompt: str | None, **limit: int) -> str:
    """The tokens of an item as the model reads them, decoded, how many they are, and the text that is cut off;
    ``limit`` is a ``max_length`` of fewer tokens than it takes."""
    if isinstance(item, Image):
        return f"the image {item}"
    model = tower_of(model, role)
    features = engine.preprocess(model, [item], prompt, role, **limit)
    ids = features["input_ids"].flatten()
    if "attention_mask" in features:
        ids = ids[features["attention_mask"].flatten().bool()]
    decoded = f"tokens: {model.tokenizer.decode(ids.tolist(), skip_special_tokens=False)}"
    text, backend = (prompt or "") + item, _backend(model)
    tokens = [] if backend is None else sorted(_tokens(backend, text))
    lost = len(tokens) - (len(ids) - _special(model))
    if lost <= 0:
        return f"{len(ids)} {decoded}"
    is_left = engine.truncates_left(model.tokenizer)
    rest = text[: tokens[lost][0]] if is_left else text[tokens[-lost][0] :]
    if len(rest) > SHOWN:
        rest = f"{rest[:SHOWN]}… ({len(rest):,} characters)"
    return f"{len(ids)} of {len(ids) + lost} {decoded}; cut off: {rest}"


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
    uncut = np.array([[0, len(text)]], dtype=np.int64)
    if len(text.encode(errors="replace")) <= size:
        return uncut
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
        return uncut
    return np.array([*chunks, (starts[first], len(text))], dtype=np.int64)


def _tokens(backend: Any, text: str) -> Iterator[tuple[int, int, int]]:
    """The first character, the last one + 1, and the word of each token; a long text is tokenised in pieces."""
    word = 0
    for start, end in engine.pieces(text):
        base = word
        encoding = backend.encode(text[start:end], add_special_tokens=False)
        for piece in (encoding, *encoding.overflowing):
            for (first, last), number, counts in zip(piece.offsets, piece.word_ids, piece.attention_mask, strict=True):
                if counts:
                    word = word if number is None else base + number
                    yield start + first, start + last, word
        word += 1


def _count(encoding: Any) -> int:
    """Number of tokens in a tokenizer's output, with those that it cut off. Padding has no attention."""
    return sum(sum(piece.attention_mask) for piece in (encoding, *encoding.overflowing))


def _backend(model: SentenceTransformer) -> Any:
    """The tokenizer of the package tokenizers, if there is one."""
    backend = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
    return backend if hasattr(backend, "truncation") else None


def _special(model: SentenceTransformer) -> int:
    """Tokens that are added to a text; to that of a static encoder none."""
    tokenizer = model.tokenizer
    return 0 if hasattr(tokenizer, "encode_batch") else int(tokenizer.num_special_tokens_to_add(pair=False))


_PARTS = ("engine.py", "packed.py", "layers.py", "onednn.py", "towers.py")
_COMPUTING = [str(Path(__file__).with_name(name)) for name in _PARTS]


class TorchEncoder(TokenEncoder, LayeredEncoder, TrainableEncoder):
    """A SentenceTransformer that yields raw embeddings. What it is like follows its weights and settings, which may
    change.

    A subclass that computes otherwise may replace modules of :attr:`model`, and override :meth:`computes_in`,
    :meth:`embed` and :meth:`token_embeddings`, :meth:`fingerprint` and :meth:`document_fingerprint`, :meth:`code`,
    and :meth:`with_tokens`, :meth:`with_layers` and :meth:`to_train`.

    Attributes:
        assumed: what its folder does not state and was assumed, in words; empty: nothing.
    """

    assumed = ""

    def __init__(
        self, spec: str, model: SentenceTransformer, similarity: Similarity, had_normalize: bool = False
    ) -> None:
        self.spec = spec
        self.similarity = similarity
        self.had_normalize = had_normalize
        self._model = model
        self._weights = Weights()

    # --- what it is like

    @property
    def dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def prompts(self) -> Mapping[str, str | None]:
        return role_prompts(self._model.prompts)

    @property
    def task_prompts(self) -> Mapping[str, str]:
        return other_prompts(self._model.prompts)

    def max_length(self, role: Role) -> int | None:
        return engine.token_limit(self._model, role)

    def computes_in(self, precision: str = "auto") -> str:
        return name_of(self._computing_in(precision))

    def fingerprint(self) -> str:
        return self._digest(self.prompts)

    def _digest(self, prompts: Mapping[str, str | None]) -> str:
        digest = self._weights.digest(self._model)
        limits = {role: engine.token_limit(self._model, role) for role in ("query", "document")}
        described = {**describe(self._model), "prompts": prompts, "max_length": limits}
        digest.update(json.dumps(described, sort_keys=True, default=str).encode())
        return str(digest.hexdigest())

    def document_fingerprint(self) -> str:
        if has_routes(self._model):
            tower = TorchEncoder(self.spec, tower_of(self._model, "document"), self.similarity)
            return tower.document_fingerprint()
        return self._digest({**self.prompts, "query": None})

    def code(self) -> Mapping[str, str] | None:
        return code_of({type(self), *map(type, self._model.modules())}, _COMPUTING)

    # --- what it computes

    def embed(self, items: Sequence[Item], role: Role, precision: str = "auto") -> np.ndarray:
        embeddings = gathered(self.batches(items, role, precision), len(items), self.dimension)
        check_finite(embeddings, self.spec)
        return embeddings

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        if not self._model.supports("image"):
            check_texts(items, self.spec)
        dtype = self._computing_in(precision)
        if processes.can_help(self, len(items)):
            return processes.batches(self, items, role, next(name for name in PRECISIONS if PRECISIONS[name] == dtype))
        return engine.batches(self._model, texts_of(items), role, self.prompt_of(items, role), dtype)

    def cut(self, items: Sequence[Item], role: Role) -> np.ndarray | None:
        return cut(self._model, texts_of(items), role, self.prompt_of(items, role))

    def reads(self, item: Item, role: Role) -> str:
        return in_words(self._model, texts_of([item])[0], role, self.prompt_of([item], role))

    def spans(self, texts: Sequence[Item], size: int, overlap: int) -> list[np.ndarray]:
        check_texts(texts, f"{self.spec} in chunks")
        return spans(self._model, texts_of(texts), self.prompt_of(texts, "document"), size, overlap, self.spec)

    def token_embeddings(self, items: Sequence[Item], role: Role, precision: str = "auto") -> list[np.ndarray]:
        check_texts(items, self.spec)
        dtype = self._computing_in(precision)
        embeddings = engine.encode_tokens(self._model, texts_of(items), role, self.prompt_of(items, role), dtype)
        check_finite(embeddings, self.spec)
        return embeddings

    @property
    def token_dimension(self) -> int:
        return int(tower_of(self._model, "document")[0].get_embedding_dimension())

    @property
    def tells_roles_apart(self) -> bool:
        first = self._model[0]
        alike = (
            (hasattr(first, "auto_model") or hasattr(first, "embedding"))
            and self.prompts["query"] == self.prompts["document"]
            and self.max_length("query") == self.max_length("document")
        )
        return not alike

    @property
    def tokenizer(self) -> Any:
        return self._model.tokenizer

    def every_layer(self) -> tuple[Encoder, list[int]]:
        encoder = EveryLayer(self)
        return encoder, encoder.widths

    def layer_weights(self) -> list[dict[str, Tensor]]:
        return layers.weights(self.transformers(), self.spec)

    @property
    def model(self) -> SentenceTransformer:
        return self._model

    def with_tokens(self) -> TokenEncoder:
        firsts = [tower[0] for tower in towers(self._model)]
        fit = len({first.get_embedding_dimension() for first in firsts}) == 1 and all(map(gives_tokens, firsts))
        return self if fit else super().with_tokens()

    def with_layers(self) -> LayeredEncoder:
        self.transformers()
        return self

    def to_train(self) -> TrainableEncoder:
        return self

    def _computing_in(self, precision: str) -> torch.dtype:
        return choose_precision(precision, self.device, multiplies(self._model))

    def transformers(self) -> list[Transformer]:
        """The transformer of each tower; raises :class:`UsageError` if there is none."""
        firsts = list({id(tower[0]): tower[0] for tower in towers(self._model)}.values())
        if not all(hasattr(first, "auto_model") and gives_tokens(first) for first in firsts):
            raise UsageError(f"{self.spec} has no layers: it is not a transformer")
        return firsts


def gives_tokens(first: Any) -> bool:
    """Whether a model's first module embeds tokens. One with two towers, of texts and of images, pools them."""
    return getattr(first, "module_output_name", "token_embeddings") == "token_embeddings"


class EveryLayer(TorchEncoder):
    """Embeddings after every layer, side by side; layer k takes ``widths[k]`` columns."""

    def __init__(self, encoder: TorchEncoder) -> None:
        model, self.widths = layers.every_layer(encoder.model, encoder.spec)
        super().__init__(encoder.spec, model, encoder.similarity)
        self._encoder = encoder

    @property
    def dimension(self) -> int:
        return sum(self.widths)

    def batches(self, items: Sequence[Item], role: Role, precision: str = "auto") -> Iterator[Batch]:
        dtype = self._computing_in(precision)
        with layers.hidden_states(self.transformers()):
            yield from engine.batches(self._model, texts_of(items), role, self.prompt_of(items, role), dtype)

    def use_with(self, similarity: Similarity, dims: int | None = None) -> None:
        self._encoder.use_with(similarity, dims)

    def fingerprint(self) -> str:
        return f"{self._encoder.fingerprint()} after every layer"
