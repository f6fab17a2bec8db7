"""``retrokit study``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retrokit.cli.common import Commands, JsonOption, app, show
from retrokit.errors import GateFailed, RetrokitError
from retrokit.notices import notice

if TYPE_CHECKING:
    from retrokit.study.state import StudyPlan

group = Commands(
    no_args_is_help=True,
    help="Run all that one TOML file asks for, every combination of options, and report what came of it.",
)
app.add_typer(group, name="study")

StudyArgument = Annotated[str, typer.Argument(metavar="STUDY.toml", help="File with a table for each command.")]
FolderArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="Where the study is run.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", help="Folder of all that the study makes.")]


class StepsFailed(RetrokitError):
    """Steps of a study failed; ``exit_code`` is that of the first."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@group.command()
def run(
    study: StudyArgument,
    output: OutputOption,
    jobs: int = typer.Option(1, "--jobs", "-j", help="How many steps to do at once."),
    retries: int = typer.Option(0, "--retries", min=0, help="How often to try a step again that fails."),
    engine: str = typer.Option("", "--engine", help="Options of Snakemake, e.g. '--executor slurm'."),
) -> None:
    """Do what a study asks for and is not done, then write the report. The same command goes on after a stop.

    retrokit study run study.toml -o out
    """
    from retrokit.study import engine as snakemake

    planned = _planned(study, output)
    states = snakemake.run(planned, jobs, retries, shlex.split(engine))
    page, gates_hold = _report(output)
    if failed := [state for state in states if state.state == "failed"]:
        missing = sum(state.state == "missing" for state in states)
        told = [f"{one.step.name} failed, see {planned.marker(one.step, 'log')}: {one.last_word}" for one in failed]
        left = f"; {missing} that need them were not begun" if missing else ""
        message = "\n".join([*told, f"{len(failed)} of {len(states)} steps failed{left}"])
        raise StepsFailed(message, failed[0].code or StepsFailed.exit_code)
    if not gates_hold:
        raise GateFailed(f"a gate failed: {page} says which")


@group.command()
def plan(
    study: StudyArgument,
    output: OutputOption = "study",
    estimate: bool = typer.Option(
        False, "--estimate", help="Time a few steps of each kind, and tell how long all take."
    ),
    as_json: JsonOption = False,
) -> None:
    """Print the steps, each as a command line that could be typed, in an order in which they can be.

    retrokit study plan study.toml -o out --estimate
    """
    from retrokit.report.tables import to_json

    planned = _planned(study, output)
    seconds: dict[str, float | None] = {}
    if estimate:
        from retrokit.study.estimate import estimates

        seconds = estimates(planned)
    if as_json:
        show(to_json([{**step.to_json(), "seconds": seconds.get(step.name)} for step in planned.steps]))
        return
    show(_script(planned, seconds))
    if estimate:
        untold = sum(value is None for value in seconds.values())
        left = f", and {untold} of {len(seconds)} steps of which nothing tells" if untold else ""
        notice(f"about {timedelta(seconds=round(sum(filter(None, seconds.values()))))}{left}")


@group.command()
def status(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """What of a study is done, failed or missing.

    retrokit study status out
    """
    from retrokit.report.studies import states_json, states_table
    from retrokit.study.state import StudyPlan

    states = StudyPlan.read(folder).states()
    show(states_json(states) if as_json else states_table(states))


@group.command()
def report(folder: FolderArgument) -> None:
    """Write the report of what is done so far.

    retrokit study report out
    """
    page, gates_hold = _report(folder)
    if not gates_hold:
        raise GateFailed(f"a gate failed: {page} says which")


def _planned(path: str, output: str) -> StudyPlan:
    from retrokit.cli.command_lines import KnownCommands, form_of, line_of
    from retrokit.study.state import StudyPlan
    from retrokit.study.steps import steps_of
    from retrokit.study.tables import read_study

    study = read_study(path, KnownCommands())
    gates = line_of(("eval",), study.gates, f"{path}: gates")[1:]
    return StudyPlan.of(study, output, steps_of(study, output, line_of, form_of), gates)


def _report(folder: str) -> tuple[Path, bool]:
    """Write the page of what is done: where it is, and whether the gates hold."""
    from retrokit.report.page import write_page
    from retrokit.report.studies import reported
    from retrokit.study.state import StudyPlan
    from retrokit.study.summary import results_of

    planned, page = StudyPlan.read(folder), Path(folder, "report.html")
    paths, gates_hold = results_of(planned)
    write_page(paths, page, study=reported(planned))
    notice(f"the report is {page}")
    return page, gates_hold


def _script(plan: StudyPlan, seconds: Mapping[str, float | None]) -> str:
    lines = []
    for step in plan.steps:
        prints = f" > {shlex.quote(step.output)}" if step.prints else ""
        told = f": about {seconds[step.name]:,.0f} s" if seconds.get(step.name) is not None else ""
        lines.append(f"# {step.name}{told}\nretrokit {shlex.join(step.command)}{prints}")
    return "\n".join(lines)
