"""``retrokit study``."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrokit.cli.api import FILE, FOLDER, common, notice, setting, show, show_record, show_result
from retrokit.cli.root import application
from retrokit.core.errors import DataError, GateFailed, RetrokitError, UsageError, check_extra, first_line
from retrokit.core.settings import duration
from retrokit.extensions.studies.settings import MODULES, WhySettings

if TYPE_CHECKING:
    from retrokit.evaluation.comparison.comparison import Evaluation
    from retrokit.extensions.studies.state import StudyPlan


STUDY = setting(help="TOML file with a table for each command.", argument=True, metavar="STUDY.toml")
STUDY_FOLDER = setting(help="Folder of the study.", argument=True, metavar="FOLDER")
OUTPUT = common("output", writes=FOLDER)
SYSTEM = setting("minilm", "Encoder or another searcher.", names="encoders,searchers")


class StepsFailed(RetrokitError):
    """Steps of a study failed; ``exit_code`` is that of the first."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run(
    study: str = STUDY,
    output: str = OUTPUT,
    jobs: int = setting(1, "Steps to run in parallel.", flags=("--jobs", "-j")),
    retries: int = setting(0, "Retries of a failed step.", minimum=0),
    engine: str = setting("", "Options for Snakemake, e.g. '--executor slurm'."),
    price_per_hour: float | None = common("price_per_hour"),
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
    output: str = OUTPUT,
    data: str = setting(help="Pairs: FILE.jsonl, hf:NAME; a fifth is held out for testing.", names="data"),
    encoder: str = setting("minilm", "Encoder to start from.", names="encoders"),
    budget: str = setting("1h", "Total time, e.g. 20m, 1h, 8h."),
    batch_size: int = setting(64, "Batch size."),
) -> None:
    """Recommend a similarity for training: a sweep over similarities and seeds, with significance.

    retrokit study which-similarity --data pairs.jsonl --encoder minilm --budget 1h -o out
    """
    parameters = {"data": data, "encoder": encoder, "budget": budget, "batch-size": str(batch_size)}
    try:
        seconds = duration(budget)
    except UsageError as error:
        raise UsageError(f"--budget: {error}") from error
    arguments = (data, encoder, seconds, batch_size)
    _answer(output, "which-similarity", parameters, lambda questions: questions.which_similarity(*arguments))
    from retrokit.extensions.studies.answers import recommendation

    show(f"\n{recommendation(_evaluation(output))}", wrap=True)


def is_it_better_than_bm25(
    output: str = OUTPUT,
    on: Sequence[str] = common("on", help="Retrieval task, e.g. beir:data/scifact. Repeatable."),
    encoder: str = SYSTEM,
) -> None:
    """Compare an encoder with BM25 and with their fusion.

    retrokit study is-it-better-than-bm25 --encoder runs/mine --on beir:data/scifact -o out
    """
    parameters: dict[str, str | Sequence[str]] = {"encoder": encoder, "on": on}
    _answer(output, "is-it-better-than-bm25", parameters, lambda questions: questions.better_than_bm25(encoder, on))
    from retrokit.extensions.studies.answers import beside_bm25

    show("\n" + "\n".join(beside_bm25(_evaluation(output))), wrap=True)


def does_it_see_near_misses(
    output: str = OUTPUT,
    texts: str = setting(help="JSON lines of texts, whose sentences are edited.", reads=FILE),
    encoder: str = SYSTEM,
) -> None:
    """Run a stress test (probe stress) as a study: negation, roles, places, numbers, typos.

    retrokit study does-it-see-near-misses --texts corpus.jsonl --encoder runs/mine -o out
    """
    parameters = {"texts": texts, "encoder": encoder}
    _answer(output, "does-it-see-near-misses", parameters, lambda questions: questions.sees_near_misses(encoder, texts))


def why_this_figure(settings: WhySettings, as_json: bool = common("as_json")) -> None:
    """Find the setting that explains a published figure: prompt, pooling, length, titles, similarity.

    retrokit study why-this-figure minilm --on beir:data/scifact --published ndcg@10=0.645
    """
    from retrokit.extensions.studies.why import why_this_figure as find

    show_record(as_json, "why", find(settings))


def _evaluation(folder: str) -> Evaluation:
    """The evaluation of the study in the folder."""
    from retrokit.report.records import read_record

    source = read_record(f"{folder}/eval.json", "the evaluation of a study")
    assert source is not None
    evaluation: Evaluation = source.record
    return evaluation


def _answer(
    output: str, question: str, parameters: Mapping[str, str | Sequence[str]], study_of: Callable[[Any], str]
) -> None:
    """Run the study of a question; ``study_of`` returns its text from the module of questions."""
    from retrokit.core.outputs import check_outputs
    from retrokit.extensions.studies.state import kept_study

    check_extra("study", "study", MODULES)
    check_outputs([(output, FOLDER)], parameters.values())
    options: list[str] = []
    for name, values in parameters.items():
        for value in [values] if isinstance(values, str) else values:
            options += [f"--{name}", value]
    path = kept_study(
        output, (question, *options), lambda: study_of(import_module("retrokit.extensions.studies.questions"))
    )
    _work(_planned(path, output), 1, 0, ())


