"""Warnings of `eval` about texts of a task that an encoder was trained on."""

import shutil
from pathlib import Path

import pytest

from retrokit.core.notices import listening
from retrokit.evaluation import registry
from retrokit.evaluation.comparison import trained
from retrokit.evaluation.comparison.trained import overlaps_with_training
from retrokit.evaluation.evaluate import evaluate
from retrokit.report.evaluation import evaluation_json, evaluation_sheets
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.evaluation.fakes import Notices, write_folder, write_lines


@pytest.fixture
def task(tmp_path: Path) -> str:
    documents, queries = {f"d{i}": f"answer {i}" for i in range(12)}, {f"q{i}": f"Question {i}" for i in range(12)}
    return f"beir:{write_folder(tmp_path / 'bench', documents, queries, {f'q{i}': {f'd{i}': 1} for i in range(12)})}"


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = [{"anchor": f"question  {i}", "positive": f"answer {i % 15}"} for i in range(10, 30)]
    return str(write_lines(tmp_path / "train.jsonl", rows))


def test_a_run_knows_its_data_and_others_are_named(tmp_path: Path, task: str, data: str) -> None:
    run = str(tmp_path / "run")
    small = {"steps": 1, "batch_size": 4, "device": "cpu"}
    finetune(FinetuneConfig("static:8", [data], run, holdout=0.3, **small))
    recorder = Notices()
    with listening(recorder):
        found = evaluate([run, "static:8"], [task], overlap_examples=1)
        named = evaluate(["static:8"], [task], trained_on=[data])
    assert [one.test for one in named.overlaps] == [f"{task} and {data}"]
    assert named.overlaps[0].counts["queries_seen"] == named.overlaps[0].counts["pairs_seen"] == 2
    (own,) = found.overlaps
    assert own.test == f"{task} and {run}"
    assert own.counts["documents_seen"] <= named.overlaps[0].counts["documents_seen"]
    said = [line for line in recorder.messages if "stand in the training data" in line]
    told = f"{task} and {data}: of 12 queries, 2 stand in the training data and 0 nearly do"
    assert any(told in line for line in said)
    assert evaluation_json(named)["overlaps"][0]["counts"] == named.overlaps[0].counts
    assert any(sheet.title == "examples" for sheet in evaluation_sheets(found)) == bool(own.examples)
    assert not any(sheet.title == "examples" for sheet in evaluation_sheets(named))


def test_runs_of_the_same_data_are_told_of_once(tmp_path: Path, task: str, data: str) -> None:
    runs = [str(tmp_path / f"run-{seed}") for seed in range(3)]
    for seed, run in enumerate(runs):
        finetune(FinetuneConfig("static:8", [data], run, steps=1, batch_size=4, device="cpu", seed=seed))
    (found,) = overlaps_with_training([registry.create_on(task, "cpu")], [], runs, 0)
    assert found.test == f"{task} and {runs[0]} and 2 more of the same data"


@pytest.mark.parametrize("what", ["gone", "changed", "large"])
def test_data_that_are_not_at_hand_are_said(
    tmp_path: Path, task: str, data: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(tmp_path / "run")
    finetune(FinetuneConfig("static:8", [data], run, steps=1, batch_size=4, device="cpu"))
    if what == "gone":
        shutil.move(data, tmp_path / "elsewhere")
    elif what == "changed":
        Path(data).write_text('{"anchor": "a", "positive": "b"}\n')
    else:
        monkeypatch.setattr(trained, "MOST", 10)
    recorder = Notices()
    with listening(recorder):
        assert overlaps_with_training([registry.create_on(task, "cpu")], [], [run], 0) == []
    (line,) = [line for line in recorder.messages if "training data" in line]
    assert line.startswith(f"{run}: its training data")
    assert line.endswith("give `trained_on=` to look for texts of the tests in them")
