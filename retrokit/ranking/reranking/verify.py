"""Accept or reject pairs of texts, a line each: a calibrated verifier as a filter in a pipe."""

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from retrokit.core.errors import UsageError
from retrokit.core.files import check_exists, writing
from retrokit.core.outputs import check_settings
from retrokit.core.settings import taking
from retrokit.data.jsonl import Row, fields_of, json_line
from retrokit.data.tables import read_rows
from retrokit.ranking.reranking.remarks import decided
from retrokit.ranking.reranking.settings import VerifySettings
from retrokit.ranking.reranking.verifier import folder_of, load_verifier, read_verifier

FIELDS = (
    ("text", "candidate"),
    ("text", "near_miss"),
    ("sentence1", "sentence2"),
    ("query", "document"),
    ("anchor", "positive"),
)
"""The names under which a line may hold its two texts; the first that fit count."""
AT_ONCE = 512  # lines


@dataclass
class Verdicts:
    """How many lines were accepted and rejected, the score that decided, and how often which remark was made."""

    threshold: float
    accepted: int = 0
    rejected: int = 0
    remarks: Counter[str] = field(default_factory=Counter)


@taking(VerifySettings)
def verify(settings: VerifySettings) -> Verdicts:
    """Write each line of ``pairs`` (two texts each, under one of the names in :data:`FIELDS`) again, with its ``score``
    and whether it is ``accepted``: at least the ``threshold``, by default the calibrated one. ``keep`` says which lines
    to write: ``all``, ``accepted``, ``rejected``; ``-`` is standard input and output. ``remarks`` stand beside pairs
    that the score does not decide, or should not be trusted with (:mod:`retrokit.ranking.reranking.remarks`).

    Raises:
        UsageError: a folder that is no verifier or has no threshold, or an unknown ``keep``.
        DataError: a line without two texts.
    """
    calibration = read_verifier(folder_of(settings.folder)).calibration
    threshold = settings.threshold
    if threshold is None:
        if calibration is None:
            raise UsageError(f"{settings.folder} has no threshold: run retrokit rerank calibrate, or give `threshold=`")
        threshold = float(calibration["threshold"])
    if not math.isfinite(threshold):
        raise UsageError(f"`threshold=` {threshold} is not a finite number")
    check_exists(settings.pairs)
    check_settings(settings)
    verdicts = Verdicts(threshold)
    reranker = load_verifier(settings.folder, precision=settings.precision, device=settings.device)
    pairs = ((row, *_texts(row)) for _, row in read_rows(settings.pairs, "pairs of texts, one JSON object a line"))
    with writing(settings.output) as file:
        while part := list(islice(pairs, AT_ONCE)):
            rows, firsts, seconds = zip(*part, strict=True)
            for row, score, remarks in zip(rows, *reranker.judge(firsts, seconds), strict=True):
                certain = decided(remarks)
                accepted = bool(score >= threshold) if certain is None else certain
                verdicts.remarks.update(remarks)
                verdicts.accepted += accepted
                verdicts.rejected += not accepted
                if settings.keep == "all" or accepted == (settings.keep == "accepted"):
                    noted = {"remarks": remarks} if remarks else {}
                    file.write(json_line({**row, "score": float(score), "accepted": accepted, **noted}))
    return verdicts


def _texts(row: Row) -> tuple[str, str]:
    for first, second in FIELDS:
        if first in row and second in row:
            return row.text(first), row.text(second)
    expected = ", or ".join(" and ".join(names) for names in FIELDS)
    raise row.wrong(f"expected {expected}; the fields are {fields_of(row)}")
