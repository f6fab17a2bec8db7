"""``retrokit study``."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrokit.cli.common import JsonOption, PriceOption, show, show_result, writes
from retrokit.cli.settings import takes
from retrokit.core.errors import DataError, GateFailed, RetrokitError, UsageError, check_extra, first_line
from retrokit.core.notices import notice
from retrokit.core.settings import FOLDER, duration
from retrokit.study.settings import WhySettings

if TYPE_CHECKING:
    from retrokit.evaluation.comparison.comparison import Evaluation
    from retrokit.study.state import StudyPlan


StudyArgument = Annotated[str, typer.Argument(metavar="STUDY.toml", help="TOML file with a table for each command.")]
FolderArgument = Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of the study.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", callback=writes(FOLDER), help="Folder to write.")]


class StepsFailed(RetrokitError):
    """Steps of a study failed; ``exit_code`` is that of the first."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run(
    study: StudyArgument,
    output: OutputOption,
    jobs: int = typer.Option(1, "--jobs", "-j", help="Steps to run in parallel."),
    retries: int = typer.Option(0, "--retries", min=0, help="Retries of a failed step."),
    engine: str = typer.Option("", "--engine", help="Options for Snakemake, e.g. '--executor slurm'."),
    price_per_hour: PriceOption = None,
) -> None:
    """Run the missing steps of a study, then write its report. Rerun to resume.

    retrokit study run study.toml -o out
    """
    try:
        further = shlex.split(engine)
    except ValueError as error:
        raise UsageError(f"--engine {engine}: {first_line(error)}; quote it as in a shell") from error
    _work(_planned(study, output), jobs, retries, further, price_per_hour)


def which_similarity(
    output: OutputOption,
    data: str = typer.Option(..., "--data", help="Pairs: FILE.jsonl, hf:NAME; a fifth is held out for testing."),
    encoder: str = typer.Option("minilm", "--encoder", help="Encoder to start from."),
    budget: str = typer.Option("1h", "--budget", help="Total time, e.g. 20m, 1h, 8h."),
    batch_size: int = typer.Option(64, "--batch-size", help="Batch size."),
) -> None:
    """Recommend a similarity for training: a sweep over similarities and seeds, with significance.

    retrokit study which-similarity --data pairs.jsonl --encoder minilm --budget 1h -o out
    """
    parameters = {"data": data, "encoder": encoder, "budget": budget, "batch-size": str(batch_size)}
    given = (data, encoder, duration(budget), batch_size)
    _answer(output, "which-similarity", parameters, lambda questions: questions.which_similarity(*given))
    from retrokit.report.words import recommendation

    show(f"\n{recommendation(_evaluation(output))}")


def is_it_better_than_bm25(
    output: OutputOption,
    encoder: str = typer.Option("minilm", "--encoder", help="Encoder or another searcher."),
    on: list[str] = typer.Option(..., "--on", help="Retrieval task, e.g. beir:data/scifact. Repeatable."),
) -> None:
    """Compare an encoder with BM25 and with their fusion.

    retrokit study is-it-better-than-bm25 --encoder runs/mine --on beir:data/scifact -o out
    """
    parameters: dict[str, str | Sequence[str]] = {"encoder": encoder, "on": on}
    _answer(output, "is-it-better-than-bm25", parameters, lambda questions: questions.better_than_bm25(encoder, on))
    from retrokit.report.words import beside_bm25

    show("\n" + "\n".join(beside_bm25(_evaluation(output))))


def does_it_see_near_misses(
    output: OutputOption,
    texts: str = typer.Option(..., "--texts", help="JSON lines of texts, whose sentences are edited."),
    encoder: str = typer.Option("minilm", "--encoder", help="Encoder or another searcher."),
) -> None:
    """Run a stress test (probe stress) as a study: negation, roles, places, numbers, typos.

    retrokit study does-it-see-near-misses --texts corpus.jsonl --encoder runs/mine -o out
    """
    parameters = {"texts": texts, "encoder": encoder}
    _answer(output, "does-it-see-near-misses", parameters, lambda questions: questions.sees_near_misses(encoder, texts))


@takes(WhySettings)
def why_this_figure(settings: WhySettings, as_json: JsonOption = False) -> None:
    """Find the setting that explains a published figure: prompt, pooling, length, titles, similarity.

    retrokit study why-this-figure minilm --on beir:data/scifact --published ndcg@10=0.645
    """
    from retrokit.study.why import why_this_figure_of

    why = why_this_figure_of(settings)
    show_result(as_json, "why", why.to_json(), why.sheet())


def _evaluation(folder: str) -> Evaluation:
    """The evaluation of the study in the folder."""
    from retrokit.report.sources import read_sources

    (evaluation,) = read_sources([f"{folder}/eval.json"]).evaluations
    return evaluation.found


def _answer(
    output: str, question: str, parameters: Mapping[str, str | Sequence[str]], study_of: Callable[[Any], str]
) -> None:
    """Run the study of a question; ``study_of`` returns its text from the module of questions."""
    from retrokit.core.outputs import check_outputs
    from retrokit.study.state import kept_study

    check_extra("study", "study")
    check_outputs([(output, FOLDER)], parameters.values())
    given = [(name, [one] if isinstance(one, str) else one) for name, one in parameters.items()]
    options = [word for name, values in given for value in values for word in (f"--{name}", value)]
    path = kept_study(output, (question, *options), lambda: study_of(import_module("retrokit.study.questions")))
    _work(_planned(path, output), 1, 0, ())


