"""Plain models, a transformer or a table of token embeddings and what follows it, without sentence-transformers,
whose import takes longer than to embed many texts.

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
from retrokit.data.jsonl import read_json
from retrokit.encoders.fingerprint import attention_of, tokenizer_settings
from retrokit.encoders.precision import PRECISIONS, name_of
from retrokit.encoders.tables import PlainModel, StaticEmbedding, set_length
from retrokit.encoders.torch_encoder import TorchEncoder

_WEIGHTS, _TOKENIZER, _MODULES = "model.safetensors", "tokenizer.json", "modules.json"
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


class PlainDense(nn.Module):
    """A linear layer with the ``weights`` of the library's, and the class of an ``activation`` behind it."""

    def __init__(self, weights: Mapping[str, Tensor], activation: str) -> None:
        super().__init__()
        outputs, inputs = weights["linear.weight"].shape
        self.linear = nn.Linear(inputs, outputs, bias="linear.bias" in weights)
        self.load_state_dict(weights)
        self.activation = imported(activation)()

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace the embeddings of texts ``[n, d]`` by ``[n, d']``."""
        return {**features, "sentence_embedding": self.activation(self.linear(features["sentence_embedding"]))}


class PlainNormalize(nn.Module):
    """Gives embeddings the length 1."""

    def forward(self, features: dict[str, Any]) -> dict[str, Any]:
        """Replace the embeddings of texts ``[n, d]``."""
        return {**features, "sentence_embedding": nn.functional.normalize(features["sentence_embedding"], dim=-1)}


class PlainEncoder(TorchEncoder):
    """An encoder that only embeds, with the bits of the one that has the ``traits``.

    Args:
        path: the model's folder.
        traits: an encoder with the model's prompts, lengths, dimension and fingerprints.
        modules: settings of each module: of a transformer the classes of ``model`` and ``tokenizer``, the type of the
            ``weights`` and the kind of ``attention``; of a ``table`` its folder and the type; of a ``pooling`` its
            mode; of a ``dense`` layer its folder and its ``activation``; of one that normalises none.
    """

    def __init__(self, path: str, traits: Any, modules: Sequence[Mapping[str, Any]]) -> None:
        prompts = {**traits.task_prompts, **traits.prompts}
        plain: Any = PlainModel([_module(path, traits, settings).eval() for settings in modules], prompts=prompts)
        super().__init__(traits.spec, plain, traits.similarity, traits.had_normalize)
        self._traits = traits

    @property
    def dimension(self) -> int:
        return int(self._traits.dimension)

    def fingerprint(self) -> str:
        return str(self._traits.fingerprint())


def _module(path: str, traits: Any, settings: Mapping[str, Any]) -> nn.Module:
    if "model" in settings:
        return _transformer(path, traits, settings)
    if "pooling" in settings:
        return PlainPooling(settings["pooling"])
    if "table" in settings:
        return _table(Path(path, settings["table"]), traits, settings)
    if "dense" in settings:
        return PlainDense(_weights(Path(path, settings["dense"])), settings["activation"])
    return PlainNormalize()


def _transformer(path: str, traits: Any, settings: Mapping[str, Any]) -> PlainTokenModel:
    with no_progress_bars():
        model = imported(settings["model"]).from_pretrained(
            path,
            dtype=getattr(torch, settings["weights"]),
            attn_implementation=settings["attention"],
        )
    tokenizer = imported(settings["tokenizer"]).from_pretrained(path)
    lengths = {role: traits.max_length(role) for role in ("query", "document")}
    return PlainTokenModel(model, tokenizer, lengths)


def _table(folder: Path, traits: Any, settings: Mapping[str, Any]) -> StaticEmbedding:
    tokenizer = imported("tokenizers:Tokenizer").from_file(str(folder / _TOKENIZER))
    set_length(tokenizer, traits.spec, traits.max_length("document"))
    weights = _weights(folder)["embedding.weight"].to(getattr(torch, settings["weights"]))
    return StaticEmbedding(tokenizer, nn.EmbeddingBag.from_pretrained(weights))


def _weights(folder: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = imported("safetensors.torch:load_file")(folder / _WEIGHTS)
    return weights


def plain_settings(encoder: TorchEncoder, path: str) -> list[dict[str, Any]] | None:
    """Settings of a :class:`PlainEncoder` with the bits of ``encoder``, loaded from ``path``, or ``None``."""
    settings = _settings(encoder, Path(path))
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


def _may_be_plain(encoder: TorchEncoder) -> bool:
    """Whether the library's model is on the CPU, is not truncated, and has few weights of one type."""
    model = encoder.model
    if isinstance(model, PlainModel) or encoder.device.type != "cpu" or model.truncate_dim is not None:
        return False
    weights = list(model[0].parameters())
    types = {weight.dtype for weight in weights}
    size = sum(weight.numel() for weight in weights)
    return len(types) == 1 and types <= {*PRECISIONS.values()} and size <= _LARGEST


def _settings(encoder: TorchEncoder, path: Path) -> list[dict[str, Any]] | None:
    """The settings, if all modules are known ones, and have the files to load them from."""
    if not _may_be_plain(encoder):
        return None
    model = encoder.model
    folders = [""] * len(model)
    if (path / _MODULES).is_file():
        folders = [entry["path"] for entry in read_json(path / _MODULES, "modules", list)]
    settings = []
    for module, folder in zip(model, folders, strict=False):
        module_settings = _settings_of(module, path, folder)
        if module_settings is None:
            return None
        settings.append(module_settings)
    settings[0]["weights"] = name_of(next(model[0].parameters()).dtype)
    embeds_texts = any("table" in each or "pooling" in each for each in settings)
    return settings if embeds_texts else None


def _settings_of(module: Any, path: Path, folder: str) -> dict[str, Any] | None:
    """Those of a module of the library that was loaded from ``folder``; ``None`` of one that only it can compute."""
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding as LibraryTable

    kind = type(module)
    if kind is Transformer:
        return _transformer_settings(module, path)
    if kind is Pooling and module.pooling_mode in ("mean", "cls") and module.include_prompt:
        return {"pooling": module.pooling_mode}
    if kind is LibraryTable and (path / folder / _TOKENIZER).is_file() and (path / folder / _WEIGHTS).is_file():
        return {"table": folder}
    if kind is Dense and not module.use_residual and (path / folder / _WEIGHTS).is_file():
        activation = type(module.activation_function)
        return {"dense": folder, "activation": f"{activation.__module__}:{activation.__name__}"}
    return {} if kind is Normalize else None


def _transformer_settings(module: Any, path: Path) -> dict[str, Any] | None:
    classes = {"model": type(module.auto_model), "tokenizer": type(module.tokenizer)}
    if not all(kind.__module__.startswith("transformers.") for kind in classes.values()):
        return None
    if not (path / "config.json").is_file() or not (path / _TOKENIZER).is_file():
        return None
    names = {name: f"{kind.__module__}:{kind.__name__}" for name, kind in classes.items()}
    return {**names, "attention": attention_of(module.config)}
