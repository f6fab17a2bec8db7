"""The answers of studies of a question, in sentences."""

from collections.abc import Iterator

from retrokit.evaluation.comparison.comparison import Evaluation
from retrokit.report.words import UNSURE, difference_in_words, standing_on


def beside_bm25(evaluation: Evaluation) -> Iterator[str]:
    """How an encoder, and its fusion with BM25, compare with BM25 on each task, given the three systems of the study
    in the order bm25, encoder, fusion."""
    for task in evaluation.tasks:
        (first, encoder, fused), metric = evaluation.systems_on(task), evaluation.leading_metric(task)
        tests = evaluation.tests_on(task, metric)
        sides = []
        for system in (encoder, fused):
            side = _side(system.metrics[metric] - first.metrics[metric])
            sides.append(f"{side} bm25 in {metric} {difference_in_words(tests.get(system.name))}")
        yield f"On {task}, {encoder.name} is {sides[0]}; fused with bm25 it is {sides[1]}."


def _side(difference: float) -> str:
    if difference == 0:
        return "level with"
    return "above" if difference > 0 else "below"


def recommendation(evaluation: Evaluation) -> str:
    """What to train with, by the leading metric of the first task: another similarity than the first system's where it
    is above that by more than chance."""
    standing = standing_on(evaluation, evaluation.tasks[0])
    if standing is None:
        return "nothing can be recommended: no system has a value"
    best, first, compared = standing.best, standing.first, standing.over_rival
    if best is first:
        advice = f"train with {first.similarity}: nothing that was tried is above it"
    elif compared is None or not compared.significant:
        advice = f"train with {first.similarity}: {best.similarity} is above it, but {UNSURE}"
    else:
        sure = f"more than chance, corrected p = {compared.corrected_p:.2g}"
        advice = f"train with {best.similarity}: it is above {first.similarity} by {sure}"
    has_seeds = any(len(system.results) > 1 for system in standing.ranked)
    return advice if has_seeds else f"{advice}; one seed each, so differences between seeds are not known"
