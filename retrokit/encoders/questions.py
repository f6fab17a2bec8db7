"""Embed one query with transformers only, because importing sentence-transformers takes most of a first search.

A :class:`QuestionModel` replaces the encoder only if both gave the same bits (:func:`question_settings`). The embedding
cache records that with the encoder's traits (:mod:`retrokit.encoders.opening`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from retrokit.core.notices import no_progress_bars, progress
from retrokit.core.registry import importing
from retrokit.encoders import engine
from retrokit.encoders.fingerprint import attention_of, tokenizer_settings
from retrokit.encoders.precision import PRECISIONS

if TYPE_CHECKING:
    from retrokit.encoders.torch_encoder import TorchEncoder

_TEXTS = (
    "a",
    "",
    " Two\nlines,\tof Àccents, 数字, [SEP] ",
    "What is a vector of 384 numbers good for?",
    "so on, " * 400,
)


class QuestionModel:
    """The BERT of the folder ``path``, on the CPU; its prompts and lengths are those of ``traits``.

    Args:
        settings: the ``pooling`` (``mean``, ``cls``), the type of the ``weights``, and the kind of ``attention``.
    """

    def __init__(self, path: str, traits: Any, settings: Mapping[str, Any]) -> None:
        with importing():
            from tokenizers import Tokenizer
            from transformers.models.bert.modeling_bert import BertModel

        self._traits, self._pooling = traits, settings["pooling"]
        with no_progress_bars():
            self._bert = BertModel.from_pretrained(
                path,
                dtype=getattr(torch, settings["weights"]),
                attn_implementation=settings["attention"],
            ).eval()
        self.tokenizer = Tokenizer.from_file(str(Path(path, "tokenizer.json")))
        self.tokenizer.no_padding()

    @torch.inference_mode()
    def embed(self, text: str, precision: str) -> np.ndarray:
        """The raw embedding of a query, float32 ``[1, d]``."""
        from retrokit.encoders.packed import computing

        prompt, limit = self._traits.prompts["query"] or "", self._traits.max_length("query")
        self.tokenizer.no_truncation() if limit is None else self.tokenizer.enable_truncation(limit)
        ids = torch.tensor([self.tokenizer.encode(prompt + engine.start_of(text, self.tokenizer, limit)).ids])
        bert = computing(self._bert, getattr(torch, self._traits.computes_in(precision)))
        states = bert(ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids))[0].float()
        pooled = states[:, 0] if self._pooling == "cls" else states.sum(dim=1) / ids.shape[1]
        return pooled.numpy()


def question_settings(encoder: TorchEncoder, path: str) -> dict[str, Any] | None:
    """Settings of a :class:`QuestionModel` with the bits of ``encoder``, loaded from ``path``, or ``None``."""
    settings = _bert_settings(encoder, path)
    if settings is None:
        return None
    question = QuestionModel(path, encoder, settings)
    is_fast = hasattr(encoder.tokenizer, "backend_tokenizer")
    if not is_fast or tokenizer_settings(question.tokenizer) != tokenizer_settings(encoder.tokenizer):
        return None
    with progress("checking the model", 2 * len(_TEXTS), "texts"):
        for precision in ("fp32", "bf16"):
            for text in _TEXTS:
                ((_, rows),) = encoder.batches([text], "query", precision)
                if rows.tobytes() != question.embed(text, precision).tobytes():
                    return None
    return settings


def _bert_settings(encoder: TorchEncoder, path: str) -> dict[str, Any] | None:
    """The settings, if the model is a BERT with one pooling on the CPU, and has the files to load it from."""
    first, *rest = encoder.model
    config: Any = getattr(first, "config", None)
    pooling = getattr(rest[0], "pooling_mode", None) if len(rest) == 1 else None
    dtype = next((weight.dtype for weight in encoder.model.parameters()), None)
    if getattr(config, "model_type", None) != "bert" or pooling not in ("mean", "cls"):
        return None
    if encoder.device.type != "cpu" or dtype not in PRECISIONS.values():
        return None
    if not all(Path(path, name).is_file() for name in ("config.json", "tokenizer.json")):
        return None
    return {"pooling": pooling, "weights": str(dtype).removeprefix("torch."), "attention": attention_of(config)}
