"""What runs tell of their training, and which of them differ in their seed alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.core.notices import listening
from retrokit.evaluation import registry
from retrokit.evaluation.comparison import trained
from retrokit.evaluation.comparison.trained import overlaps_with_training, training_of
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


def test_the_seed_of_the_pretraining_is_a_seed_too(tmp_path: Path) -> None:
    trained = {}
    for name, seed, lr in (("a", 1, 1e-5), ("b", 2, 1e-5), ("c", 2, 3e-5)):
        start = run(tmp_path / f"pretrained-{name}", seed=seed, lr=lr)
        finished = run(tmp_path / f"finished-{name}", seed=seed, encoder=start, encoder_fingerprint=name)
        trained[name] = training_of(finished)
    assert [trained[name].seed for name in "abc"] == ["1+1", "2+2", "2+2"]
    assert trained["a"].group == trained["b"].group != trained["c"].group


def test_a_start_without_a_seed_counts_by_its_weights(tmp_path: Path) -> None:
    """A bridge, or an average, which has no seed and may have been written anew in the same place."""
    start = tmp_path / "bridge"
    start.mkdir()
    (start / "retrokit.json").write_text(json.dumps({"status": "finished", "similarity": "cosine", "identity": {}}))
    first, again, other = (
        training_of(run(tmp_path / name, seed=seed, encoder=str(start), encoder_fingerprint=weights))
        for name, seed, weights in (("a", 0, "v1"), ("b", 1, "v1"), ("c", 2, "v2"))
    )
    assert (first.seed, again.seed) == ("0", "1")
    assert first.group == again.group != other.group


def test_options_of_the_evaluation_count(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a"), run(tmp_path / "b", seed=1)
    assert training_of(f"{a},max_length=64").group == training_of(f"{b},max_length=64").group
    assert training_of(f"{a},max_length=64").group != training_of(b).group


def test_the_seed_of_fresh_weights_is_a_seed_too(tmp_path: Path) -> None:
    found = [
        training_of(
            run(tmp_path / f"s{seed}", seed=seed, encoder=f"static:64,seed={seed}", encoder_fingerprint=str(seed))
        )
        for seed in (1, 2)
    ]
    assert found[0].group == found[1].group
    assert [one.seed for one in found] == ["1+1", "2+2"]
    fresh = [training_of(spec) for spec in ("static:64", "static:64,seed=3", "static:32,seed=3")]
    assert (fresh[0].group == fresh[1].group, fresh[1].group == fresh[2].group) == (True, False)
    assert [(one.seed, one.similarity) for one in fresh] == [("0", None), ("3", None), ("3", None)]


def test_of_others_nothing_is_known(tmp_path: Path) -> None:
    assert training_of("minilm") is None
    assert training_of(str(tmp_path)) is None
    old = Path(run(tmp_path / "old"))
    described = json.loads((old / "retrokit.json").read_text())
    del described["identity"]["seed"]
    (old / "retrokit.json").write_text(json.dumps(described))
    assert (training_of(str(old)).similarity, training_of(str(old)).seed) == ("qnorm", "")


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
