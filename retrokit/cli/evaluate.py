"""``retrokit eval``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from retrokit.cli.common import app, option, show, with_names, writable, writable_folder
from retrokit.cli.settings import takes
from retrokit.errors import UsageError
from retrokit.evaluation.settings import GATES, OUTPUT, EvaluationSettings
from retrokit.settings import Settings, setting


@dataclass(frozen=True)
class EvaluationOutput(Settings):
    """How an evaluation is shown and what is written of it; and what it must reach."""

    panels = (OUTPUT, GATES)

    format: str | None = setting(None, "table (default), json, csv, markdown or latex.", OUTPUT)
    as_json: bool = setting(False)
    plot: str | None = setting(
        None, "Draw each task as PNG and SVG into this folder: bars, heat maps of --cross.", OUTPUT
    )
    save_run: str | None = setting(
        None, "Write the ranking of retrieval as a TREC run; a folder if there are several results.", OUTPUT
    )
    per_query: bool = setting(False, "With --json: add the values of every query, text or pair.", OUTPUT)
    fail_under: Sequence[str] = setting((), "Exit 1 if a result is lower, e.g. ndcg@10=0.64. Repeatable.", GATES)
    fail_if_worse: bool = setting(False, "Exit 1 if a result is significantly worse than the first (p < 0.05).", GATES)

    def __post_init__(self) -> None:
        """Raise :class:`UsageError` for an unknown form, or for options that contradict it."""
        from retrokit.report.evaluation import form

        if self.as_json and self.format not in (None, "json"):
            raise UsageError(f"--json is --format json, not {self.format}: give one")
        form(self.shape)
        if self.per_query and self.shape != "json":
            raise UsageError("--per-query adds to --json: give both")

    @property
    def shape(self) -> str:
        """The name of the form in which results are printed."""
        return "json" if self.as_json else self.format or "table"

    @property
    def least(self) -> list[tuple[str, float]]:
        """The gates: metrics with their least values."""
        from retrokit.evaluation.comparison.gates import parse_gate

        return [parse_gate(text) for text in self.fail_under]


@dataclass(frozen=True)
class BaselineOutput(EvaluationOutput):
    """What is kept for later evaluations, and how far this one may fall behind an earlier one."""

    save_baseline: str | None = setting(None, "Keep what was reached in this file, unless a gate fails.", GATES)
    baseline: str | None = setting(None, "Compare with what --save-baseline has kept in this file.", GATES)
    max_drop: float | None = setting(
        None,
        "Exit 1 if the main metric, or the first of --metrics, is lower than the baseline's by more, no chance.",
        GATES,
        least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_drop is not None and self.baseline is None:
            raise UsageError("--max-drop is about --baseline FILE: give both")


@app.command("eval", cls=with_names("encoders", "searchers", "similarities", "tasks"))
@takes(EvaluationSettings, results=writable_folder, also=None, keep_runs=None)
@takes(BaselineOutput, plot=writable_folder, save_run=writable, save_baseline=writable)
def evaluate(settings: EvaluationSettings, output: BaselineOutput) -> None:
    """Evaluate encoders on retrieval, labels, clusters, similarity and pairs, with paired tests and means over seeds.

    retrokit eval minilm runs/qnorm --on beir:data/scifact

    retrokit eval minilm --on sts:pairs.jsonl --sim cosine --sim sfs:16 --json

    retrokit eval runs/new --on beir:data/scifact --baseline scifact.json --max-drop 0.01
    """
    _check_together(settings, output.save_run)
    from retrokit.evaluation import evaluate as evaluation
    from retrokit.evaluation.comparison.baseline import changes_since, read_baseline, save_baseline
    from retrokit.evaluation.comparison.gates import check_gates
    from retrokit.report.evaluation import form

    stored = read_baseline(output.baseline) if output.baseline is not None else []
    on, sim, metrics, also = settings.on, settings.sim, settings.metrics, [metric for metric, _ in output.least]
    if settings.encoders:
        asked = replace(settings, also=also, keep_runs=output.save_run is not None)
        found = evaluation.evaluate(**vars(asked))
    else:
        more = (settings.cross, settings.correlations)
        found = evaluation.evaluated_before(str(settings.results), on, sim, metrics, also, *more)
    if output.baseline is not None:
        found = replace(found, changes=changes_since(found, output.baseline, stored))
    if output.save_run is not None:
        from retrokit.evaluation.tasks.retrieval import save_runs

        save_runs(found.results, output.save_run)
    if output.plot is not None:
        from retrokit.report.evaluation_plots import evaluation_plots

        evaluation_plots(found, output.plot)
    show(*form(output.shape)(found, output.per_query))
    check_gates(found, output.least, output.fail_if_worse, output.max_drop)
    if output.save_baseline is not None:
        save_baseline(found, output.save_baseline)


def _check_together(settings: EvaluationSettings, save_run: str | None) -> None:
    """Raise :class:`UsageError` for encoders without a task, or for what needs encoders where there are none."""
    if settings.encoders and not settings.on:
        raise UsageError("give a task: --on TASK, as in --on beir:data/scifact")
    if settings.encoders:
        return
    if settings.results is None:
        raise UsageError("give encoders and --on TASK; or --results FOLDER alone, to show what was evaluated before")
    usual = EvaluationSettings()
    needing = ("precision", "dims", "device", "index", "explain")
    given = [option(name) for name in needing if getattr(settings, name) != getattr(usual, name)]
    if given := [*given, *(["--save-run"] if save_run is not None else [])]:
        raise UsageError(f"{', '.join(given)}: nothing is computed without encoders")
