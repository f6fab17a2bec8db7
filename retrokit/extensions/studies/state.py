"""A study's folder: the plan, and of each step whether it is done, how long it took, and why it failed.

``plan.json`` contains the steps. A step that is done has ``steps/NAME.json``, one that failed
``steps/NAME.failed.json``. ``steps/NAME.log`` is its standard error.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import writing
from retrokit.core.frames import flat, frame
from retrokit.core.outputs import check_free
from retrokit.core.sheet import Cell, Sheet
from retrokit.data.jsonl import checked, read_json, write_json
from retrokit.data.records import PrintedRecord
from retrokit.extensions.studies.steps import Step

if TYPE_CHECKING:
    from pandas import DataFrame

PLAN, STEPS, ENGINE, STATES, REPORT = "plan.json", "steps", "engine", "states.json", "report.html"
"""What a study writes in its folder, next to what its steps write."""
DONE, FAILED, MISSING = "done", "failed", "missing"


def kept_study(folder: str, question: Sequence[str], text: Callable[[], str]) -> str:
    """The path of the study that answers a question: the one in the folder, so that the same question resumes, else a
    new one of this ``text``. Raises :class:`UsageError` if the folder contains another study."""
    path = Path(folder, "study.toml")
    check_free(folder)
    check_study_folder(Path(folder))
    line = f"# retrokit study {shlex.join(question)}\n"
    if path.is_file() and path.read_text(encoding="utf-8").startswith(line):
        return str(path)
    if path.is_file() or Path(folder, PLAN).exists():
        raise UsageError(f"{folder} contains another study; give another `output=`")
    content = line + text()
    with writing(path) as file:
        file.write(content)
    return str(path)


def check_study_folder(folder: Path, tables: Iterable[str] = ()) -> None:
    """Check that nothing of a user is replaced by a study in ``folder`` with these tables.

    Raises:
        UsageError: it is not a study's folder, and contains a file or folder with a name that a study writes.
    """
    plan = folder / PLAN
    if plan.is_file():
        with suppress(DataError):
            StudyPlan.read(folder)
            return
    names = [PLAN, STEPS, ENGINE, STATES, REPORT]
    for table in tables:
        names += [table, f"{table}.json"]
    if existing := [name for name in names if os.path.lexists(folder / name)]:
        shown = ", ".join(existing)
        raise UsageError(f"{folder} contains files that no study wrote ({shown}): move them, or name another `output=`")


@dataclass(frozen=True)
class State:
    """The state of a step; ``seconds``, ``code`` and ``processor`` are of its last run."""

    step: Step
    state: str
    seconds: float | None = None
    code: int | None = None
    error: str | None = None
    processor: str = ""

    @property
    def last_word(self) -> str:
        """The last line of its standard error, if it failed."""
        return (self.error or "").rpartition("\n")[2]


@dataclass(frozen=True)
class StudyStates(PrintedRecord):
    """A study and how far it is, for a report.

    Attributes:
        title, text: of its file.
        states: of each step, in the order of the plan.
    """

    title: str
    text: str
    states: list[State]

    @property
    def conclusion(self) -> str:
        """How many steps are done, and which are not; empty if all are."""
        lost = self._lost()
        if not lost:
            return ""
        counts = ", ".join(f"{sum(state.state == name for state in lost)} {name}" for name in (FAILED, MISSING))
        names = ", ".join(state.step.name for state in lost[:5]) + (", …" if len(lost) > 5 else "")
        return f"Of {len(self.states)} steps: {len(self.states) - len(lost)} done, {counts} ({names})."

    @property
    def seconds(self) -> float:
        """How long all steps took."""
        return sum(state.seconds or 0 for state in self.states)

    def sheets(self) -> list[Sheet]:
        """The study's file, and its steps: how each ended, its command line and its seconds."""
        rows = []
        for state in self.states:
            seconds = "–" if state.seconds is None else f"{state.seconds:,.1f}"
            rows.append([state.step.name, state.step.table, state.state, state.step.line, seconds])
        processors = "; or ".join(dict.fromkeys(state.processor for state in self.states if state.processor))
        steps = Sheet("steps", ["step", "kind", "state", "command", "seconds"], 4, rows, processors)
        file = [Sheet(self.title, ["study"], 1, [[tuple(self.text.splitlines())]])] if self.text.strip() else []
        return [*file, steps]

    def missing(self) -> list[Sheet]:
        """The steps that are not done, with their command lines and the last lines of their standard error."""
        rows: list[list[str | Cell]] = []
        for state in self._lost():
            last_lines = tuple((state.error or "").splitlines()) or ("",)
            rows.append([state.step.name, state.state, state.step.line, last_lines])
        return [Sheet("steps that are not done", ["step", "state", "command", "error"], 4, rows)] if rows else []

    def _lost(self) -> list[State]:
        return [state for state in self.states if state.state != DONE]


