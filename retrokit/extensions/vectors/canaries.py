"""Whether another server or model folder gives the vectors of an export, and if not, why: one change at a time.

An explanation is reported only if its change makes the vectors agree: the cosine of every text is at least
:data:`SAME`. Services differ by less from one call to the next, and bf16 from fp32. Another pooling, prompt or length
differs by more for some text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from retrokit import encoders, similarities
from retrokit.core.errors import DataError, UsageError
from retrokit.core.registry import Spec
from retrokit.core.settings import taking
from retrokit.data.exports import CANARIES, Canaries, Export, open_export
from retrokit.data.jsonl import read_json
from retrokit.data.records import PrintedRecord
from retrokit.encoders.base import Encoder
from retrokit.extensions.vectors.settings import CanarySettings

SAME = 0.999  # cosine
EXACT = 0.99999  # cosine; float32 in other batches differs by less, bf16 by more
NORMS = 0.01  # relative difference
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_ENDS = 16  # ends of a text that are tried at once

Embed = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Trial:
    """An encoder as it is (``cause`` is empty) or with one change, compared with the export.

    Attributes:
        cause: ``pooling``, ``prompt``, ``length`` or ``precision``.
        cosine: the least of all texts.
        norms: least and greatest ratio of its norms to the export's.
        order: Kendall's τ of the neighbours, mean over texts.
        agreeing: texts with a cosine of at least :data:`SAME`.
    """

    cause: str
    change: str
    cosine: float
    norms: tuple[float, float]
    order: float
    agreeing: int

    @property
    def norms_differ(self) -> bool:
        """Whether norms are other than the export's."""
        return max(abs(ratio - 1) for ratio in self.norms) > NORMS


@dataclass(frozen=True)
class CanaryReport(PrintedRecord):
    """What the comparison of ``encoder`` with ``export`` gave.

    Attributes:
        role, prompt: with which the ``texts`` texts were embedded for the export.
        trials: the encoder as it is, then each change.
        explanations: changes that make the vectors agree.
        agrees: whether the encoder ranks as the export's does: by cosines, and by norms if the similarity uses them.
        verdict: in a sentence.
    """

    export: str
    encoder: str
    role: str
    prompt: str | None
    texts: int
    trials: list[Trial]
    explanations: list[str]
    agrees: bool
    verdict: str

    @property
    def conclusion(self) -> str:
        return self.verdict


def read_canaries(export: Export) -> Canaries:
    """The canaries of an export, of shards those of the first. Raises :class:`UsageError` if it has none, and
    :class:`DataError` if they are damaged."""
    path = export.parts[0].folder / CANARIES
    if not path.is_file():
        raise UsageError(f"{export.folder}: has no {CANARIES}; export again")
    canaries: Canaries = read_json(path, "the canaries of an export", Canaries)
    widths = {*map(len, canaries.embeddings)}
    if len(canaries.texts) != len(canaries.embeddings) or len(widths) != 1:
        raise DataError(path, "contains no embedding for each text; export again")
    return canaries


def _explanations(first: Trial, changed: Sequence[Trial], is_unit: bool) -> list[str]:
    """Changes that make the vectors agree; ``is_unit``: one of the two encoders gives norm 1."""
    # bf16 agrees as it is: only what makes it exact explains it
    enough = EXACT if first.cosine >= SAME else SAME
    explanations = [f"{trial.cause} ({trial.change})" for trial in changed if trial.cosine >= enough]
    same = next((trial for trial in [first, *changed] if trial.cosine >= SAME), None)
    if is_unit and same is not None and same.norms_differ:
        explanations.append("normalisation (one of the two gives norm 1)")
    return explanations


