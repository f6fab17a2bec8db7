"""What runs tell of their training, and which of them differ in their seed alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.evaluation.comparison.trained import training_of


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
