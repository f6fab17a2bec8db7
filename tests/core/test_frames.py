"""Every result of the Python API as a data frame."""

import numpy as np
import pytest

from retrokit.core.frames import flat, frame
from retrokit.evaluation.result import Result
from retrokit.probing.fragments import FragmentProbe, WholeScore
from retrokit.ranking.retrieval.base import Rankings
from retrokit.training.history import Outcome


def result(encoder: str, values: list[float]) -> Result:
    """Of a task of as many queries as there are values."""
    per_query = {"ndcg@10": {f"q{i}": value for i, value in enumerate(values)}}
    return Result(encoder, "dot", "beir:x", "ndcg@10", {"ndcg@10": float(np.mean(values))}, per_query, {}, {}, {})


def test_whole_numbers_stay_whole_and_what_is_missing_is_missing():
    made = frame([{"a": 1, "b": 0.5, "c": "x"}, {"b": 1.0}])
    assert made.to_csv(index=False) == "a,b,c\n1,0.5,x\n,1.0,\n"
    assert list(frame([], ["a"]).columns) == ["a"]
    assert flat({"a": {"b": {"c": 1}}, "d": [2]}) == {"a.b.c": 1, "d": [2]}


@pytest.mark.parametrize(
    ("made", "columns", "first"),
    [
        (
            Rankings([(np.array([2.0, 1.0]), np.array([4, 0]))]),
            ["query", "rank", "document", "score"],
            [0, 1, 4, 2.0],
        ),
        (
            FragmentProbe("t", "m", [WholeScore("e", "dot", 0.5)], [], [], []),
            ["encoder", "similarity", "value", "guess", "p"],
            ["e", "dot", 0.5, None, None],
        ),
        (
            Outcome("runs/x", 4, None, 4, None, [{"step": 4, "evaluation": {"ndcg@10": 0.7}}], []),
            ["step", "ndcg@10"],
            [4, 0.7],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_as_data_frames(made, columns, first):
    rows = made.to_frame()
    assert list(rows.columns) == columns
    assert [None if value is None or value != value else value for value in rows.iloc[0]] == first
