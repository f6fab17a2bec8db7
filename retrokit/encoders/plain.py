"""Plain models, a transformer and one pooling behind it, without sentence-transformers, whose import takes longer than
to embed many texts.

A :class:`PlainEncoder` replaces the encoder for embedding only if both gave the same bits (:func:`plain_settings`). The
embedding cache records that with the encoder's traits (:mod:`retrokit.encoders.opening`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from retrokit.core.notices import no_progress_bars, progress
from retrokit.core.registry import imported
from retrokit.encoders.fingerprint import attention_of, tokenizer_settings
from retrokit.encoders.precision import PRECISIONS, name_of
from retrokit.encoders.tables import PlainModel
from retrokit.encoders.torch_encoder import TorchEncoder

_LARGEST = 200_000_000  # weights; to load more takes longer than to import the library
_TEXTS = (
    "a",
    "",
    " Two\nlines,\tof Àccents, 数字, [SEP] ",
    "What is a vector of 384 numbers good for?",
    "so on, " * 400,
)


class PlainTokenModel(nn.Module):
    """A model of transformers that embeds tokens; texts of a role have at most ``lengths[role]`` of them."""

    def __init__(self, auto_model: Any, tokenizer: Any, lengths: Mapping[str, int | None]) -> None:
        super().__init__()
        self.auto_model, self.config = auto_model, auto_model.config
        self.tokenizer = tokenizer
        self.query_length, self.document_length = lengths["query"], lengths["document"]

    def preprocess(
        self, texts: Sequence[str], prompt: str | None, task: str, max_length: int | None = None
    ) -> dict[str, Any]:
        """The features of texts in the role ``task``."""
        limit = max_length or getattr(self, f"{task}_length")
        prompted = [(prompt or "") + text for text in texts]
        return dict(
            self.tokenizer(prompted, padding=True, truncation=limit is not None, max_length=limit, return_tensors="pt")
        )

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Add the embeddings of tokens ``[n, t, d]``."""
        return {**features, "token_embeddings": self.auto_model(**features)[0]}


class PlainPooling(nn.Module):
    """The mean of the tokens' embeddings, or that of the first (``cls``)."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Add the embeddings of texts ``[n, d]``."""
        tokens: Tensor = features["token_embeddings"]
        if self.mode == "cls":
            pooled = tokens[:, 0]
        else:
            mask = features["attention_mask"].unsqueeze(-1).expand(tokens.size()).to(tokens.dtype)
            pooled = torch.sum(tokens * mask, 1) / torch.clamp(mask.sum(1), min=1e-9)
        return {**features, "sentence_embedding": pooled}


class PlainEncoder(TorchEncoder):
    """An encoder that only embeds, with the bits of the one that has the ``traits``.

    Args:
        path: the model's folder.
        traits: an encoder with the model's prompts, lengths, dimension and fingerprints.
        settings: the classes of ``model`` and ``tokenizer``, the ``pooling``, the type of the ``weights``, and the kind
            of ``attention``.
    """

    def __init__(self, path: str, traits: Any, settings: Mapping[str, Any]) -> None:
        with no_progress_bars():
            model = imported(settings["model"]).from_pretrained(
                path,
                dtype=getattr(torch, settings["weights"]),
                attn_implementation=settings["attention"],
            )
        tokenizer = imported(settings["tokenizer"]).from_pretrained(path)
        lengths = {role: traits.max_length(role) for role in ("query", "document")}
        first = PlainTokenModel(model.eval(), tokenizer, lengths)
        prompts = {**traits.task_prompts, **traits.prompts}
        plain: Any = PlainModel([first, PlainPooling(settings["pooling"])], prompts=prompts)
        super().__init__(traits.spec, plain, traits.similarity, traits.had_normalize)
        self._traits = traits

    @property
    def dimension(self) -> int:
        return int(self._traits.dimension)

    def fingerprint(self) -> str:
        return str(self._traits.fingerprint())


def plain_settings(encoder: TorchEncoder, path: str) -> dict[str, Any] | None:
    """Settings of a :class:`PlainEncoder` with the bits of ``encoder``, loaded from ``path``, or ``None``."""
    settings = _settings(encoder, path)
    if settings is None:
        return None
    plain = PlainEncoder(path, encoder, settings)
    if tokenizer_settings(plain.tokenizer) != tokenizer_settings(encoder.tokenizer):
        return None
    with progress("checking the model", 4, "batches") as advance:
        for precision in ("fp32", "bf16"):
            for texts in (_TEXTS, _TEXTS[3:4]):
                expected = encoder.embed(texts, "query", precision)
                if plain.embed(texts, "query", precision).tobytes() != expected.tobytes():
                    return None
                advance(1)
    return settings


def _settings(encoder: TorchEncoder, path: str) -> dict[str, Any] | None:
    """The settings, if the model is a transformer with one pooling on the CPU, and has the files to load it from."""
    if isinstance(encoder.model, PlainModel):
        return None
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    model = encoder.model
    if [type(module) for module in model] != [Transformer, Pooling] or model.truncate_dim is not None:
        return None
    first, pooling = model
    if pooling.pooling_mode not in ("mean", "cls") or not pooling.include_prompt:
        return None
    weights = list(model.parameters())
    types = {weight.dtype for weight in weights}
    is_small = sum(weight.numel() for weight in weights) <= _LARGEST
    if encoder.device.type != "cpu" or len(types) != 1 or not types <= {*PRECISIONS.values()} or not is_small:
        return None
    if not all(Path(path, name).is_file() for name in ("config.json", "tokenizer.json")):
        return None
    classes = {"model": type(first.auto_model), "tokenizer": type(encoder.tokenizer)}
    if not all(kind.__module__.startswith("transformers.") for kind in classes.values()):
        return None
    return {
        **{name: f"{kind.__module__}:{kind.__name__}" for name, kind in classes.items()},
        "pooling": pooling.pooling_mode,
        "weights": name_of(types.pop()),
        "attention": attention_of(first.config),
    }
