"""What a run is evaluated on: names of tasks, the metric that decides, several tasks in one run."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from retrokit.core.errors import UsageError
from retrokit.data.runs import read_run
from retrokit.evaluation.task import Task
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.report.sheets import TerminalTable
from retrokit.report.tables import preflight_sheets
from retrokit.training.config import FinetuneConfig
from retrokit.training.evaluations import Evaluations, lower_is_better
from retrokit.training.finetune import finetune, plan
from retrokit.training.history import History, Outcome


class Measured(Task):
    """A task that measures some metrics."""

    def __init__(self, *metrics: str) -> None:
        self.main_metric, self.shown_metrics, self.default_metrics = metrics[0], metrics[:1], metrics


TASKS = {"a": Measured("ndcg@10", "mrr@10"), "b": Measured("spearman", "mrr@10"), "c": Measured("loss")}


@pytest.mark.parametrize(
    ("asked", "decides"),
    [(None, "a:ndcg@10"), ("spearman", "b:spearman"), ("a:mrr@10", "a:mrr@10"), ("loss", "c:loss")],
)
def test_which_metric_decides(asked: str | None, decides: str) -> None:
    found = Evaluations.of(TASKS, asked)
    assert found.decides == decides
    task, _, metric = decides.rpartition(":")
    assert metric in found.metrics_of(task)
    assert metric not in found.metrics_of("b" if task != "b" else "a")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_evaluations_compute_in_the_precision_of_the_training(tiny_bert, tmp_path, monkeypatch, precision) -> None:
    asked: list[str] = []
    evaluate = Retrieval.evaluate
    monkeypatch.setattr(
        Retrieval, "evaluate", lambda task, request: asked.append(request.precision) or evaluate(task, request)
    )
    rows = [{"anchor": f"question {i}", "positive": f"answer {i}"} for i in range(20)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    more = {"holdout": 0.3, "steps": 1, "batch_size": 4, "device": "cpu", "precision": precision}
    finetune(FinetuneConfig(str(tiny_bert), [str(tmp_path / "pairs.jsonl")], str(tmp_path / "run"), **more))
    assert set(asked) == {precision}


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ("mrr@10", "several tasks measure it; give a:mrr@10 or b:mrr@10"),
        ("d:mrr@10", "expected one of the tasks a, b, c"),
        ("b:ndcg@10", "unknown metric 'ndcg@10'"),
        ("mrr@11", "unknown metric 'mrr@11' (did you mean mrr@10?)"),
    ],
)
def test_a_metric_that_cannot_decide(asked: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        Evaluations.of(TASKS, asked)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("metric", "values", "best", "gain"),
    [("x:ndcg@10", [0.5, 0.4, 0.7, 0.7], (2, 0.7), 0.2), ("holdout:loss", [2.0, 1.5, 1.0, 1.5], (2, 1.0), 1.0)],
)
def test_the_best_of_a_metric(metric: str, values: list[float], best: tuple[int, float], gain: float) -> None:
    rows = [{"step": step, "evaluation": {metric: value, "other": 3.0}} for step, value in enumerate(values)]
    history = History(Path("nowhere"), [*rows, {"step": 3, "loss": 1.0}], metric, writes=False)
    assert history.best == best
    assert Outcome.of(Path("nowhere"), 3, None, history).gain == pytest.approx(gain)
    assert lower_is_better(metric) == metric.endswith("loss")


def folder_of(path: Path, queries: range) -> str:
    (path / "qrels").mkdir(parents=True)
    rows = {"corpus": [{"_id": f"d{i}", "text": f"red fox number {i}"} for i in range(20)]}
    rows["queries"] = [{"_id": f"q{i}", "text": f"fox {i}"} for i in queries]
    for name, lines in rows.items():
        (path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = "".join(f"q{i}\td{i}\t1\n" for i in queries)
    (path / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return f"beir:{path}"


def test_several_tasks_of_a_run(tmp_path: Path) -> None:
    tasks = [folder_of(tmp_path / "first", range(5)), folder_of(tmp_path / "second", range(5, 15))]
    (tmp_path / "pairs.jsonl").write_text(
        "".join(json.dumps({"anchor": f"a fox {i}", "positive": f"number {i}"}) + "\n" for i in range(16))
    )
    run = tmp_path / "run"
    options = {"sim": "qnorm", "steps": 4, "batch_size": 8, "eval_every": 2, "eval": tasks}
    data, output = [str(tmp_path / "pairs.jsonl")], str(run)
    made = plan(FinetuneConfig("static:8", data, None, **options))
    shown = Console(file=io.StringIO(), width=120)
    shown.print(*map(TerminalTable, preflight_sheets(made.preflight, FinetuneConfig)))
    assert "best metric │ first:ndcg@10" in " ".join(shown.file.getvalue().split())
    outcome = finetune(FinetuneConfig("static:8", data, output, best_metric="second:mrr@10", **options))
    assert outcome.metric == "second:mrr@10"
    for row in outcome.evaluations:
        assert {name.partition(":")[0] for name in row["evaluation"]} == {"first", "second"}
    assert outcome.baseline["similarity"] == "cosine"
    assert outcome.baseline["evaluation"].keys() == outcome.evaluations[0]["evaluation"].keys()
    values = {row["step"]: row["evaluation"]["second:mrr@10"] for row in outcome.evaluations}
    assert outcome.best_step == max([2, 4], key=lambda step: (values[step], -step))
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {f"{task}:query_norm_mean" for task in ("first", "second")} <= logged[0]["norms"].keys()
    described = read_run(str(run))
    assert described.outcome["metric"] == described.notes["configuration"]["best_metric"] == "second:mrr@10"
    assert described.notes["evaluated"] == {"first": tasks[0], "second": tasks[1]}
    card = (run / "README.md").read_text()
    assert all(
        f"## Results on `{task}`\n\n| step | ndcg@10 |" in card.replace("mrr@10 | ndcg", "ndcg") for task in tasks
    )
    assert 'eval = ["beir:' in (run / "config.toml").read_text()