def _work(planned: StudyPlan, jobs: int, retries: int, further: Sequence[str], price: float | None = None) -> None:
    from retrokit.study import engine as snakemake

    states = snakemake.run(planned, jobs, retries, further)
    page, gates_hold = _report(str(planned.folder), price)
    if failed := [state for state in states if state.state == "failed"]:
        missing = sum(state.state == "missing" for state in states)
        logs = [(state.step.name, planned.marker(state.step, "log"), state.last_word) for state in failed]
        lines = [f"{name} failed, see {log}: {last_word}" for name, log, last_word in logs]
        left = f"; {missing} that depend on them were not started" if missing else ""
        message = "\n".join([*lines, f"{len(failed)} of {len(states)} steps failed{left}"])
        raise StepsFailed(message, failed[0].code or StepsFailed.exit_code)
    if not gates_hold:
        raise GateFailed(f"a gate failed; see {page}")


def plan(
    study: StudyArgument,
    output: OutputOption = "study",
    estimate: bool = typer.Option(False, "--estimate", help="Measure some steps of each kind and estimate the total."),
    as_json: JsonOption = False,
) -> None:
    """Print the steps as command lines, in an order that can be run.

    retrokit study plan study.toml -o out --estimate
    """
    planned = _planned(study, output)
    seconds: dict[str, float | None] = {}
    if estimate:
        from retrokit.study.questions import estimates

        seconds = estimates(planned)
    if as_json:
        return show_result(True, "step", [{**of.to_json(), "seconds": seconds.get(of.name)} for of in planned.steps])
    show(_script(planned, seconds))
    if estimate:
        unknown = Counter(step.table for step in planned.steps if seconds[step.name] is None)
        steps = ", ".join(f"{count} of {table}" for table, count in unknown.items())
        left = f", without steps that have no estimate yet ({steps})" if unknown else ""
        notice(f"about {timedelta(seconds=round(sum(filter(None, seconds.values()))))}{left}")


def status(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Show which steps are done, failed or missing.

    retrokit study status out
    """
    from retrokit.report.tables import states_json, states_sheet
    from retrokit.study.state import StudyPlan

    states = StudyPlan.read(folder).states()
    show(states_json(states) if as_json else states_sheet(states))


def report(folder: FolderArgument, price_per_hour: PriceOption = None) -> None:
    """Write the report of the finished steps.

    retrokit study report out
    """
    page, gates_hold = _report(folder, price_per_hour)
    if not gates_hold:
        raise GateFailed(f"a gate failed; see {page}")


def _planned(path: str, output: str) -> StudyPlan:
    from retrokit.cli import command_lines
    from retrokit.core.outputs import check_outputs
    from retrokit.study.state import StudyPlan
    from retrokit.study.steps import comparing, evaluations_of, read_study, steps_of

    study = read_study(path, command_lines)
    gates = tuple(command_lines.line_of(("eval",), study.gates, f"{path}: gates")[1:])
    steps = steps_of(study, output, command_lines)
    check_outputs([(output, FOLDER)], [word for step in steps for word in step.command])
    command_lines.check([(f"{path}: {step.table}", step.command) for step in steps], output)
    for evaluations in evaluations_of(steps).values() if gates else ():
        checked = command_lines.check([(f"{path}: gates", comparing(evaluations, gates))], output)
        settings = checked["settings"]
        if settings.baseline_system is not None:
            from retrokit.evaluation.evaluate import check_baseline

            try:
                check_baseline(settings.baseline_system, settings.encoders)
            except UsageError as error:
                raise DataError(f"{path}: gates", str(error)) from error
    return StudyPlan(Path(output), study.title, study.text, os.getcwd(), gates, steps)


def _report(folder: str, price_per_hour: float | None) -> tuple[Path, bool]:
    """Write the report and print its summary; returns its path and whether all gates passed."""
    from retrokit.core.files import writing
    from retrokit.report.page import page_of, summary
    from retrokit.report.sources import read_sources
    from retrokit.study.engine import results_of
    from retrokit.study.state import REPORT, StudyPlan

    planned, page = StudyPlan.read(folder), Path(folder, REPORT)
    paths, gates_hold = results_of(planned)
    sources = read_sources([str(path) for path in paths])
    with writing(page) as file:
        file.write(page_of(sources, study=planned, price_per_hour=price_per_hour))
    show("\n\n".join(summary(sources, planned)))
    notice(f"report: {page}")
    return page, gates_hold


def _script(plan: StudyPlan, seconds: Mapping[str, float | None]) -> str:
    lines = []
    for step in plan.steps:
        prints = f" > {shlex.quote(step.output)}" if step.prints else ""
        estimate = f": about {seconds[step.name]:,.0f} s" if seconds.get(step.name) is not None else ""
        lines.append(f"# {step.name}{estimate}\nretrokit {shlex.join(step.command)}{prints}")
    return "\n".join([*lines, f"# {len(plan.steps)} step{'s' * (len(plan.steps) != 1)}"])
