"""What the probe of lengths finds, as numbers and in words (MAG 4.3, N.2 and O)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from retrokit.metrics.bootstrap import paired_bootstrap
from retrokit.metrics.effect_size import EffectSize
from retrokit.probing.findings import Findings

METRIC = "ndcg@10"


@dataclass(frozen=True)
class Lengths:
    """Lengths of embeddings: how many, mean, population deviation; ``cv`` is deviation / mean (MAG, Eq. 27)."""

    count: int
    mean: float
    deviation: float

    @property
    def cv(self) -> float:
        """Coefficient of variation."""
        return self.deviation / self.mean if self.mean else 0.0

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return {**vars(self), "cv": self.cv}


@dataclass(frozen=True)
class Gain:
    """nDCG@10 of one way to score and of another, ``over`` which it is a gain."""

    of: str
    over: str
    score: float
    baseline: float

    @property
    def percent(self) -> float | None:
        """(score − baseline) / baseline × 100 (MAG, Figure 4); ``None`` where the baseline is 0."""
        return 100 * (self.score - self.baseline) / self.baseline if self.baseline else None


@dataclass(frozen=True)
class CvRatio:
    """Coefficient of variation of the query lengths of one encoder, ``over`` that of another; ``value`` is ``None``
    where the other's are all the same. MAG's ΔCV is that of a ``dnorm`` run over a ``dot`` run (N.2)."""

    of: str
    over: str
    value: float | None


@dataclass(frozen=True)
class LengthFinding:
    """The findings for one encoder on one data set.

    Attributes:
        effect: Cohen's d of relevant against irrelevant documents' lengths, the interval over queries drawn anew.
        gain: of qnorm's scores over cosine's on the same embeddings; with a baseline, of the encoder with its own
            similarity over the baseline with its own; ``None`` without labels.
        cv_ratio: ``None`` without an encoder to compare with.
        step: of a run's checkpoint; 0 is the encoder that it started from.
    """

    encoder: str
    task: str
    queries: Lengths
    relevant: Lengths
    irrelevant: Lengths
    effect: EffectSize
    gain: Gain | None
    cv_ratio: CvRatio | None = None
    step: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        gain = None if self.gain is None else {**vars(self.gain), "percent": self.gain.percent}
        ratio = None if self.cv_ratio is None else dict(vars(self.cv_ratio))
        lengths = {name: getattr(self, name).to_json() for name in ("queries", "relevant", "irrelevant")}
        return {**vars(self), **lengths, "effect": self.effect.to_json(), "gain": gain, "cv_ratio": ratio}

    def row(self) -> dict[str, Any]:
        """One flat row of a table."""
        values: dict[str, Any] = {"encoder": self.encoder, "task": self.task}
        if self.step is not None:
            values["step"] = self.step
        for name in ("queries", "relevant", "irrelevant"):
            values |= {f"{name}_{key}": value for key, value in getattr(self, name).to_json().items()}
        effect = self.effect.to_json()
        values |= {"d": effect["value"], "d_low": effect["low"], "d_high": effect["high"]}
        if self.gain is not None:
            values |= {"gain_of": self.gain.of, "gain_over": self.gain.over, METRIC: self.gain.score}
            values |= {f"{METRIC}_baseline": self.gain.baseline, "gain_percent": self.gain.percent}
        if self.cv_ratio is not None:
            values |= {"cv_ratio": self.cv_ratio.value, "cv_ratio_over": self.cv_ratio.over}
        return values


@dataclass(frozen=True)
class LengthCorrelation:
    """Pearson's r of d with the gain in percent over data sets, its two-sided p, and the regression line (Figure 4)."""

    encoder: str
    datasets: int
    r: float
    p: float
    slope: float
    intercept: float