def states_sheet(states: Sequence[State]) -> Sheet:
    """A row for each step, in the order of the plan."""
    rows = []
    for state in states:
        seconds = "" if state.seconds is None else f"{state.seconds:,.0f}"
        rows.append([state.step.name, state.state, seconds, state.last_word])
    return Sheet(None, ["step", "state", "seconds", "last word"], 2, rows, last_words=1)


@dataclass(frozen=True)
class StudyPlan:
    """A study with its steps, the folder of its results, and the folder that it was started in."""

    folder: Path
    title: str
    text: str
    started_in: str
    gates: tuple[str, ...]
    steps: Sequence[Step]

    def write(self) -> None:
        """Put it into its folder."""
        fields = {"title": self.title, "text": self.text, "started_in": self.started_in, "gates": self.gates}
        write_json(self.folder / PLAN, {**fields, "steps": [step.to_json() for step in self.steps]}, 1, "plan")

    @classmethod
    def read(cls, folder: str | Path) -> StudyPlan:
        """The plan of the study in ``folder``.

        Raises:
            UsageError: no study has been run there.
            DataError: its plan is damaged.
        """
        path = Path(folder, PLAN)
        if not path.exists():
            raise UsageError(f"{folder} contains no study; run one into it: retrokit study run FILE -o {folder}")
        plan: StudyPlan = read_json(path, "the plan of a study", cls, folder=Path(folder))
        if not all(step.command for step in plan.steps):
            raise DataError(path, "is not the plan of a study: a step without a command")
        return plan

    def working_folder(self) -> str:
        """The folder that it was started in. Raises :class:`DataError` if it is gone."""
        if not os.path.isdir(self.started_in):
            raise DataError(self.folder / PLAN, f"was started in {self.started_in}, which is no folder; put it back")
        return self.started_in

    def to_frame(self) -> DataFrame:
        """A row for each step: its name, table and cell, its state and seconds."""
        rows = []
        for state in self.states():
            step = {"name": state.step.name, "table": state.step.table, "cell": state.step.cell}
            rows.append(flat({**step, "state": state.state, "seconds": state.seconds}))
        return frame(rows)

    def marker(self, step: Step, what: str = "json") -> Path:
        """A file about the step."""
        return (self.folder / STEPS / f"{step.name}.{what}").absolute()

    def states(self) -> list[State]:
        """The state of each step."""
        return list(map(self._state_of, self.steps))

    def record(self) -> StudyStates:
        """The study and its states."""
        return StudyStates(self.title, self.text, self.states())

    def _state_of(self, step: Step) -> State:
        for state, what in ((DONE, "json"), (FAILED, "failed.json")):
            path = self.marker(step, what)
            if path.is_file():
                state_of_step = read_json(path, "the state of a step", {"seconds": float, "code": int})
                known: State = checked(
                    State, {**state_of_step, "step": step, "state": state}, path, "the state of a step"
                )
                return known
        return State(step, MISSING)
