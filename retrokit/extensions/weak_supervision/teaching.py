"""A teacher's scores next to pairs, for ``finetune --loss kl`` and ``margin-mse`` to learn from."""

from typing import Any

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.core.outputs import check_settings
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.data import pairs as training_data
from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_pairs
from retrokit.data.training_rows import Pair, texts_of_record
from retrokit.extensions.weak_supervision.settings import TeacherSettings
from retrokit.ranking import reranking
from retrokit.ranking.reranking.kept import KeptReranker, folder_beside, scores_in


@taking(TeacherSettings)
def score(settings: TeacherSettings) -> int:
    """Write ``{"anchor", "positive", "negatives", "positive_score", "negative_scores"}`` for every different pair of
    ``data``, in their order, to ``output``; returns how many. Scores are cached in the folder ``OUTPUT.work`` until the
    output is written: the same call resumes from there, to the same bytes.

    Raises:
        UsageError: wrong names, or a teacher that orders lists and scores no pair.
        DataError: data or an output that cannot be used, or a score that is not finite.
        Interrupted: Ctrl-C; what is done is cached.
    """
    data = [(training_data.registry, spec) for spec in settings.data]
    parse_all([(reranking.registry_of(settings.teacher), settings.teacher), *data])
    check_settings(settings)
    pairs = read_pairs(settings.data)
    teacher = reranking.create(settings.teacher, settings.device)
    if teacher.listwise:
        raise UsageError(f"{teacher.spec}: listwise reranker; a teacher must score pairs")
    with scores_in(folder_beside(settings.output), "scoring", "the scores so far") as store:
        lists = [texts_of_record(pair)[1] for pair in pairs]
        scores = KeptReranker(teacher, store).rank_lists([pair.anchor for pair in pairs], lists)
        rows = map(_scored_row, pairs, scores)
        write_jsonl(settings.output, rows)
    return len(pairs)


def _scored_row(pair: Pair, scores: np.ndarray) -> dict[str, Any]:
    positive_score, *negative_scores = scores.tolist()
    return {
        "anchor": pair.anchor,
        "positive": pair.positive,
        "negatives": pair.negatives,
        "positive_score": positive_score,
        "negative_scores": negative_scores,
    }
