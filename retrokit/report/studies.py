"""What became of a study's steps, as a table for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from retrokit.core.sheet import Sheet
from retrokit.data.jsonl import to_json
from retrokit.study.state import State, StudyPlan

if TYPE_CHECKING:  # a page is made of far more than states are
    from retrokit.evaluation.comparison.comparison import Evaluation
    from retrokit.report.page import ReportedStudy


def states_json(states: Sequence[State]) -> str:
    """A list with an object for each step."""
    return to_json([asdict(state) for state in states])


def states_sheet(states: Sequence[State]) -> Sheet:
    """A row for each step, in the order of the plan."""
    rows = []
    for state in states:
        seconds = "" if state.seconds is None else f"{state.seconds:,.0f}"
        rows.append([state.step.name, state.state, seconds, state.last_word])
    return Sheet(None, ["step", "state", "seconds", "last word"], 2, rows, last_words=1)


def reported(plan: StudyPlan) -> ReportedStudy:
    """A study for its page."""
    from retrokit.report.page import ReportedStep, ReportedStudy

    steps = [
        ReportedStep(
            name=state.step.name,
            kind=state.step.table,
            command=["retrokit", *state.step.command],
            state=state.state,
            seconds=state.seconds,
            error=state.error or "",
            processor=state.processor,
        )
        for state in plan.states()
    ]
    return ReportedStudy(plan.title, plan.text, steps)


def recommendation(evaluation: Evaluation) -> str:
    """What to train with, by the leading metric of the first task: another similarity than the first system's where it
    is above that by more than chance."""
    from retrokit.report.words import UNSURE, standing_on

    standing = standing_on(evaluation, evaluation.tasks[0])
    if standing is None:
        return "nothing can be recommended: no system has a value"
    best, first, compared = standing.best, standing.first, standing.over_first
    if best is first:
        return f"train with {first.similarity}: nothing that was tried is above it"
    if compared is None or not compared.significant:
        return f"train with {first.similarity}: {best.similarity} is above it, but {UNSURE}"
    sure = f"more than chance, corrected p = {compared.corrected_p:.2g}"
    return f"train with {best.similarity}: it is above {first.similarity} by {sure}"
