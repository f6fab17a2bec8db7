"""Calibrate a verifier's threshold, and accept or reject pairs of texts with it, a line each.

On held-out pairs that must be rejected, the threshold is the lowest score that accepts no more than the target share of
them. It is stored in the verifier's folder."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice

import numpy as np

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import check_exists, writing
from retrokit.core.outputs import check_settings
from retrokit.core.settings import taking
from retrokit.data.jsonl import Row, fields_of, json_line
from retrokit.data.labelled import LabelledNearMiss, read_labelled_pairs
from retrokit.data.records import PrintedRecord
from retrokit.data.runs import add_to_run
from retrokit.data.tables import read_rows
from retrokit.metrics.significance import Share, draw, share_of
from retrokit.ranking.reranking.base import decided
from retrokit.ranking.reranking.verifier import DEFAULT, folder_of, load_verifier, read_verifier
from retrokit.ranking.settings import CalibrationSettings, VerifySettings

FIELDS = (
    ("text", "candidate"),
    ("text", "near_miss"),
    ("sentence1", "sentence2"),
    ("query", "document"),
    ("anchor", "positive"),
)
"""The names of a line's two texts; the first that fit count."""
AT_ONCE = 512  # lines


@dataclass
class Verdicts:
    """The numbers of accepted and rejected lines, the threshold, and the remarks."""

    threshold: float
    accepted: int = 0
    rejected: int = 0
    remarks: Counter[str] = field(default_factory=Counter)

    def add(self, score: float, remarks: Sequence[str]) -> bool:
        """Count a line, and return whether it is accepted."""
        verdict = decided(remarks)
        accepted = bool(score >= self.threshold) if verdict is None else verdict
        self.remarks.update(remarks)
        self.accepted += accepted
        self.rejected += not accepted
        return accepted


@taking(VerifySettings)
def verify(settings: VerifySettings) -> Verdicts:
    """Write each line of ``pairs`` (with texts named as in :data:`FIELDS`) with its ``score``, whether it is
    ``accepted`` (a score of at least the ``threshold``, by default the calibrated one), and its ``remarks``.

    Raises:
        UsageError: a folder that is no verifier or has no threshold.
        DataError: a line without two texts.
    """
    verdicts = Verdicts(_threshold_of(settings))
    check_exists(settings.pairs)
    check_settings(settings)
    reranker = load_verifier(settings.folder, precision=settings.precision, device=settings.device)
    pairs = ((row, *_texts(row)) for _, row in read_rows(settings.pairs, "pairs of texts, one JSON object a line"))
    with writing(settings.output) as file:
        while lines := list(islice(pairs, AT_ONCE)):
            rows, firsts, seconds = zip(*lines, strict=True)
            for row, score, remarks in zip(rows, *reranker.judge(firsts, seconds), strict=True):
                if not math.isfinite(score):
                    raise DataError(settings.folder, "gives a score that is not finite; its weights are damaged")
                accepted = verdicts.add(score, remarks)
                if settings.keep == "all" or accepted == (settings.keep == "accepted"):
                    noted = {"remarks": remarks} if remarks else {}
                    file.write(json_line({**row, "score": float(score), "accepted": accepted, **noted}))
    return verdicts


def _threshold_of(settings: VerifySettings) -> float:
    """The requested threshold, or the calibrated one. Raises :class:`UsageError` if there is none."""
    calibration = read_verifier(folder_of(settings.folder)).calibration
    threshold = settings.threshold
    if threshold is None:
        if calibration is None:
            raise UsageError(f"{settings.folder} has no threshold: run retrokit rerank calibrate, or give `threshold=`")
        threshold = float(calibration["threshold"])
    if not math.isfinite(threshold):
        raise UsageError(f"`threshold=` {threshold} is not a finite number")
    return threshold


def _texts(row: Row) -> tuple[str, str]:
    for first, second in FIELDS:
        if first in row and second in row:
            return row.text(first), row.text(second)
    expected = ", or ".join(" and ".join(names) for names in FIELDS)
    raise row.wrong(f"expected {expected}; the fields are {fields_of(row)}")


@dataclass(frozen=True)
class Calibration(PrintedRecord):
    """A threshold, and its effect on the pairs of the calibration.

    Attributes:
        threshold: the lowest accepted score.
        interval: 95% percentile interval of the threshold, by bootstrap.
        false_accepts: accepted pairs among those to reject; also by family of near-misses, in ``families``.
        true_accepts: accepted pairs among those to accept.
        identical: pairs to accept whose two texts are the same, which any verifier accepts.
    """

    threshold: float
    interval: tuple[float, float]
    target: float
    false_accepts: Share
    true_accepts: Share
    families: dict[str, Share]
    identical: int
    pairs: dict[str, str]


def threshold_for(rejected: np.ndarray, target: float) -> float:
    """The lowest threshold that accepts at most a share ``target`` of scores ``[n]`` to reject: just above the highest
    rejected one.

    >>> 0.3 < threshold_for(np.array([0.1, 0.2, 0.3, 0.4]), target=0.25) <= 0.4
    True
    """
    allowed = math.floor(target * len(rejected) + 1e-9)
    from_highest = np.sort(rejected)[::-1]
    return float(np.nextafter(np.float32(from_highest[allowed]), np.float32(np.inf)))


@taking(CalibrationSettings)
def calibrate(settings: CalibrationSettings) -> Calibration:
    """Find a verifier's threshold on held-out ``pairs``, near-misses or labelled ones, and store it in its ``folder``.

    Raises:
        UsageError: a rate out of range, or a folder that is no verifier.
        DataError: pairs that cannot be read, or too few to reject for the rate.
    """
    if settings.folder == DEFAULT:
        raise UsageError(f"{DEFAULT} keeps its threshold; give verify a `threshold=`")
    seen = hashlib.sha256()
    accept: dict[tuple[str, str], None] = {}  # each once
    reject, of_family = [], []
    for example in read_labelled_pairs(settings.pairs, seen.update):
        if isinstance(example, LabelledNearMiss):
            accept[example.anchor, example.positive] = None
            reject.append((example.anchor, example.near_miss))
            of_family.append(example.family)
        elif example.same:
            accept[example.first, example.second] = None
        else:
            reject.append((example.first, example.second))
            of_family.append("")
    rate, families = settings.false_accept_rate, np.array(of_family)
    if len(reject) * rate < 1:
        problem = f"has {len(reject)} pairs to reject; a false-accept rate of {rate} needs {math.ceil(1 / rate)}"
        raise DataError(settings.pairs, problem)
    reranker = load_verifier(settings.folder, precision=settings.precision, device=settings.device)
    firsts, seconds = zip(*accept, *reject, strict=True)
    scores = reranker.score_pairs(firsts, seconds)
    accepted, rejected = scores[: len(accept)], scores[len(accept) :]
    threshold = threshold_for(rejected, rate)
    false_accepts = rejected >= threshold
    calibration = Calibration(
        threshold,
        draw(lambda rows: threshold_for(rejected[rows], rate), len(rejected)).interval,
        rate,
        share_of(false_accepts),
        share_of(accepted >= threshold),
        {name: share_of(false_accepts[families == name]) for name in sorted(set(of_family)) if name},
        sum(first == second for first, second in accept),
        {"path": settings.pairs, "digest": f"sha256:{seen.hexdigest()}"},
    )
    add_to_run(settings.folder, calibration=asdict(calibration))
    return calibration
