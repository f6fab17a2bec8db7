"""Accept or reject pairs of texts, a line each: a calibrated verifier as a filter in a pipe."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from retrokit.core.errors import UsageError
from retrokit.core.files import check_exists, writing
from retrokit.core.outputs import check_settings
from retrokit.core.settings import taking
from retrokit.data.jsonl import Row, fields_of, json_line
from retrokit.data.tables import read_rows
from retrokit.ranking.reranking.base import PairwiseReranker
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
    with writing(settings.output) as file:
        for row in _judged(reranker, settings.pairs, verdicts):
            if settings.keep == "all" or row["accepted"] == (settings.keep == "accepted"):
                file.write(json_line(row))
    return verdicts


def _judged(reranker: PairwiseReranker, path: str, verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    rows = read_rows(path, "pairs of texts, one JSON object a line")
    pairs = ((row, *_texts(row)) for _, row in rows)
    while part := list(islice(pairs, AT_ONCE)):
        texts = [first for _, first, _ in part], [second for _, _, second in part]
        scores, remarks = reranker.judge(*texts)
        for (row, _, _), score, pair_remarks in zip(part, scores.tolist(), remarks, strict=True):
            certain = decided(pair_remarks)
            accepted = score >= verdicts.threshold if certain is None else certain
            verdicts.remarks.update(pair_remarks)
            verdicts.accepted += accepted
            verdicts.rejected += not accepted
            yield {**row, "score": score, "accepted": accepted, **({"remarks": pair_remarks} if pair_remarks else {})}


def _texts(row: Row) -> tuple[str, str]:
    for first, second in FIELDS:
        if first in row and second in row:
            return row.text(first), row.text(second)
    expected = ", or ".join(" and ".join(names) for names in FIELDS)
    raise row.wrong(f"expected {expected}; the fields are {fields_of(row)}")
