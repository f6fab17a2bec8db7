"""One page to read: what was asked, what was run, what came of it, in one HTML file that loads nothing.

Its tables and pictures are those of the commands. All texts are escaped; its policy lets no other script run than its
own, and nothing be loaded or sent.
"""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from retrokit.core.errors import UsageError
from retrokit.core.files import writing
from retrokit.core.outputs import check_outputs
from retrokit.core.settings import FILE
from retrokit.core.sheet import Sheet
from retrokit.core.version import __version__
from retrokit.data.typed import restored
from retrokit.report import parts
from retrokit.report.html import number_pictures_anew, template, to_html, write
from retrokit.report.sources import Sources, read_sources
from retrokit.report.words import sentences
from retrokit.study.state import DONE, FAILED, MISSING
from retrokit.sure.audit import code_source

STATES = (DONE, FAILED, MISSING)
TITLE = "retrokit report"


@dataclass(frozen=True)
class ReportedStep:
    """A step of a study: ``command`` as one would type it, word by word; ``state`` is one of :data:`STATES`;
    ``seconds`` that it took; ``error``: the last lines of what a failed one said; ``processor`` that it ran on."""

    name: str
    kind: str
    command: Sequence[str]
    state: str = DONE
    seconds: float | None = None
    error: str = ""
    processor: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise UsageError(f"step {self.name}: state {self.state!r}; expected {', '.join(STATES)}")


@dataclass(frozen=True)
class ReportedStudy:
    """What was asked and run: the ``text`` of the study's file, and its steps."""

    title: str
    text: str
    steps: Sequence[ReportedStep]

    @classmethod
    def from_json(cls, plain: Any) -> ReportedStudy:
        """A study from plain values (``dataclasses.asdict`` gives them). Raises :class:`TypeError` for others."""
        return restored(cls, plain)


@dataclass(frozen=True)
class PagePart:
    """A part of the page, with a heading of its own; one that holds nothing is left out."""

    title: str
    blocks: list[Markup]


def write_page(
    paths: Sequence[str | Path],
    output: str | Path,
    title: str | None = None,
    study: ReportedStudy | None = None,
    price_per_hour: float | None = None,
) -> None:
    """Write the report of all that lies at the ``paths`` as one HTML file, whole or not at all.

    Args:
        paths: results folders, runs' folders, and files that ``--json`` of a command was sent to.
        output: the file; ``-`` is standard output.
        title: of the page; by default the study's.
        study: what was asked and run, if these are the results of a study.
        price_per_hour: of the machine, in any currency; the page then says what the hours of runs or steps cost.

    Raises:
        UsageError: there is neither a path nor a study, or a price of hours that nothing tells.
        DataError: a path holds nothing that a report is made from, or the page cannot be written.
    """
    if not paths and study is None:
        raise UsageError("give results to report: folders, or files of --json")
    check_outputs([(output, FILE)], [[str(path) for path in paths]])
    page = page_of(read_sources([str(path) for path in paths]), title, study, price_per_hour)
    with writing(output) as stream:
        stream.write(page)


def page_of(
    sources: Sources,
    title: str | None = None,
    study: ReportedStudy | None = None,
    price_per_hour: float | None = None,
) -> str:
    """The page as text. Arguments and errors are those of :func:`write_page`."""
    title = title or (study.title if study is not None else TITLE)
    files = resources.files("retrokit.report")
    style, script = ((files / f"page.{ending}").read_text("utf-8") for ending in ("css", "js"))
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {code_source(script)}"
    )
    origin = f"Made by retrokit {__version__} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    number_pictures_anew()
    shown = [part for part in _parts(sources, study, price_per_hour) if any(part.blocks)]
    return template().render(
        title=title,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        summary=list(summary(sources, study)),
        parts=shown,
        made=f"{origin}, on {platform.system()} {platform.machine()} with Python {platform.python_version()}.",
    )


def summary(sources: Sources, study: ReportedStudy | None = None) -> Iterator[str]:
    """What the page begins with: what was found, in words, and what is missing."""
    for source in (*sources.evaluations, *sources.rerankings):
        if texts := list(sentences(source.found)):
            yield " ".join(texts)
    for probe in sources.probes:
        yield f"Probe {probe.name}: {probe.found.conclusion}"
    if study is not None and (lost := [step for step in study.steps if step.state != DONE]):
        counts = ", ".join(f"{sum(step.state == state for step in lost)} {state}" for state in (FAILED, MISSING))
        names = ", ".join(step.name for step in lost[:5]) + (", …" if len(lost) > 5 else "")
        yield f"Of {len(study.steps)} steps: {len(study.steps) - len(lost)} done, {counts} ({names})."


def _parts(sources: Sources, study: ReportedStudy | None, price_per_hour: float | None) -> Iterator[PagePart]:
    evaluated = sources.evaluations
    steps = study.steps if study is not None else []
    yield PagePart(
        "What was asked", [write("preformatted", study.text)] if study is not None and study.text.strip() else []
    )
    yield PagePart("Results", [block for source in evaluated for block in parts.evaluation(source)])
    yield PagePart("Cross-evaluation", list(parts.crossed(evaluated)))
    yield PagePart("Reranking", [block for source in sources.rerankings for block in parts.reranking(source)])
    yield PagePart("Wins and losses by query", list(parts.by_query([*evaluated, *sources.rerankings])))
    yield PagePart("Training", list(parts.trainings(sources.runs)))
    yield PagePart("Probes", [block for source in sources.probes for block in parts.probe(source)])
    yield PagePart("Deployment", list(parts.deployments(sources)))
    failed = [write("failure", step, shlex.join(step.command)) for step in steps if step.state != DONE]
    yield PagePart("What is missing or failed", [*failed, *(write("paragraph", text) for text in parts.lost(sources))])
    hours = _hours(sources, steps, price_per_hour)
    shown = [to_html(_steps_sheet(steps))] if steps else []
    yield PagePart("What was run", [*hours, *shown, *parts.provenance(sources)])


def _hours(sources: Sources, steps: Sequence[ReportedStep], price_per_hour: float | None) -> list[Markup]:
    """How long the steps of a study took, or runs without one, and what that cost."""
    seconds = [step.seconds for step in steps] if steps else [parts.seconds_of(run) for run in sources.runs]
    hours = sum(filter(None, seconds)) / 3600
    if price_per_hour is None:
        return [write("paragraph", f"{hours:,.2f} hours, added up.")] if hours else []
    if not hours:
        raise UsageError("`price_per_hour=` is of the hours of runs and of a study's steps: give one that tells them")
    cost = f"at {price_per_hour:,g} an hour, {hours * price_per_hour:,.2f}"
    return [write("paragraph", f"{hours:,.2f} hours, added up; {cost}.")]


def _steps_sheet(steps: Sequence[ReportedStep]) -> Sheet:
    rows = [
        [
            step.name,
            step.kind,
            step.state,
            shlex.join(step.command),
            "–" if step.seconds is None else f"{step.seconds:,.1f}",
        ]
        for step in steps
    ]
    processors = "; or ".join(dict.fromkeys(step.processor for step in steps if step.processor))
    return Sheet("steps", ["step", "kind", "state", "command", "seconds"], 4, rows, processors)
