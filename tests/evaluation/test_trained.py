"""What runs tell of their training, and which of them differ in their seed alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.evaluation.comparison.trained import training_of
from retrokit.evaluation.evaluate import evaluate
from retrokit.report.evaluation import evaluation_sheets
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.evaluation.fakes import Notices, write_folder, write_lines


def run(folder: Path, status: str = "finished", similarity: str = "qnorm", **identity: Any) -> str:
    described = {
        "status": status,
        "similarity": similarity,
        "identity": {
            **{"encoder": "minilm", "sim": similarity, "seed": 0, "lr": 1e-5},
            **{"encoder_fingerprint": "print", "data_digests": ["x"]},
            **identity,
        },
    }
    folder.mkdir()
    (folder / "retrokit.json").write_text(json.dumps(described))
    return str(folder)


@pytest.mark.parametrize("encoder", ["minilm", "a base that means nothing here any more"])
def test_runs_that_differ_in_their_seed_alone(tmp_path: Path, encoder: str) -> None:
    first, second = (training_of(run(tmp_path / f"q-{seed}", seed=seed, encoder=encoder)) for seed in (0, 42))
    assert (first.similarity, first.seed, second.seed) == ("qnorm", "0", "42")
    assert first.group == second.group


@pytest.mark.parametrize(
    "other",
    [
        {"lr": 2e-5},
        {"data_digests": ["y"]},
        {"encoder_fingerprint": "another"},
        {"similarity": "dot"},
        {"encoder": "elsewhere/model"},
        {"new_option": True},
    ],
)
def test_runs_that_differ_in_more(tmp_path: Path, other: dict[str, Any]) -> None:
    first, second = training_of(run(tmp_path / "a")), training_of(run(tmp_path / "b", seed=1, **other))
    assert first.group != second.group


def test_options_of_the_evaluation_count(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a"), run(tmp_path / "b", seed=1)
    assert training_of(f"{a},max_length=64").group == training_of(f"{b},max_length=64").group
    assert training_of(f"{a},max_length=64").group != training_of(b).group


def test_runs_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its training is not finished"):
        training_of(run(tmp_path / "half", status="training"))
    broken = Path(run(tmp_path / "broken"))
    (broken / "retrokit.json").write_text("{")
    with pytest.raises(DataError, match="expected the description of a run"):
        training_of(str(broken))


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
    said = [line for line in recorder.messages if "queries are in the training data" in line]
    told = f"{task} and {data}: 2 of 12 queries are in the training data, 0 are near-duplicates of it"
    assert any(told in line for line in said)
    assert named.to_json()["overlaps"][0]["counts"] == named.overlaps[0].counts
    assert any(sheet.title == "examples" for sheet in evaluation_sheets(found)) == bool(own.examples)
    assert not any(sheet.title == "examples" for sheet in evaluation_sheets(named))


def test_runs_of_the_same_data_share_the_counts_of_the_first(tmp_path: Path, task: str) -> None:
    def seen(*runs: str) -> dict[str, int]:
        (overlap,) = evaluate(runs, [task]).overlaps
        return overlap.counts

    rows = [{"anchor": f"question  {i}", "positive": f"reply {i}"} for i in range(2, 22)]
    data = str(write_lines(tmp_path / "train.jsonl", rows))
    runs = []
    for seed in (2, 3):  # which hold as many pairs out, and others
        runs.append(str(tmp_path / f"seed-{seed}"))
        finetune("static:8", [data], runs[-1], holdout=0.3, seed=seed, steps=1, batch_size=4, device="cpu")
    assert seen(runs[0]) != seen(runs[1])
    assert seen(*runs) == seen(runs[0])
