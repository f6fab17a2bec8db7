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
from retrokit.core.errors import UsageError
from retrokit.core.registry import Spec
from retrokit.core.settings import taking
from retrokit.data.exports import Canaries, open_export, read_canaries
from retrokit.encoders.base import Encoder
from retrokit.extensions.vectors.settings import CanarySettings

SAME = 0.999  # cosine
EXACT = 0.99999  # cosine; float32 in other batches differs by less, bf16 by more
NORMS = 0.01  # relative difference
_PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_ENDS = 16  # places of a text that are tried at once

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
class CanaryReport:
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
    # bf16 agrees as it is: only what makes it exact explains it
    enough = EXACT if first.cosine >= SAME else SAME
    explanations = [f"{trial.cause} ({trial.change})" for trial in changed if trial.cosine >= enough]
    same = next((trial for trial in trials if trial.cosine >= SAME), None)
    if same is not None and same.norms_differ and work.is_unit:
        explanations.append("normalisation (one of the two gives norm 1)")
    uses_norms = similarities.registry.create(similarity).uses_magnitude
    agrees = same is first and not (uses_norms and first.norms_differ)
    verdict = [f"the vectors of {encoder} {'agree' if agrees else 'do not agree'} with those of {folder}"]
    verdict += [f"explained by {' or '.join(explanations)}"] if explanations else []
    verdict += ["no single change makes them agree"] if not agrees and not explanations else []
    verdict += [f"{similarity} does not use norms"] if agrees and first.norms_differ else []
    about = canaries.role, canaries.prompt, len(canaries.texts)
    return CanaryReport(folder, encoder, *about, trials, explanations, agrees, "; ".join(verdict))


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
        precisions = [precision for precision in _PRECISIONS.values() if _computes_in(encoder, precision)]
        wanted = _PRECISIONS.get(self._about["precision"])
        if wanted in precisions:
            self._precision = wanted
        rows = embed(self._texts)
        self.is_unit = any(np.allclose(np.linalg.norm(part, axis=1), 1, atol=NORMS) for part in (rows, self._raw))
        first = self._trial("", "as it is", rows)
        yield first
        role, limit = self._role, self._about.get("max_length", {}).get(self._role)
        changes: list[tuple[str, str, Any]] = []
        if first.cosine < SAME:
            changes += [("pooling", "pooling", pooling) for pooling in ("mean", "cls", "last")]
            own = encoder.prompts[role] or ""
            prompts = [text for text in dict.fromkeys((self._prompt, "")) if text != own]
            changes += [("prompt", f"{role}_prompt", text) for text in prompts]
            if limit not in (None, encoder.max_length(role)):
                changes.append(("length", "query_max_length" if role == "query" else "max_length", limit))
            if limit is not None and "max_length" not in self._names:
                cut = self._cut(embed, limit)
                yield self._trial("length", f"texts cut at about {limit} tokens", embed(cut))
        if first.cosine < EXACT and self._precision != "auto":
            others = [precision for precision in precisions if precision != self._precision]
            changes += [("precision", "precision", precision) for precision in others]
            changes += [("precision", "dtype", "fp32")] if "dtype" in self._spec.params else []
        for cause, name, value in changes:
            if name == "precision":
                yield self._trial(cause, f"{name}={value}", self._encoder(precision=value)[1](self._texts))
            elif name in self._names and self._spec.params.get(name) != value:
                rows = self._encoder(**{name: value})[1](self._texts)
                yield self._trial(cause, f"{name}={value!r}" if cause == "prompt" else f"{name}={value}", rows)

    def _encoder(self, precision: str | None = None, **params: Any) -> tuple[Any, Embed]:
        """The encoder with other parameters, and what embeds texts with it."""
        spec = self._spec.changed(**params)
        encoder = encoders.registry.create(spec, **({} if self._device is None else {"device": self._device}))

        def embed(texts: Sequence[str]) -> np.ndarray:
            rows: np.ndarray = encoder.embed(texts, self._role, precision or self._precision)
            rows = rows[:, : self._about["dims"]] if rows.shape[1] == self._about["dimension"] else rows
            if rows.shape[1] != self._raw.shape[1]:
                wanted = self._raw.shape[1]
                raise UsageError(
                    f"{spec}: gives {rows.shape[1]} dimensions, and the export has {wanted}; name its model"
                )
            return rows

        return encoder, embed

    def _trial(self, cause: str, change: str, rows: np.ndarray) -> Trial:
        lengths = [np.maximum(np.linalg.norm(part, axis=1), 1e-12) for part in (rows, self._raw)]
        new, old = _unit(rows), _unit(self._raw)
        cosines, ratios = (new * old).sum(axis=1), lengths[0] / lengths[1]
        orders = [
            kendalltau(*(np.delete(part @ part[place], place) for part in (new, old))).statistic
            for place in range(len(rows))
        ]
        order = float(np.nan_to_num(orders, nan=1.0).mean())  # nan: there is nothing to order
        norms = float(ratios.min()), float(ratios.max())
        return Trial(cause, change, float(cosines.min()), norms, order, int((cosines >= SAME).sum()))

    def _cut(self, embed: Embed, limit: int) -> list[str]:
        """Each text up to the place at which its vector comes nearest to the export's: the end of one of its first
        ``limit`` words, or a place in the word after that."""
        texts = []
        for text, target in zip(self._texts, _unit(self._raw), strict=True):
            ends = [word.end() for word in re.finditer(r"\w+|[^\w\s]", text)][:limit]
            for _ in range(2):
                low, high = 0, len(ends) - 1
                while True:
                    tried = sorted({*np.linspace(low, high, _ENDS).round().astype(int).tolist()})
                    best = int((_unit(embed([text[: ends[place]] for place in tried])) @ target).argmax())
                    if len(tried) == high - low + 1:
                        break
                    low, high = tried[max(0, best - 1)], tried[min(len(tried) - 1, best + 1)]
                place = tried[best]
                nearest, ends = ends[place], list(range(ends[place], ends[min(place + 1, len(ends) - 1)] + 1))
            texts.append(text[:nearest])
        return texts


def _computes_in(encoder: Encoder, precision: str) -> bool:
    try:
        encoder.computes_in(precision)
    except UsageError:
        return False
    return True


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
