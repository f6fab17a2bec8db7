"""What can training move? Fisher information of norms and angle, and which side to normalise (MAG 4.1, 4.5, M).

E[(∂s/∂·)²] over pairs for the document's norm, the query's norm and the angle between them is what a similarity
lets training change (Table 2). The condition number κ of the second-moment matrix of ∂s/∂(q, d), smaller being more
balanced, predicts whether ``qnorm`` or ``dnorm`` trains better (Table 3, Eq. 26).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from retrokit import evaluation, similarities
from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import notice, progress
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet, digits
from retrokit.data.pairs import read_source
from retrokit.data.pairs import registry as sources
from retrokit.data.training_rows import texts_of_record
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import MemoizedEncoder
from retrokit.probing.base import Findings, encoders_of, parse_names, read_retrieval
from retrokit.probing.settings import UNDECIDED, FisherSettings
from retrokit.ranking.retrieval.embeddings import row_norms
from retrokit.similarities.base import TINY
from retrokit.similarities.magnitude import LearnedMagnitude, Magnitude


def partial_derivatives(
    gammas: tuple[float, float], queries: np.ndarray, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∂s/∂‖d‖, ∂s/∂‖q‖ and ∂s/∂θ, float64 ``[n]``, of ``s = ‖q‖^(1−γq) ‖d‖^(1−γd) cos θ`` (MAG, Eq. 11 to 25), for
    raw embeddings ``[n, d]``, row by row. γq = γd = 1 is cosine, whose first two derivatives are exactly 0.

    >>> q, d = np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]])  # norms 5 and 2, cos θ = 0.8
    >>> [round(float(part[0]), 6) for part in partial_derivatives((1.0, 0.0), q, d)]  # qnorm: cos θ, 0, −‖d‖ sin θ
    [0.8, 0.0, -1.2]
    """
    query_gamma, document_gamma = gammas
    q, d, cosine = _polar(queries, documents)
    sine = np.sqrt(np.maximum(0.0, (1 - cosine) * (1 + cosine)))
    by_document = (1 - document_gamma) * q ** (1 - query_gamma) * d**-document_gamma * cosine
    by_query = (1 - query_gamma) * q**-query_gamma * d ** (1 - document_gamma) * cosine
    by_angle = -(q ** (1 - query_gamma)) * d ** (1 - document_gamma) * sine
    return by_document, by_query, by_angle


