"""``retrokit eval``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from retrokit.cli.common import option, show
from retrokit.cli.settings import takes
from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.core.settings import EITHER, FILE, FOLDER, Settings, setting
from retrokit.evaluation.settings import GATES, OUTPUT, EvaluationSettings

if TYPE_CHECKING:  # help is shown without loading what computes
    from retrokit.core.sheet import Sheet
    from retrokit.evaluation.comparison.comparison import Evaluation


FORMATS = ("table", "json", "csv", "markdown", "latex")


@dataclass(frozen=True)
class EvaluationOutput(Settings):
    """How an evaluation is shown, which files are written, and the gates."""

    panels = (OUTPUT, GATES)
    first: ClassVar[tuple[str, ...]] = ("max_drop", "save_baseline", "fail_under", "save_run", "as_json")

    format: str | None = setting(None, "Default: table.", OUTPUT, choices=FORMATS)
    as_json: bool = setting(False)
    plot: str | None = setting(None, "Folder for a chart of each task as PNG and SVG.", OUTPUT, writes=FOLDER)
    save_run: str | None = setting(
        None,
        "TREC run to write; a folder if there are several or if it ends with /.",
        OUTPUT,
        writes=EITHER,
    )
    per_query: bool = setting(False, "With --json: include per-query values.", OUTPUT)
    fail_under: Sequence[str] = setting(
        (), "Exit 1 if a result is below METRIC=X, e.g. ndcg@10=0.64. Repeatable.", GATES
    )
    fail_if_worse: bool = setting(False, "Exit 1 if a system is significantly worse than the first (p < 0.05).", GATES)
    save_baseline: str | None = setting(
        None, "Save results as a baseline unless a gate fails.", GATES, writes="baseline"
    )
    max_drop: float | None = setting(
        None,
        "Exit 1 if the drop from --baseline exceeds X and is significant.",
        GATES,
        minimum=0,
    )
    junit: str | None = setting(None, "Write gate results as JUnit XML.", GATES, writes=FILE)
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
        _ = self.least  # raises for a gate that is not METRIC=VALUE
        if self.junit is not None and not self.fail_under and not self.fail_if_worse and self.max_drop is None:
            raise UsageError("--junit reports gates: give --fail-under, --fail-if-worse or --max-drop")

    @property
    def shape(self) -> str:
        """The name of the format in which results are printed."""
        return "json" if self.as_json else self.format or "table"

    @property
    def least(self) -> list[tuple[str, float]]:
        """The gates: metrics with their minimum values."""
        if self.fail_under:
            from retrokit.evaluation.comparison.gates import parse_gate
        return [parse_gate(text) for text in self.fail_under]

    def check_drop(self, baseline: str | None) -> None:
        """Raise :class:`UsageError` for a largest drop without a baseline."""
        if self.max_drop is not None and baseline is None:
            raise UsageError("--max-drop needs --baseline FILE")

    def gated(self, evaluation: Evaluation) -> Evaluation:
        """The evaluation with its gates."""
        from retrokit.evaluation.comparison.gates import gates_of

        return replace(evaluation, gates=gates_of(evaluation, self.least, self.fail_if_worse, self.max_drop))

    def conclude(self, evaluation: Evaluation, sheets: Callable[[], Sequence[Sheet]]) -> None:
        """Write the report of the gates, and raise what they raise; save the baseline if none does."""
        from retrokit.evaluation.comparison.comparison import FAILED
        from retrokit.evaluation.comparison.gates import check_gates, save_baseline

        if self.junit is not None or self.markdown_summary is not None:
            from retrokit.report.evaluation import write_junit, write_summary

            if self.junit is not None:
                write_junit(evaluation.gates, self.junit)
            if self.markdown_summary is not None:
                write_summary(evaluation.gates, sheets(), self.markdown_summary)
        if self.save_baseline is not None and any(gate.verdict == FAILED for gate in evaluation.gates):
            notice(f"{self.save_baseline}: not changed, because a gate failed")
        check_gates(evaluation.gates)
        if self.save_baseline is not None:
            save_baseline(evaluation, self.save_baseline)


@takes(EvaluationSettings, EvaluationOutput, also=None, keep_runs=None)
def evaluate(settings: EvaluationSettings, output: EvaluationOutput) -> None:
    """Evaluate systems on tasks, with paired tests and means over seeds.

    retrokit eval minilm runs/qnorm --on beir:data/scifact

    retrokit eval minilm --on sts:pairs.jsonl --sim cosine --sim sfs:16 --json

    retrokit eval runs/new --on beir:data/scifact --baseline scifact.json --max-drop 0.02
    """
    output.check_drop(settings.baseline)
    if settings.encoders and not settings.on:
        raise UsageError("give a task: --on TASK, as in --on beir:data/scifact")
    if not settings.encoders:
        if settings.results is None:
            raise UsageError("give encoders and --on TASK; or only --results FOLDER, to show earlier results")
        needing = "precision dims device index quantize explain trained_on overlap_examples show_inputs".split()
        given = _changed(settings, needing) + (["--save-run"] if output.save_run is not None else [])
        if given:
            raise UsageError(f"{', '.join(given)}: nothing is computed without encoders")
    from retrokit.evaluation.evaluate import evaluate_systems
    from retrokit.report.evaluation import evaluation_sheets, form

    also, keep_runs = [metric for metric, _ in output.least], output.save_run is not None
    evaluation = output.gated(evaluate_systems(replace(settings, also=also, keep_runs=keep_runs)))
    if output.save_run is not None:
        from retrokit.evaluation.tasks.retrieval import save_runs

        save_runs(evaluation.results, output.save_run)
    if output.plot is not None:
        from retrokit.report.plots import evaluation_plots

        evaluation_plots(evaluation, output.plot)
    show(*form(output.shape)(evaluation, output.per_query))
    output.conclude(evaluation, lambda: evaluation_sheets(replace(evaluation, explanations=())))


def _changed(settings: Settings, names: Iterable[str]) -> list[str]:
    """The options of those names that differ from their defaults."""
    usual = type(settings)()
    return [option(name) for name in names if getattr(settings, name) != getattr(usual, name)]
