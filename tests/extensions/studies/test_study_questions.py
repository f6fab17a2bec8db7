"""Studies that answer one question: what fits into a budget, and what is recommended."""

import re
from pathlib import Path

import pytest

from retrokit.core.errors import UsageError
from retrokit.evaluation.comparison.comparison import Evaluation, evaluation_of
from retrokit.evaluation.result import Result
from retrokit.extensions.studies import command_lines, questions
from retrokit.extensions.studies.answers import beside_bm25, recommendation
from retrokit.extensions.studies.cli import which_similarity
from retrokit.extensions.studies.state import kept_study
from retrokit.extensions.studies.steps import Step, read_study, steps_of


def planned(text: str, folder: Path) -> list[Step]:
    path = folder / "study.toml"
    path.write_text(text)
    return steps_of(read_study(str(path), command_lines), str(folder / "out"), command_lines)


@pytest.mark.parametrize(
    ("budget", "seeds", "similarities", "steps"),
    [
        (1e6, 3, 6, 60),  # three passes are enough
        (18 * (30 + 10), 3, 6, 30),
        (18 * (30 + 10) - 1, 3, 5, 37),
        (6 * (30 + 10), 3, 2, 30),
        (4 * (30 + 10), 2, 2, 30),
        (3 * (30 + 10), 1, 3, 30),
        (2 * (30 + 10), 1, 2, 30),
    ],
)
def test_a_sweep_is_as_large_as_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: float, seeds: int, similarities: int, steps: int
):
    speed = questions._Speed(each=1.0, per_epoch=20.0, besides=10.0)
    monkeypatch.setattr(questions, "_speed", lambda data, encoder, batch_size: speed)
    made = planned(questions.which_similarity("pairs.jsonl", 'stat"ic', budget, 8), tmp_path)
    trained = [step for step in made if step.table == "finetune"]
    assert {step.cell["seed"] for step in trained} == set(range(seeds))
    assert {step.cell["sim"] for step in trained} == set(questions.SIMILARITIES[:similarities])
    assert {"cosine", "sfs:16"} <= {step.cell["sim"] for step in trained}
    assert all(f"--steps={steps}" in step.command and step.command[1] == 'stat"ic' for step in trained)
    assert len(trained) * (steps * speed.each + speed.besides) <= budget
    (split,) = (step for step in made if step.table == "augment-split")
    assert all(step.after == (split.name,) for step in trained)
    evaluated = [step for step in made if step.table == "eval"]
    assert all(f"--on=beir:{split.output}" in step.command for step in evaluated)
    assert [step.command[1] for step in evaluated] == [step.output for step in trained]


def test_a_study_is_made_once_and_kept(tmp_path: Path):
    made: list[str] = []

    def text() -> str:
        made.append("made")
        return "[eval]\n"

    folder = str(tmp_path / "out")
    path = kept_study(folder, ("which-similarity", "a b"), text)
    assert kept_study(folder, ("which-similarity", "a b"), text) == path
    assert made == ["made"], "it is not timed anew, which might make another one"
    assert Path(path).read_text() == "# retrokit study which-similarity 'a b'\n[eval]\n"
    with pytest.raises(UsageError, match="contains another study"):
        kept_study(folder, ("which-similarity", "other"), text)


@pytest.mark.parametrize("budget", ["5x", "h", "-1h", ""])
def test_a_budget_that_is_no_duration_is_refused_by_its_option(budget, tmp_path):
    with pytest.raises(UsageError, match=f"^--budget: '{budget}' is not a duration"):
        which_similarity(str(tmp_path / "out"), "pairs.jsonl", "static", budget, 64)


def evaluated(gains: dict[str, float]) -> Evaluation:
    """Forty queries, on which a system is above the first by ``gain``, by turns a little more and less."""
    results = []
    for name, gain in gains.items():
        values = {f"q{number}": 0.4 + gain + 0.05 * (number % 3 - 1) * (1 + gain) for number in range(40)}
        mean = sum(values.values()) / len(values)
        metrics, per_query = {"ndcg@10": mean}, {"ndcg@10": values}
        results.append(Result(f"runs/{name}", name, "beir:a", "ndcg@10", metrics, per_query, {}, {}, {}))
    return evaluation_of(results, {"beir:a": ["ndcg@10"]}, {})


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({"cosine": 0.0, "sfs:16": 0.1, "dot": 0.02}, "train with sfs:16: it is above cosine by more than chance"),
        ({"cosine": 0.0, "sfs:16": -0.1}, "train with cosine: nothing that was tried is above it"),
    ],
)
def test_another_similarity_is_recommended_where_it_is_better_by_more_than_chance(gains, expected):
    assert recommendation(evaluated(gains)).startswith(expected)


@pytest.mark.parametrize(
    ("gain", "fused", "expected"),
    [
        (
            -0.1,
            0.1,
            r"mine is below bm25 in ndcg@10 by -0.0\d+ \(95% interval -.* more than chance\); fused with bm25 it ",
        ),
        (
            0.1,
            -0.1,
            r"mine is above bm25 in ndcg@10 by \+0.0\d+ \(.*: more than chance\); fused with bm25 it is below ",
        ),
        (
            0.0,
            0.1,
            r"mine is level with bm25 in ndcg@10 by \+0.0000 .*; fused with bm25 it is above bm25 in ndcg@10 by \+0.0",
        ),
    ],
)
def test_the_answer_is_about_the_encoder_that_was_asked_about(gain: float, fused: float, expected: str):
    (answer,) = beside_bm25(evaluated({"bm25": 0.0, "mine": gain, "hybrid": fused}))
    assert re.match("On beir:a, runs/mine " + expected, answer)
