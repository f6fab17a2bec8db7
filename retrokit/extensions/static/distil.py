"""A static encoder from any other: a table with the embedding of every token, reduced and weighted.

As in Model2Vec (Tulkens and van Dongen, 2024): each token of the vocabulary is encoded as a text of its own, with the
tokenizer's special tokens. The table is projected on its first principal components, and a token's row is multiplied by
a / (a + its frequency) (smooth inverse frequency; Arora et al., 2017).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, disk_errors
from retrokit.core.notices import progress
from retrokit.core.outputs import check_name_of_model, folder_in_the_making
from retrokit.core.settings import taking
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.data.pairs import texts_file
from retrokit.encoders.base import Encoder
from retrokit.encoders.saving import save_model
from retrokit.encoders.towers import tower_of
from retrokit.extensions.static.settings import DistilSettings

TOKENS_AT_ONCE = 2048
_PROBE = "a"


@dataclass(frozen=True)
class Distilled:
    """The new folder, its numbers of tokens and dimensions, and the share of the variance that they keep."""

    folder: str
    tokens: int
    dimension: int
    variance: float


@taking(DistilSettings)
def distil_static(settings: DistilSettings) -> Distilled:
    """Write a static encoder, distilled from another encoder's tokens, into a new folder.

    Raises:
        UsageError: an encoder without a fast tokenizer or whose texts are not token sequences, too many dimensions, or
            a folder that exists.
        DataError: a corpus that cannot be read or is empty, or an embedding that is not finite.
    """
    check_name_of_model(settings.output)
    texts: list[str] = []
    with folder_in_the_making(settings.output) as staged:
        if settings.sif and settings.corpus is not None:
            texts = [document.full_text for document in read_corpus(texts_file(settings.corpus, corpus_file))]
        encoder = encoders.registry.create(settings.encoder, device=settings.device)
        model = tower_of(encoder.to_train().model, "document")
        tokenizer = getattr(model.tokenizer, "backend_tokenizer", None)
        if tokenizer is None or not hasattr(model[0], "auto_model"):
            raise UsageError(f"{encoder.spec}: expected a transformer with a fast tokenizer")
        rows = _tokens_alone(encoder, model, tokenizer)
        if settings.dims is not None and settings.dims > min(rows.shape):
            raise UsageError(f"`dims=` {settings.dims}: {encoder.spec} has {min(rows.shape)}")
        table, variance = _principal(rows, settings.dims or rows.shape[1])
        if settings.sif:
            counts = _token_counts(settings, texts, tokenizer, len(table))
            table *= (settings.sif / (settings.sif + counts / counts.sum()))[:, None]
        with disk_errors(settings.output):
            tokenizer.no_truncation()
            tokenizer.no_padding()
            modules = [StaticEmbedding(tokenizer, embedding_weights=table.astype(np.float32))]
            distilled = SentenceTransformer(modules=modules, device="cpu", similarity_fn_name="cosine")
            save_model(distilled, staged)
    return Distilled(settings.output, len(table), table.shape[1], variance)


def _token_counts(settings: DistilSettings, texts: Sequence[str], tokenizer: Any, size: int) -> np.ndarray:
    """How often each token occurs, float64 ``[tokens]``; proportional to it without a corpus."""
    if settings.corpus is None:  # tokens of a vocabulary are nearly in the order of their frequency (Zipf)
        return 1 / np.arange(2, size + 2)
    return _counted(settings.corpus, texts, tokenizer, size)


@torch.inference_mode()
def _tokens_alone(encoder: Encoder, model: Any, tokenizer: Any) -> np.ndarray:
    """Embeddings float64 ``[tokens, d]`` of every token as a text."""
    plain, framed = (tokenizer.encode(_PROBE, add_special_tokens=special).ids for special in (False, True))
    start = next(index for index in range(len(framed)) if framed[index : index + len(plain)] == plain)
    before, after = framed[:start], framed[start + len(plain) :]
    ids = torch.arange(tokenizer.get_vocab_size())
    model.eval()
    parts = []
    with progress(f"embedding the tokens of {encoder.spec}", len(ids), "tokens") as advance:
        for batch in ids.split(TOKENS_AT_ONCE):
            frame = [torch.tensor(side, dtype=torch.int64).expand(len(batch), -1) for side in (before, after)]
            inputs = torch.cat([frame[0], batch[:, None], frame[1]], dim=1).to(model.device)
            features = {"input_ids": inputs, "attention_mask": torch.ones_like(inputs)}
            embeddings = model(features, task="document")["sentence_embedding"]
            parts.append(embeddings[:, : encoder.dimension].double().cpu())
            advance(len(batch))
    rows = torch.cat(parts).numpy()
    if not np.isfinite(rows).all():
        raise DataError(encoder.spec, "token embeddings are not finite")
    return rows


def _principal(rows: np.ndarray, count: int) -> tuple[np.ndarray, float]:
    """The first ``count`` principal components of centred rows, and their share of the variance. The largest weight of
    each axis is positive, so that signs are the same on any machine."""
    centred = rows - rows.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1][:, :count]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(count)])
    return centred @ axes, float(values[::-1][:count].sum() / values.sum())


def _counted(corpus: str, texts: Sequence[str], tokenizer: Any, count: int) -> np.ndarray:
    """The frequency of each token in the texts of a corpus, float64 ``[count]``."""
    counts = np.zeros(count)
    for text in texts:
        np.add.at(counts, tokenizer.encode(text, add_special_tokens=False).ids, 1)
    if not counts.any():
        raise DataError(corpus, "contains no token")
    return counts
