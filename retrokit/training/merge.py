"""The average of encoders of one architecture, weight by weight (model soups; Wortsman et al., 2022)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

from retrokit import encoders
from retrokit.core.errors import UsageError, disk_errors
from retrokit.core.notices import notice, progress
from retrokit.core.outputs import folder_in_the_making
from retrokit.core.settings import taking
from retrokit.data.runs import FINISHED, Run, write_run
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.base import Encoder
from retrokit.encoders.fingerprint import describe
from retrokit.encoders.modules import Prepare
from retrokit.encoders.towers import with_modules
from retrokit.similarities.base import Role
from retrokit.training.card import card_of_merged
from retrokit.training.config import MergeSettings
from retrokit.training.model import check_weights, export
from retrokit.training.run import provenance
from retrokit.training.run_folder import check_name_of_model

_LISTED = 3
_OF_TRAINING = ("id2label", "label2id", "initializer_range")  # and all with dropout in their names


@dataclass(frozen=True)
class Merged:
    """The new folder, its similarity, and each encoder with its weight."""

    folder: str
    similarity: str
    shares: list[tuple[str, float]]


@taking(MergeSettings)
def merge(settings: MergeSettings) -> Merged:
    """Write the average of encoders into a new model folder.

    Sums are float32, and a tensor keeps its type, of several the widest. A learned similarity (γ) is averaged too.
    Prompts and lengths are those of the first encoder, which is in memory with the sum and one other.

    Raises:
        UsageError: encoders that differ in more than their weights, weights that cannot be added, or a folder that
            exists.
        DataError: weights that are not finite.
    """
    shares, merged = list(zip(settings.encoders, settings.shares, strict=True)), []
    check_name_of_model(settings.output)
    with folder_in_the_making(settings.output) as staged:
        total: _Sum | None = None
        with progress("merging", len(shares), "encoders") as advance:
            for spec, share in shares:
                encoder: Encoder = encoders.registry.create_on(spec, "cpu")
                total = total or _Sum(encoder, settings.sim)
                total.add(encoder, share)
                merged.append({"encoder": spec, "fingerprint": encoder.fingerprint(), "counts": share})
                advance(1)
        assert total is not None  # of two encoders or more
        model, similarity = total.model(), total.similarity
        with disk_errors(settings.output):
            export(model, staged)
            card = card_of_merged(Path(settings.output).name, list(model)[-1].similarity, shares)
            (staged / "README.md").write_text(card, encoding="utf-8")
        files = sorted(path.name for path in staged.iterdir())
        notes = {"merged": merged, **provenance()}
        write_run(Run(FINISHED, similarity, settings.encoders[0], files=files, notes=notes), staged)
    return Merged(settings.output, similarity, shares)


class _Sum:
    """Σ share · weights of encoders that have one similarity: ``chosen``, or the first's."""

    def __init__(self, first: Encoder, chosen: str | None) -> None:
        self.first, self.chosen, self.similarity = first, chosen, chosen or first.similarity.spec
        self._traits, self._model = _traits(first), self._with_similarity(first)
        self._sums: dict[str, torch.Tensor] = {}
        self._types: dict[str, torch.dtype] = {}

    def add(self, encoder: Encoder, share: float) -> None:
        """Compare an encoder with the first, then add it."""
        if is_quantized(encoder.to_train().model[0]):
            raise UsageError(f"{encoder.spec}: quantised weights cannot be averaged; load it without bits")
        self._compare(encoder)
        model = self._with_similarity(encoder)
        check_weights(model, encoder.spec)
        weights, start = model.state_dict(), self._model.state_dict()
        shapes = {name: (_shape(start, name), _shape(weights, name)) for name in sorted(start.keys() | weights.keys())}
        if different := [f"{name} {a} and {b}" for name, (a, b) in shapes.items() if a != b]:
            raise self._differ(encoder, f"weights: {', '.join(different[:_LISTED])}")
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                self._types[name] = torch.promote_types(self._types.get(name, tensor.dtype), tensor.dtype)
                part = tensor.detach().float() * share
                self._sums[name] = self._sums[name].add_(part) if name in self._sums else part
            elif not torch.equal(tensor, start[name]):
                raise self._differ(encoder, f"{name}, which are whole numbers")

    def model(self) -> SentenceTransformer:
        """The first encoder's model with the sum as its weights."""
        for name, tensor in self._model.state_dict(keep_vars=True).items():
            if name in self._sums:
                tensor.data = self._sums[name].to(self._types[name])
        return self._model

    def _with_similarity(self, encoder: Encoder) -> SentenceTransformer:
        prepare = Prepare(self.similarity)
        prepare.similarity.check_dimension(encoder.dimension)
        if prepare.similarity.state_dict():
            if encoder.similarity.spec != self.similarity:
                raise UsageError(f"{encoder.spec}: similarity {encoder.similarity.spec}; expected {self.similarity}")
            prepare.similarity.load_state_dict(encoder.similarity.state_dict())
        prepare.similarity.spec = self.similarity
        trained = encoder.to_train().model
        return with_modules(trained, [*trained, prepare])

    def _compare(self, encoder: Encoder) -> None:
        first, mine, other = self.first, self._traits, _traits(encoder)
        if encoder.similarity.spec != self.similarity and self.chosen is None:
            both = f"similarity: {first.similarity.spec} and {encoder.similarity.spec}"
            raise self._differ(encoder, f"{both}; give the `sim=` of the result")
        if different := [key for key in {**mine, **other} if mine.get(key) != other.get(key)]:
            texts = {
                key: f"{key.replace('_', ' ')}: {mine.get(key)} and {other.get(key)}" for key in different[:_LISTED]
            }
            raise self._differ(encoder, ", ".join(text if len(text) < 200 else key for key, text in texts.items()))
        roles: tuple[Role, Role] = ("query", "document")
        if first.prompts != encoder.prompts or any(first.max_length(r) != encoder.max_length(r) for r in roles):
            notice(f"{encoder.spec} has other prompts or lengths than {first.spec}, whose are used")

    def _differ(self, encoder: Encoder, what: str) -> UsageError:
        return UsageError(f"{self.first.spec} and {encoder.spec} cannot be averaged: they differ in {what}")


def _traits(encoder: Encoder) -> dict[str, Any]:
    """What must be the same: architecture, what follows the transformer, tokenizer."""
    described = describe(encoder.to_train().model)
    traits: dict[str, Any] = {}
    for number, part in enumerate(described.get("towers", [described])):
        modules, settings = part.pop("modules"), part.pop("architecture")
        own = {"modules": " → ".join(module["class"] for module in modules)}
        own |= {key: value for key, value in settings.items() if key not in _OF_TRAINING and "drop" not in key}
        for module in modules[1:]:
            own |= {f"{module['class']} {key}": value for key, value in module["config"].items()}
        tower = f" of tower {number + 1}" if number else ""
        traits |= {f"{key}{tower}": value for key, value in {**own, **part}.items()}
    return traits


def _shape(weights: dict[str, torch.Tensor], name: str) -> str:
    return " × ".join(map(str, weights[name].shape)) if name in weights else "none"
