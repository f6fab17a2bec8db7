"""What the commands print: a calibration with its figures, and the report of one."""

from __future__ import annotations

from dataclasses import dataclass

from retrokit.data.records import PrintedRecord


@dataclass(frozen=True)
class Spread:
    """A share over splits: its mean, and the 2.5% and 97.5% percentiles."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class CalibrationReport(PrintedRecord):
    """A calibration, and what it gives on held-out queries.

    Attributes:
        system: the spec that makes the searcher.
        promised: the promised error: of the queries with nothing relevant in the corpus, at most this share gets an
            answer anyway, on average over calibrations.
        queries: judged queries with a relevant document.
        calibrated: those that set the threshold.
        threshold: a query is answered if its signal is above.
        expected: the error of calibrations with as many queries if no two signals are equal: mean and 95% interval.
        error: realised share of held-out queries that are answered without their relevant documents.
        answered: share of held-out queries that are answered with their relevant documents.
        wrong: share of those answered whose first document is not relevant; null: none is answered.
        wrong_without: the same if all are answered.
        chosen: number of splits that chose each signal.
    """

    file: str
    system: str
    task: str
    promised: float
    signal: str
    queries: int
    calibrated: int
    threshold: float
    splits: int
    expected: Spread
    error: Spread
    answered: Spread
    wrong: Spread | None
    wrong_without: float
    chosen: dict[str, int]


@dataclass(frozen=True)
class AbstentionReport(PrintedRecord):
    """What a calibrated system answers.

    Attributes:
        promised: the promised error.
        threshold: a query is answered if its signal is above.
        queries: those with relevant documents in the corpus.
        answered: share of them that is answered.
        without: queries with nothing relevant in the corpus: the same without their relevant documents, and others that
            have none.
        error: share of these that is answered, with its ``low``–``high`` 95% interval (Wilson).
        metrics: means over the queries that are answered, by name; null: none is.
        baseline: the same over all queries with relevant documents.
        drift_p: p of the test that queries without relevant documents have the signals of the calibration.
    """

    file: str
    system: str
    task: str
    promised: float
    signal: str
    threshold: float
    queries: int
    answered: float
    without: int
    error: float
    low: float
    high: float
    metrics: dict[str, float | None]
    baseline: dict[str, float | None]
    drift_p: float