@taking(CanarySettings)
def verify(settings: CanarySettings) -> CanaryReport:
    """Embed the canaries of an export with another encoder, and compare.

    Raises:
        UsageError: no export, one without canaries, a wrong name, or an encoder of another dimension.
        ServiceError: a service failed.
    """
    folder, encoder = settings.export, settings.encoder
    export = open_export(folder)
    canaries, similarity = read_canaries(export), export.note["similarity"]["spec"]
    work = _Comparison(export.note["encoder"], canaries, encoders.registry.parse(encoder), settings.device)
    first, *changed = trials = list(work.trials())
    explanations = _explanations(first, changed, work.is_unit)
    uses_norms = similarities.registry.create(similarity).uses_magnitude
    agrees = first.cosine >= SAME and not (uses_norms and first.norms_differ)
    verdict = _verdict(encoder, folder, agrees, explanations)
    if agrees and first.norms_differ:
        verdict += f"; {similarity} does not use norms"
    return CanaryReport(
        export=folder,
        encoder=encoder,
        role=canaries.role,
        prompt=canaries.prompt,
        texts=len(canaries.texts),
        trials=trials,
        explanations=explanations,
        agrees=agrees,
        verdict=verdict,
    )


def _verdict(encoder: str, folder: str, agrees: bool, explanations: Sequence[str]) -> str:
    verdict = f"the vectors of {encoder} {'agree' if agrees else 'do not agree'} with those of {folder}"
    if explanations:
        return f"{verdict}; explained by {' or '.join(explanations)}"
    return verdict if agrees else f"{verdict}; no single change makes them agree"


