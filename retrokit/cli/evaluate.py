"""``retrokit eval``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from retrokit.cli.common import show
from retrokit.core.errors import UsageError
from retrokit.core.settings import FILE, FOLDER, Settings, common, setting
from retrokit.evaluation.settings import GATES, OUTPUT, EvaluationSettings

if TYPE_CHECKING:
    from retrokit.evaluation.comparison.comparison import Evaluation

FORMATS = ("table", "json", "csv", "markdown", "latex")


@dataclass(frozen=True)
class EvaluationOutput(Settings):
    """How an evaluation is shown."""

    panels = (OUTPUT, GATES)

    format: str | None = setting(None, "Default: table.", OUTPUT, choices=FORMATS)
    as_json: bool = common("as_json")
    plot: str | None = setting(None, "Folder for a chart of each task as PNG and SVG.", OUTPUT, writes=FOLDER)
    per_query: bool = setting(False, "With --json: include per-query values.", OUTPUT)
    markdown_summary: str | None = setting(
        None, "Write gates and tables as Markdown, for a pull request.", GATES, writes=FILE
    )

    def __post_init__(self) -> None:
        """Raise :class:`UsageError` for an unknown format, or for options that contradict it."""
        from retrokit.report.evaluation import form

        if self.as_json and self.format not in (None, "json"):
            raise UsageError(f"--json is --format json, not {self.format}: give one")
        form(self.shape)
        if self.per_query and self.shape != "json":
            raise UsageError("--per-query adds to --json: give both")

    @property
    def shape(self) -> str:
        """The name of the format in which results are printed."""
        return "json" if self.as_json else self.format or "table"


def evaluate(settings: EvaluationSettings, output: EvaluationOutput) -> None:
    """Evaluate systems on tasks, with paired tests and means over seeds.

    retrokit eval minilm runs/qnorm --on beir:data/scifact

    retrokit eval minilm --on sts:pairs.jsonl --sim cosine --sim sfs:16 --json

    retrokit eval runs/new --on beir:data/scifact --baseline scifact.json --max-drop 0.02
    """
    from retrokit.evaluation.evaluate import evaluate_systems

    evaluation = evaluate_systems(settings)
    if output.plot is not None:
        from retrokit.report.plots import evaluation_plots

        evaluation_plots(evaluation, output.plot)
    show_evaluation(evaluation, output)


def show_evaluation(evaluation: Evaluation, output: EvaluationOutput, error: bool = False) -> None:
    """Print an evaluation, or with ``error`` on standard error, and raise :class:`GateFailed` if a gate fails."""
    from retrokit.evaluation.comparison.gates import check_gates
    from retrokit.evaluation.comparison.names import for_people
    from retrokit.report.evaluation import evaluation_sheets, form, write_summary

    show(*form(output.shape)(evaluation, output.per_query), error=error)
    if output.markdown_summary is not None:
        shown = for_people(replace(evaluation, explanations=()))
        write_summary(shown.gates, evaluation_sheets(shown), output.markdown_summary)
    check_gates(for_people(evaluation).gates)