def gradients(gammas: tuple[float, float], queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
    """∂s/∂(q, d), float64 ``[n, 2d]``, of the same similarity: q's part first (MAG, M.4.1).

    >>> gradients((1.0, 0.0), np.array([[0.0, 2.0]]), np.array([[3.0, 1.0]])).round(6).tolist()  # ((d − s q̂)/‖q‖, q̂)
    [[1.5, 0.0, 0.0, 1.0]]
    """
    query_gamma, document_gamma = gammas
    q, d, cosine = (side[:, None] for side in _polar(queries, documents))
    queries, documents = queries.astype(np.float64), documents.astype(np.float64)
    divisor = q**query_gamma * d**document_gamma
    score = q * d * cosine / divisor
    by_query = documents / divisor - query_gamma * score * queries / q**2
    by_document = queries / divisor - document_gamma * score * documents / d**2
    return np.hstack([by_query, by_document])


def _polar(queries: np.ndarray, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both norms (at least ``TINY``, as in the similarities) and cos θ, float64 ``[n]``."""
    queries, documents = queries.astype(np.float64), documents.astype(np.float64)
    q, d = (np.maximum(np.linalg.norm(side, axis=1), TINY) for side in (queries, documents))
    return q, d, np.clip((queries * documents).sum(axis=1) / (q * d), -1.0, 1.0)


FAMILY = ("cosine", "dot", "qnorm", "dnorm", "learn")
CANDIDATES = ("qnorm", "dnorm")
DRAWS = 100
_LEAST_EIGENVALUE = 1e-10  # of the largest; smaller ones are rounding
_LEAST_PAIRS = 10
COMPONENTS = {"document": "document norm", "query": "query norm", "angle": "angle"}
_NORMAL = 1.96  # standard deviations to each side of the mean that contain 95%

TextPairs = Sequence[tuple[str, str]]
Family = Magnitude | LearnedMagnitude


# --- the condition number


def condition_number(rows: np.ndarray) -> tuple[float, int]:
    """κ = λmax / λmin of the second-moment matrix ``GᵀG / n`` of gradients ``[n, m]``, over its eigenvalues above
    1e-10 of the largest, and how many those are. The gradients are not centred. 1 and 0 if all gradients are 0.

    >>> condition_number(np.array([[3.0, 0.0], [0.0, 1.0]]))
    (9.0, 2)
    """
    n, m = rows.shape
    # the nonzero eigenvalues of GᵀG and of GGᵀ are the same: take the smaller matrix
    values = np.linalg.eigvalsh(rows.T @ rows if m <= n else rows @ rows.T)
    positive = values[values > _LEAST_EIGENVALUE * values[-1]] if values[-1] > 0 else values[:0]
    return (float(positive[-1] / positive[0]), len(positive)) if len(positive) else (1.0, 0)


@dataclass(frozen=True)
class Prediction:
    """log₁₀ κ and the number of its eigenvalues by candidate, and what follows (MAG, Eq. 26).

    Attributes:
        difference: log₁₀ κ(qnorm) − log₁₀ κ(dnorm); ``low`` and ``high`` are ± 1.96 bootstrap SDs over pairs.
        lower: the candidate of the smaller κ, which Eq. 26 predicts.
        choice: the same if the interval excludes 0, else ``learn``.
    """

    log_kappa: dict[str, float]
    eigenvalues: dict[str, int]
    difference: float
    low: float
    high: float
    lower: str
    choice: str


def predict(queries: np.ndarray, documents: np.ndarray, seed: int = 0) -> Prediction:
    """κ of each candidate on pairs of raw embeddings ``[n, d]``, and the choice."""
    sides = {name: gradients(similarities.registry.create(name).gammas, queries, documents) for name in CANDIDATES}
    numbers = {name: condition_number(side) for name, side in sides.items()}
    logs = {name: math.log10(kappa) for name, (kappa, _) in numbers.items()}
    first, second = CANDIDATES
    difference = logs[first] - logs[second]
    margin = _NORMAL * _sampling_sd(list(sides.values()), seed)
    low, high = difference - margin, difference + margin
    lower = min(CANDIDATES, key=lambda name: logs[name])
    eigenvalues = {name: count for name, (_, count) in numbers.items()}
    choice = lower if low > 0 or high < 0 else UNDECIDED
    return Prediction(logs, eigenvalues, difference, low, high, lower, choice)


def _sampling_sd(both: Sequence[np.ndarray], seed: int) -> float:
    """Bootstrap SD of the difference of log₁₀ κ of two sets of gradients ``[n, m]``, over pairs.

    Not percentiles: a resample repeats pairs and spans fewer directions, so its κ is biased, the same way for both.
    """
    pairs = len(both[0])
    rng = np.random.default_rng(seed)
    differences = np.empty(DRAWS)
    with progress("bootstrap of κ", DRAWS, "draws") as advance:
        for i in range(DRAWS):
            rows, counts = np.unique(rng.integers(0, pairs, pairs), return_counts=True)
            weights = np.sqrt(counts)[:, None]  # a pair drawn w times stands for w equal rows
            first, second = (condition_number(side[rows] * weights)[0] for side in both)
            differences[i] = math.log10(first) - math.log10(second)
            advance(1)
    return float(differences.std(ddof=1))


# --- the probe


@dataclass(frozen=True)
class Information:
    """E[(∂s/∂·)²] of one similarity: of document norm, query norm and angle; exactly 0 where nothing can move."""

    derived: ClassVar = ("log10",)

    similarity: str
    document: float
    query: float
    angle: float

    @property
    def log10(self) -> dict[str, float | None]:
        """log₁₀; null of 0."""
        values = {name: getattr(self, name) for name in COMPONENTS}
        return {name: math.log10(value) if value > 0 else None for name, value in values.items()}


@dataclass(frozen=True)
class Fisher:
    """The findings for one encoder: information by similarity, and the prediction; ``dimension`` is the encoder's."""

    derived: ClassVar = ("kappa",)

    encoder: str
    data: str
    pairs: int
    dimension: int
    information: list[Information]
    prediction: Prediction

    @property
    def logs(self) -> np.ndarray:
        """log₁₀ of the information ``[3, similarities]``, NaN for exactly 0."""
        columns = [list(entry.log10.values()) for entry in self.information]
        return np.array(columns, dtype=np.float64).T

    @property
    def kappa(self) -> str:
        """How κ was computed."""
        counts = ", ".join(f"{count:,} ({name})" for name, count in self.prediction.eigenvalues.items())
        text = (
            f"κ: second-moment matrix of ∂s/∂(q, d) over {self.pairs:,} pairs, {2 * self.dimension:,} dimensions; "
            f"eigenvalues above {_LEAST_EIGENVALUE:g} of the largest: {counts}; interval: {DRAWS} resamples of pairs"
        )
        return text + self._few

    @property
    def _few(self) -> str:
        few = self.pairs < 2 * self.dimension
        return f"; fewer pairs than dimensions: κ covers at most {self.pairs:,} directions" if few else ""

    @property
    def verdict(self) -> str:
        """What κ predicts, in a few words."""
        prediction = self.prediction
        kappas = ", ".join(f"log₁₀ κ({name}) = {value:.2f}" for name, value in prediction.log_kappa.items())
        interval = f"95%: {prediction.low:+.2f} to {prediction.high:+.2f}"
        difference = f"the difference is {prediction.difference:+.2f} ({interval})"
        if prediction.choice == UNDECIDED:
            return f"{kappas}: {difference}, so neither is predicted to train better"
        other = next(name for name in CANDIDATES if name != prediction.choice)
        return f"{kappas}: {prediction.choice} is predicted to train better than {other}; {difference}{self._few}"


@dataclass(frozen=True)
class FisherProbe(Findings):
    """The findings for several encoders on the same pairs."""

    pictures: ClassVar = {"fisher": "Fisher information by similarity"}

    results: list[Fisher]

    @property
    def conclusion(self) -> str:
        return "; ".join(f"{result.encoder}: {result.verdict}" for result in self.results) + "."

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        information, kappas = [], []
        for result in self.results:
            for entry in result.information:
                for name, logarithm in entry.log10.items():
                    information.append(
                        {
                            "encoder": result.encoder,
                            "similarity": entry.similarity,
                            "component": name,
                            "information": getattr(entry, name),
                            "log10": logarithm,
                        }
                    )
            for name in CANDIDATES:
                kappas.append(
                    {
                        "encoder": result.encoder,
                        "similarity": name,
                        "log10_kappa": result.prediction.log_kappa[name],
                        "eigenvalues": result.prediction.eigenvalues[name],
                        "pairs": result.pairs,
                        "dimensions": 2 * result.dimension,
                        "predicted": result.prediction.choice,
                    }
                )
        return {"fisher": information, "kappa": kappas}

    def sheets(self) -> list[Sheet]:
        information, kappas = [], []
        for result in self.results:
            for label, values in zip(COMPONENTS.values(), result.logs.tolist(), strict=True):
                information.append([result.encoder, label, *(digits(value, ".2f", "none") for value in values)])
            prediction = result.prediction
            logs = [f"{prediction.log_kappa[name]:.3f}" for name in CANDIDATES]
            difference = f"{prediction.difference:+.3f} ({prediction.low:+.3f} to {prediction.high:+.3f})"
            kappas.append([result.encoder, *logs, difference, prediction.lower, prediction.choice])
        similarities_shown = [entry.similarity for entry in self.results[0].information]
        notes = [f"{self.results[0].pairs:,} pairs of {self.results[0].data}", "none: exactly 0, by the closed form"]
        methods = list(dict.fromkeys(result.kappa for result in self.results))
        columns = ["encoder", *CANDIDATES, "difference (95%)", "lower", "choice"]
        return [
            Sheet(
                "Fisher information, log₁₀ of E[(∂s/∂·)²]",
                ["encoder", "of", *similarities_shown],
                2,
                information,
                notes,
            ),
            Sheet("condition number, log₁₀ κ", columns, 1, kappas, methods),
        ]

    def plot(self, folder: str | Path) -> list[Path]:
        """Draw MAG's Table 2 as a heat map for each encoder; returns the files written."""
        from retrokit.core.figures import PANELS, fitting, panels, save, shown, told_in_cells

        results = fitting(self.results, PANELS, "encoders", "fisher")
        figure, rows = panels(len(results), 1.6 + 1.0 / len(results))
        tables = [result.logs for result in results]
        low, high = np.nanmin(tables), np.nanmax(tables)
        for axes, result, table in zip(rows, results, tables, strict=True):
            image = axes.imshow(table, cmap="cividis", vmin=low, vmax=high, aspect="auto")
            told_in_cells(axes, table, (low + high) / 2, ".1f", "none", fontsize=9)
            axes.set_xticks(range(len(FAMILY)), [entry.similarity for entry in results[0].information])
            axes.set_yticks(range(3), list(COMPONENTS.values()))
            axes.set_title(shown(result.encoder, 60), fontsize=9, loc="left")
        figure.colorbar(image, ax=rows, label="log₁₀ E[(∂s/∂·)²]; none: exactly 0")
        return save(figure, folder, "fisher")


@taking(FisherSettings)
def probe_fisher(settings: FisherSettings) -> FisherProbe:
    """Probe every encoder on up to ``pairs`` queries with relevant documents, drawn from all data together.

    Raises:
        UsageError: wrong names (all of them in one message), no data, or a task that is no retrieval.
        DataError: too few pairs.
    """
    tasks = [(evaluation.registry, spec) for spec in settings.on]
    parse_names(settings.encoders, *tasks, *((sources, spec) for spec in settings.data))
    data = ", ".join([*settings.on, *settings.data])
    if not data:
        raise UsageError("no pairs: give `on=` TASK or `data=` SOURCE")
    pairs: list[tuple[str, str]] = []
    for spec in settings.on:
        pairs += _judged_pairs(spec)
    for spec in settings.data:
        pairs += _training_pairs(spec)
    sample = np.random.default_rng(settings.seed).permutation(len(pairs))[: settings.pairs]
    drawn = [pairs[index] for index in sample]
    if len(drawn) < settings.pairs:
        notice(f"{data}: {len(drawn):,} pairs, not {settings.pairs:,}: all are used")
    probe = FisherProbe([])
    for encoder in encoders_of(settings):
        probe.results.append(measure(encoder, drawn, data, settings.precision, settings.seed))
    return probe


def measure(encoder: Encoder, pairs: TextPairs, data: str, precision: str = "fp32", seed: int = 0) -> Fisher:
    """Encode (query, document) pairs of texts and compute all; ``data`` names where they are from."""
    if len(pairs) < _LEAST_PAIRS:
        raise DataError(data, f"{len(pairs)} pairs of a query and a relevant document: at least {_LEAST_PAIRS} needed")
    memoized = MemoizedEncoder(encoder)  # a text may stand in several pairs
    queries = memoized.embed([query for query, _ in pairs], "query", precision)
    documents = memoized.embed([document for _, document in pairs], "document", precision)
    empty = np.flatnonzero((row_norms(queries) <= TINY) | (row_norms(documents) <= TINY))
    if len(empty):
        raise DataError(data, f"{encoder.spec} embeds a text of {len(empty)} pairs as 0: {pairs[empty[0]][0][:60]!r}")
    information = []
    for name in FAMILY:
        similarity = cast(Family, encoder.similarity_of(name))
        derivatives = partial_derivatives(similarity.gammas, queries, documents)
        information.append(Information(similarity.spec, *(float((values**2).mean()) for values in derivatives)))
    return Fisher(encoder.name, data, len(pairs), queries.shape[1], information, predict(queries, documents, seed))


def _training_pairs(spec: str) -> list[tuple[str, str]]:
    """Anchors with their first positives."""
    texts = (texts_of_record(record) for record in read_source(spec, "pairs", images=True).records)
    return list(dict.fromkeys((anchor, positives[0]) for anchor, positives in texts))


def _judged_pairs(spec: str) -> list[tuple[str, str]]:
    return list(dict.fromkeys(read_retrieval(spec).data.pairs_of_texts()))
