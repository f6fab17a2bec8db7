"""A teacher's scores beside pairs, for ``finetune --loss kl`` and ``margin-mse`` to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from retrokit.augmentation.settings import TeacherSettings
from retrokit.core.errors import UsageError
from retrokit.core.outputs import check_settings
from retrokit.core.registry import parse_all
from retrokit.data import pairs as training_data
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_pairs
from retrokit.data.training_rows import Pair, texts_of_record
from retrokit.ranking import reranking
from retrokit.ranking.reranking.kept import KeptReranker, kept_beside


def score(data: Sequence[str], output: str, **more: Any) -> int:
    """Write ``{"anchor", "positive", "negatives", "positive_score", "negative_scores"}`` for every different pair of
    ``data``, in their order; returns how many. Scores are kept in the folder ``OUTPUT.work`` until the output is
    written: the same call after a break goes on from there, to the same bytes.

    Args:
        data: specs of training data, with or without negatives.
        output: a JSONL file, ``.gz`` too, or ``-``, beside which nothing is kept.
        more: fields of :class:`TeacherSettings`: ``teacher``, ``device``.

    Raises:
        UsageError: wrong names, or a teacher that orders lists and scores no pair by itself.
        DataError: data or an output that cannot be used, or a score that is not finite.
        Interrupted: Ctrl-C; what is done is kept.
    """
    settings = TeacherSettings(data, output, **more)
    parse_all(
        [
            (reranking.registry_of(settings.teacher), settings.teacher),
            *((training_data.registry, spec) for spec in data),
        ]
    )
    check_settings(settings)
    if data.count("-") > 1:
        raise UsageError("standard input can be read once only")
    pairs = read_pairs(data)
    teacher = reranking.create(settings.teacher, settings.device)
    if teacher.listwise:
        raise UsageError(f"{teacher.spec} orders lists; a teacher scores every pair by itself")
    with kept_beside(output, "scoring", "the scores so far") as store:
        lists = [texts_of_record(pair)[1] for pair in pairs]
        scores = KeptReranker(teacher, store).rank_lists([pair.anchor for pair in pairs], lists)
        write_jsonl(output, _rows(pairs, (of_pair.tolist() for of_pair in scores)))
    return len(pairs)


def _rows(pairs: Sequence[Pair], scores: Iterator[list[float]]) -> Iterator[dict[str, Any]]:
    for pair, (positive, *negatives) in zip(pairs, scores, strict=True):
        texts = {"anchor": pair.anchor, "positive": pair.positive, "negatives": pair.negatives}
        yield {**texts, "positive_score": positive, "negative_scores": negatives}