def _work(planned: StudyPlan, jobs: int, retries: int, further: Sequence[str], price: float | None = None) -> None:
    from retrokit.extensions.studies import engine as snakemake

    states = snakemake.run(planned, jobs, retries, further)
    page, gates_hold = _report(str(planned.folder), price)
    if failed := [state for state in states if state.state == "failed"]:
        missing = sum(state.state == "missing" for state in states)
        logs = [(state.step.name, planned.marker(state.step, "log"), state.last_word) for state in failed]
        lines = [f"{name} failed, see {log}: {last_word}" for name, log, last_word in logs]
        not_started = f"; {missing} that depend on them were not started" if missing else ""
        message = "\n".join([*lines, f"{len(failed)} of {len(states)} steps failed{not_started}"])
        raise StepsFailed(message, failed[0].code or StepsFailed.exit_code)
    if not gates_hold:
        raise GateFailed(f"a gate failed; see {page}")


def plan(
    study: str = STUDY,
    output: str = common("output", default="study", writes=FOLDER),
    estimate: bool = setting(False, "Measure some steps of each kind and estimate the total."),
    as_json: bool = common("as_json"),
) -> None:
    """Print the steps as command lines, in an order that can be run.

    retrokit study plan study.toml -o out --estimate
    """
    planned = _planned(study, output)
    seconds: dict[str, float | None] = {}
    if estimate:
        from retrokit.extensions.studies.questions import estimates

        seconds = estimates(planned)
    if as_json:
        return show_result(
            True, "step", [{**step.to_json(), "seconds": seconds.get(step.name)} for step in planned.steps]
        )
    show(_script(planned, seconds))
    if estimate:
        unknown = Counter(step.table for step in planned.steps if seconds[step.name] is None)
        steps = ", ".join(f"{count} of {table}" for table, count in unknown.items())
        without_estimate = f", without steps that have no estimate yet ({steps})" if unknown else ""
        notice(f"about {timedelta(seconds=round(sum(filter(None, seconds.values()))))}{without_estimate}")


def status(folder: str = STUDY_FOLDER, as_json: bool = common("as_json")) -> None:
    """Show which steps are done, failed or missing.

    retrokit study status out
    """
    from retrokit.extensions.studies.state import StudyPlan, states_sheet

    study = StudyPlan.read(folder).record()
    show_result(as_json, "steps", study.to_json(), states_sheet(study.states))


def report(folder: str = STUDY_FOLDER, price_per_hour: float | None = common("price_per_hour")) -> None:
    """Write the report of the finished steps.

    retrokit study report out
    """
    page, gates_hold = _report(folder, price_per_hour)
    if not gates_hold:
        raise GateFailed(f"a gate failed; see {page}")


def _planned(path: str, output: str) -> StudyPlan:
    from retrokit.core.outputs import check_outputs
    from retrokit.extensions.studies import command_lines
    from retrokit.extensions.studies.state import StudyPlan
    from retrokit.extensions.studies.steps import comparing, evaluations_of, read_study, steps_of

    study = read_study(path, command_lines)
    gates = tuple(command_lines.line_of(("eval",), study.gates, f"{path}: gates")[1:])
    steps = steps_of(study, output, command_lines)
    check_outputs([(output, FOLDER)], chain.from_iterable(step.command for step in steps))
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
    """Print the summary and write the report, if there is a command for it; returns the path of the states or of the
    report, and whether all gates passed."""
    from retrokit.data.jsonl import write_json
    from retrokit.data.runs import is_run
    from retrokit.extensions.studies.engine import results_of
    from retrokit.extensions.studies.state import REPORT, STATES, StudyPlan
    from retrokit.report.records import read_record

    planned = StudyPlan.read(folder)
    paths, gates_hold = results_of(planned)
    states = planned.folder / STATES
    write_json(states, planned.record().to_json(), 1, "steps")
    reported: list[str] = []
    conclusions: list[str] = []
    for path in (*paths, states):
        if is_run(path):
            reported.append(str(path))
            continue
        source = read_record(str(path), "a result of a study")
        if source is None:
            notice(f"{path}: is of a kind that a report does not show")
            continue
        reported.append(str(path))
        conclusions.append(source.conclusion)
    show("\n\n".join(filter(None, conclusions)), wrap=True)
    if "report" not in application().commands:
        return states, gates_hold
    page = planned.folder / REPORT
    price = [] if price_per_hour is None else [f"--price-per-hour={price_per_hour}"]
    _call(["report", f"--output={page}", f"--title={planned.title}", *price, "--", *reported])
    notice(f"report: {page}")
    return page, gates_hold


def _call(words: Sequence[str]) -> None:
    """Run a command in this process."""
    command = application().commands[words[0]]
    with command.make_context(f"retrokit {words[0]}", list(words[1:])) as context:
        command.invoke(context)


def _script(plan: StudyPlan, seconds: Mapping[str, float | None]) -> str:
    lines = []
    for step in plan.steps:
        prints = f" > {shlex.quote(step.output)}" if step.prints else ""
        estimate = f": about {seconds[step.name]:,.0f} s" if seconds.get(step.name) is not None else ""
        lines.append(f"# {step.name}{estimate}\nretrokit {shlex.join(step.command)}{prints}")
    lines.append("# 1 step" if len(plan.steps) == 1 else f"# {len(plan.steps)} steps")
    return "\n".join(lines)
