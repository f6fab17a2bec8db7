"""One question, embedded by the weights of a BERT and little else: the libraries that load the model take several times
as long to import as all the rest of a search that finds its documents' embeddings in the cache.

This stands for the library's model only where it gave the same bits: :func:`settings_of` compares both once, when the
library's has been loaded, and what it finds is remembered with the model's traits (:mod:`retrokit.encoders.opening`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from retrokit.core.notices import progress
from retrokit.encoders import engine, onednn
from retrokit.encoders.base import Batch, Item, Traits
from retrokit.encoders.fingerprint import tokenizer_settings
from retrokit.encoders.precision import PRECISIONS, name_of
from retrokit.encoders.short_attention import SHORT, attend

if TYPE_CHECKING:
    from retrokit.encoders.torch_encoder import TorchEncoder

_WEIGHTS, _TOKENIZER = "model.safetensors", "tokenizer.json"
_POOLINGS = ("mean", "cls")
_PRECISIONS = ("fp32", "bf16")  # what the processor computes faster in comes last: the model is packed for it then
_COMPARED = (
    "a",
    "",
    " Two\nlines,\tof Àccents, 数字, [SEP] ",
    "What is a vector of 384 numbers good for?",
    "so on, " * 400,
)


class QuestionModel:
    """A BERT on the CPU, of the folder ``path``; its prompts and lengths are those of ``traits``.

    Args:
        settings: ``heads``, ``layers`` and ``eps`` of the transformer, the type of its ``weights``, and how tokens are
            pooled (``mean``, ``cls``).
        dtype: what it computes in, ``float32`` or ``bfloat16``.
    """

    def __init__(self, path: str, traits: Traits, settings: Mapping[str, Any], dtype: str) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self._traits = traits
        self._settings = settings
        loaded = load_file(Path(path, _WEIGHTS))
        self._dtype: torch.dtype = getattr(torch, dtype)
        stored = getattr(torch, settings["weights"])
        self._weights = {
            name.removeprefix("bert."): tensor.to(stored).to(self._dtype) for name, tensor in loaded.items()
        }
        self.tokenizer = Tokenizer.from_file(str(Path(path, _TOKENIZER)))
        self.tokenizer.no_padding()
        self._packed = cache(lambda name: onednn.pack(self._weights[f"{name}.weight"]))

    @torch.inference_mode()
    def batches(self, items: Sequence[Item]) -> Iterator[Batch]:
        """The embedding of the one question that ``items`` are."""
        prompt, limit = self._traits.prompts["query"] or "", self._traits.max_length("query")
        self.tokenizer.no_truncation() if limit is None else self.tokenizer.enable_truncation(limit)
        (text,) = items
        ids = self.tokenizer.encode(prompt + engine.start_of(text, self.tokenizer, limit)).ids
        states = self._states(torch.tensor([ids])).float()
        pooled = states[:, 0] if self._settings["pooling"] == "cls" else states.sum(dim=1) / len(ids)
        yield np.arange(1), pooled.numpy()

    def has_parts_of(self, encoder: TorchEncoder) -> bool:
        """Whether its weights and its tokenizer are those of ``encoder``."""
        weights = encoder.model[0].model.state_dict()
        needed = {name: tensor.to(self._dtype) for name, tensor in weights.items() if not name.startswith("pooler.")}
        same = all(name in self._weights and torch.equal(self._weights[name], needed[name]) for name in needed)
        theirs = getattr(encoder.tokenizer, "backend_tokenizer", None)
        return same and theirs is not None and tokenizer_settings(self.tokenizer) == tokenizer_settings(theirs)

    def agrees(self, encoder: TorchEncoder, precision: str) -> bool:
        """Whether it embeds several texts as ``encoder`` does, bit by bit."""
        return all(
            rows.tobytes() == own.tobytes()
            for text in _COMPARED
            for (_, rows), (_, own) in zip(
                encoder.batches([text], "query", precision), self.batches([text]), strict=True
            )
        )

    def _states(self, ids: Tensor) -> Tensor:
        """The last hidden states ``[1, t, d]`` of tokens ``[1, t]``, by the operations of the library's model."""
        places = torch.arange(ids.shape[1])[None]
        tables = {"word": ids, "token_type": torch.zeros_like(ids), "position": places}
        looked_up = [
            functional.embedding(rows, self._weights[f"embeddings.{kind}_embeddings.weight"])
            for kind, rows in tables.items()
        ]
        states = self._norm(looked_up[0] + looked_up[1] + looked_up[2], "embeddings")
        for layer in range(self._settings["layers"]):
            name = f"encoder.layer.{layer}"
            sides = [self._linear(states, f"{name}.attention.self.{side}") for side in ("query", "key", "value")]
            query, key, value = (side.view(*ids.shape, self._settings["heads"], -1).transpose(1, 2) for side in sides)
            attended = self._attended(query, key, value).reshape(states.shape).contiguous()
            states = self._added(attended, states, f"{name}.attention.output")
            inner = self._linear(states, f"{name}.intermediate.dense", "none")
            states = self._added(inner, states, f"{name}.output")
        return states

    def _attended(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """``[1, t, heads, d]`` of three times ``[1, heads, t, d]``."""
        if self._dtype == torch.bfloat16 and query.shape[2] <= SHORT:
            return attend(query, key, value, None)
        return functional.scaled_dot_product_attention(query, key, value).transpose(1, 2)

    def _linear(self, states: Tensor, name: str, gelu: str = "") -> Tensor:
        return onednn.linear(states, self._packed(name), self._weights[f"{name}.bias"], gelu)

    def _added(self, states: Tensor, other: Tensor, name: str) -> Tensor:
        bias = self._weights[f"{name}.dense.bias"]
        return self._norm(onednn.linear_and_sum(states, other, self._packed(f"{name}.dense"), bias), name)

    def _norm(self, states: Tensor, name: str) -> Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return functional.layer_norm(states, weight.shape, weight, bias, self._settings["eps"])


def takes(items: Sequence[Item], role: str, traits: Traits, precision: str, settings: Mapping[str, Any]) -> bool:
    """Whether ``items`` are a question that a :class:`QuestionModel` of those ``settings`` may embed."""
    is_question = role == "query" and len(items) == 1 and type(items[0]) is str
    dtype = traits.computes_in(precision)
    return is_question and dtype in settings["dtypes"] and onednn.works(getattr(torch, dtype))


def settings_of(encoder: TorchEncoder, path: str) -> dict[str, Any] | None:
    """What a :class:`QuestionModel` of the folder takes, with the ``dtypes`` in which it has the weights and the
    tokenizer of ``encoder``, which was loaded from there, and gives the same bits for several texts; ``None`` if it
    does in none."""
    modules = list(encoder.model)
    config: Any = getattr(modules[0], "config", None)
    pooling = getattr(modules[-1], "pooling_mode", None)
    is_bert = getattr(config, "model_type", None) == "bert" and len(modules) == 2 and pooling in _POOLINGS
    weights = next(encoder.model.parameters(), None)  # a graph has none
    if not is_bert or weights is None or not all(Path(path, name).is_file() for name in (_WEIGHTS, _TOKENIZER)):
        return None
    settings = {
        "heads": config.num_attention_heads,
        "layers": config.num_hidden_layers,
        "eps": config.layer_norm_eps,
        "weights": name_of(weights.dtype),
        "pooling": pooling,
    }
    with progress("looking at the model", len(_PRECISIONS) * len(_COMPARED), "texts"):
        dtypes = [encoder.computes_in(name) for name in _PRECISIONS if _stands_for(encoder, name, path, settings)]
    return {**settings, "dtypes": dtypes} if dtypes else None


def _stands_for(encoder: TorchEncoder, precision: str, path: str, settings: Mapping[str, Any]) -> bool:
    if encoder.device.type != "cpu" or not onednn.works(PRECISIONS[precision]):
        return False
    question = QuestionModel(path, encoder, settings, encoder.computes_in(precision))
    return question.has_parts_of(encoder) and question.agrees(encoder, precision)