class _Comparison:
    def __init__(self, about: dict[str, Any], canaries: Canaries, spec: Spec, device: str | None) -> None:
        self._about, self._texts, self._spec, self._device = about, canaries.texts, spec, device
        self._role: Any = canaries.role
        self._prompt = canaries.prompt or ""
        self._raw = np.array(canaries.embeddings, dtype=np.float32)
        self._names = {param.name for param in encoders.registry.entry(spec.name).params}
        self._precision = "auto"
        self.is_unit = False  # whether one of the two normalises

    def trials(self) -> Iterator[Trial]:
        """The encoder as it is, and with each change that may explain what it lacks."""
        encoder, embed = self._encoder()
        precisions = [precision for precision in _PRECISIONS.values() if can_compute_in(encoder, precision)]
        exported = _PRECISIONS.get(self._about["precision"])
        if exported in precisions:
            self._precision = exported
        rows = embed(self._texts)
        self.is_unit = _are_unit(rows) or _are_unit(self._raw)
        first = self._trial("", "as it is", rows)
        yield first
        if first.cosine < SAME:
            limit = self._limit
            if limit is not None and "max_length" not in self._names:
                yield self._trial("length", f"texts cut at about {limit} tokens", embed(self._cut(embed, limit)))
            yield from self._other_inputs(encoder)
        if first.cosine < EXACT and self._precision != "auto":
            yield from self._other_precisions(precisions)

    @property
    def _limit(self) -> int | None:
        """Tokens of a text that the export's encoder read."""
        limit: int | None = self._about.get("max_length", {}).get(self._role)
        return limit

    def _other_inputs(self, encoder: Encoder) -> Iterator[Trial]:
        for cause, name, value in self._input_changes(encoder):
            if name in self._names and self._spec.params.get(name) != value:
                _, embed = self._encoder(**{name: value})
                change = f"{name}={value!r}" if cause == "prompt" else f"{name}={value}"
                yield self._trial(cause, change, embed(self._texts))

    def _input_changes(self, encoder: Encoder) -> Iterator[tuple[str, str, Any]]:
        """Other poolings, prompts and lengths: the cause, the parameter, and its value."""
        for pooling in ("mean", "cls", "last"):
            yield "pooling", "pooling", pooling
        encoder_prompt = encoder.prompts[self._role] or ""
        for prompt in dict.fromkeys((self._prompt, "")):
            if prompt != encoder_prompt:
                yield "prompt", f"{self._role}_prompt", prompt
        if self._limit not in (None, encoder.max_length(self._role)):
            yield "length", "query_max_length" if self._role == "query" else "max_length", self._limit

    def _other_precisions(self, precisions: Sequence[str]) -> Iterator[Trial]:
        for precision in precisions:
            if precision != self._precision:
                _, embed = self._encoder(precision=precision)
                yield self._trial("precision", f"precision={precision}", embed(self._texts))
        if self._spec.params.get("dtype", "fp32") != "fp32":
            _, embed = self._encoder(dtype="fp32")
            yield self._trial("precision", "dtype=fp32", embed(self._texts))

    def _encoder(self, precision: str | None = None, **params: Any) -> tuple[Any, Embed]:
        """The encoder with other parameters, and what embeds texts with it."""
        spec = self._spec.changed(**params)
        context = {} if self._device is None else {"device": self._device}
        encoder = encoders.registry.create(spec, **context)
        dimension = self._raw.shape[1]

        def embed(texts: Sequence[str]) -> np.ndarray:
            rows: np.ndarray = encoder.embed(texts, self._role, precision or self._precision)
            if rows.shape[1] == self._about["dimension"]:
                rows = rows[:, : self._about["dims"]]
            if rows.shape[1] != dimension:
                raise UsageError(
                    f"{spec}: gives {rows.shape[1]} dimensions, and the export has {dimension}; name its model"
                )
            return rows

        return encoder, embed

    def _trial(self, cause: str, change: str, rows: np.ndarray) -> Trial:
        new, old = _unit(rows), _unit(self._raw)
        cosines = (new * old).sum(axis=1)
        ratios = _norms(rows)[:, 0] / _norms(self._raw)[:, 0]
        orders = []
        for index in range(len(rows)):
            new_neighbours = np.delete(new @ new[index], index)
            old_neighbours = np.delete(old @ old[index], index)
            orders.append(kendalltau(new_neighbours, old_neighbours).statistic)
        return Trial(
            cause,
            change,
            cosine=float(cosines.min()),
            norms=(float(ratios.min()), float(ratios.max())),
            order=float(np.nan_to_num(orders, nan=1.0).mean()),  # nan: there is nothing to order
            agreeing=int((cosines >= SAME).sum()),
        )

    def _cut(self, embed: Embed, limit: int) -> list[str]:
        """Each text up to the character at which its vector comes nearest to the export's: the end of one of its first
        ``limit`` words, or a character of the word after that."""
        texts = []
        for text, target in zip(self._texts, _unit(self._raw), strict=True):
            ends = [word.end() for word in re.finditer(r"\w+|[^\w\s]", text)][:limit]
            word = _nearest_end(embed, text, ends, target)
            following = ends[min(word + 1, len(ends) - 1)]
            characters = list(range(ends[word], following + 1))
            texts.append(text[: characters[_nearest_end(embed, text, characters, target)]])
        return texts


def _nearest_end(embed: Embed, text: str, ends: Sequence[int], target: np.ndarray) -> int:
    """Which of the ``ends`` to cut ``text`` at, so that its vector is nearest to ``target``; by narrowing a grid."""
    low, high = 0, len(ends) - 1
    while True:
        grid = sorted({*np.linspace(low, high, _ENDS).round().astype(int).tolist()})
        best = int((_unit(embed([text[: ends[index]] for index in grid])) @ target).argmax())
        if len(grid) == high - low + 1:
            return grid[best]
        low, high = grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]


def can_compute_in(encoder: Encoder, precision: str) -> bool:
    """Whether ``precision`` can be chosen; a service has its own."""
    try:
        encoder.computes_in(precision)
    except UsageError:
        return False
    return True


def _norms(rows: np.ndarray) -> np.ndarray:
    """``[n, 1]``, at least 1e-12."""
    return np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / _norms(rows)


def _are_unit(rows: np.ndarray) -> bool:
    return np.allclose(np.linalg.norm(rows, axis=1), 1, atol=NORMS)