@dataclass(frozen=True)
class EffectChange:
    """How d of one data set changed from a run's start to its end, over the same queries drawn anew for both."""

    task: str
    first_step: int
    last_step: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def is_clear(self) -> bool:
        """Whether the 95% interval leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class MagnitudeProbe(Findings):
    """All findings; ``notes`` say what was used and what could not be computed; ``curve`` is γ by step of a run."""

    results: list[LengthFinding]
    correlations: list[LengthCorrelation]
    notes: list[str]
    curve: list[dict[str, float]] = field(default_factory=list)

    @property
    def changes(self) -> list[EffectChange]:
        """Of a run, the change of d on every data set that has its interval at both ends."""
        ends = [(own[0], own[-1]) for own in self.by_task() if own[0].step is not None]
        return [change for first, last in ends if (change := change_of(first, last)) is not None]

    def by_task(self) -> list[list[LengthFinding]]:
        """The results on each data set."""
        tasks = dict.fromkeys(result.task for result in self.results)
        return [[result for result in self.results if result.task == task] for task in tasks]

    @property
    def conclusion(self) -> str:
        return _conclusion(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "results": [result.to_json() for result in self.results],
            "correlations": [dict(vars(correlation)) for correlation in self.correlations],
            "changes": [dict(vars(change)) for change in self.changes],
            "gamma": self.curve,
            "notes": self.notes,
            "conclusion": self.conclusion,
        }

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        tables = {
            "magnitude": [result.row() for result in self.results],
            "correlation": [dict(vars(correlation)) for correlation in self.correlations],
            "change": [dict(vars(change)) for change in self.changes],
            "gamma": [dict(row) for row in self.curve],
        }
        return {name: rows for name, rows in tables.items() if rows}


def points_of(results: Sequence[LengthFinding]) -> list[tuple[float, float]]:
    """(d, gain in percent) of the data sets that have both."""
    points = [(r.effect.value, r.gain.percent) for r in results if r.gain is not None]
    return [(d, percent) for d, percent in points if percent is not None and not math.isnan(d)]


def correlate(encoder: str, points: Sequence[tuple[float, float]]) -> LengthCorrelation:
    """The regression of gains on d; ``points`` are (d, gain in percent) of three data sets or more."""
    from scipy.stats import linregress

    line = linregress(*zip(*points, strict=True))
    return LengthCorrelation(encoder, len(points), *map(float, (line.rvalue, line.pvalue, line.slope, line.intercept)))


def change_of(first: LengthFinding, last: LengthFinding) -> EffectChange | None:
    """The change of d between two steps on one data set, whose queries are drawn together; ``None`` where a d or its
    interval is undefined."""
    before, after = first.effect, last.effect
    if before.draws is None or after.draws is None or not all(map(math.isfinite, (before.low, after.low))):
        return None
    test = paired_bootstrap(before.draws, after.draws)
    return EffectChange(first.task, first.step or 0, last.step or 0, test.difference, test.low, test.high, test.p)


# --- in words


def _conclusion(probe: MagnitudeProbe) -> str:
    results = probe.results
    if any(result.step is not None for result in results):
        return _through_training(probe)
    text = _single(results[0]) if len(results) == 1 else _several(results)
    strong = [correlation for correlation in probe.correlations if correlation.p < 0.05]
    if probe.correlations and not strong:
        text += "; d does not predict the gain here (p ≥ 0.05)"
    elif strong:
        direction = "larger" if strong[0].r > 0 else "smaller"
        text += f"; where d is higher, the gain is {direction} (r = {strong[0].r:.2f}, p = {strong[0].p:.2g})"
    return text + "."


def _single(result: LengthFinding) -> str:
    effect = result.effect
    way = "longer" if effect.value > 0 else "shorter"
    if math.isnan(effect.value) or math.isnan(effect.low):
        text = "there are too few queries and documents to tell whether relevant documents are longer"
        return f"{result.encoder} on {result.task}: {text}{_gain_told(result.gain)}"
    if not effect.is_clear:
        text = "relevant documents are neither clearly longer nor clearly shorter"
        meaning = "document length says nothing about relevance"
    elif effect.size == "negligible":
        text = f"relevant documents are {way}, but negligibly so"
        meaning = "document length says next to nothing about relevance"
    else:
        text = f"relevant documents are clearly {way} (a {effect.size} effect)"
        meaning = "qnorm or dot can use document length" if effect.value > 0 else "document length misleads a ranking"
    return f"{result.encoder} on {result.task}: {text}, so {meaning}{_gain_told(result.gain)}"


def _gain_told(gain: Gain | None) -> str:
    if gain is None or gain.percent is None:
        return ""
    what = "gains" if gain.percent >= 0 else "loses"
    return f"; {gain.of} {what} {abs(gain.percent):.1f}% {METRIC} against {gain.over}"


def _several(results: Sequence[LengthFinding]) -> str:
    longer = sum(result.effect.low > 0 and result.effect.size != "negligible" for result in results)
    shorter = sum(result.effect.high < 0 and result.effect.size != "negligible" for result in results)
    text = (
        f"of {len(results)} pairs of encoder and data set, relevant documents are clearly longer in {longer} "
        f"and clearly shorter in {shorter}"
    )
    if longer > shorter:
        return f"{text}: where they are longer, qnorm or dot can use document length"
    if shorter > longer:
        return f"{text}: where they are shorter, leave document length out of the scores (cosine, dnorm)"
    return f"{text}: document length says little about relevance on the whole"


def _through_training(probe: MagnitudeProbe) -> str:
    first, *_, last = probe.by_task()[0]
    change = next((change for change in probe.changes if change.task == first.task), None)
    if change is None:
        text = f"there are too few queries and documents in {first.task} to tell how d went through training"
        return text + _gammas_told(probe.curve) + "."
    text = f"from step {first.step} to {last.step}, d on {first.task} went from {first.effect.value:+.2f} to "
    text += f"{last.effect.value:+.2f}, by {change.difference:+.2f} (95%: {change.low:+.2f} to {change.high:+.2f})"
    text += (
        ": training changed what document length says about relevance"
        if change.is_clear
        else ", within the sampling error: training left what document length says about relevance as it was"
    )
    return text + _gammas_told(probe.curve) + "."


def _gammas_told(curve: Sequence[dict[str, float]]) -> str:
    if not curve:
        return ""
    return f"; γq ends at {curve[-1]['gamma_query']:.4f} and γd at {curve[-1]['gamma_document']:.4f}"
