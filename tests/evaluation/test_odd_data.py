"""Data that are odd but valid: every task gives strict JSON and all tables, or one clear line; never a traceback."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrokit import encoders
from retrokit.core.errors import DataError
from retrokit.core.registry import Entry, Param
from retrokit.evaluation.evaluate import evaluate
from retrokit.evaluation.tasks.labelled import transformed
from retrokit.evaluation.tasks.pairs import pearson
from retrokit.metrics import significance
from retrokit.report.evaluation import FORMATS
from tests.evaluation.fakes import GivenEncoder, hashed, write_folder, write_lines

OF = hashed(1).vectors
VECTORS: dict[str, Callable[[str], Any]] = {
    "random": lambda text: np.array(OF[text]),
    "equal": lambda text: np.ones(8),
    "zero": lambda text: np.zeros(8),
    "enormous": lambda text: np.array(OF[text]) * 1e25,
    "minute": lambda text: np.array(OF[text]) * 1e-30,
    "line": lambda text: np.eye(8)[0] * OF[text][0],
}


ENCODED = (
    *(("random", "cosine"), ("equal", "dot"), ("zero", "cosine"), ("enormous", "dot"), ("enormous", "l2")),
    *(("minute", "l2"), ("line", "dot")),
)


class _Vectors(dict[str, list[float]]):
    def __init__(self, kind: str) -> None:
        super().__init__({"": VECTORS[kind]("").tolist()})
        self.kind = kind

    def __missing__(self, text: str) -> list[float]:
        return VECTORS[self.kind](text).tolist()


def odd(kind: str, device: str | None = None) -> GivenEncoder:
    return GivenEncoder(_Vectors(kind), f"odd:{kind}")


@pytest.fixture(autouse=True)
def _odd_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry("odd", "", f"{__name__}:odd", (Param("kind", required=True),), "kind")
    monkeypatch.setitem(encoders.registry._entries, "odd", entry)
    monkeypatch.setattr(significance, "RESAMPLES", 20)


TEXTS = [f"text {i}" for i in range(24)]
HALVES = list(zip(TEXTS[:12], TEXTS[12:], strict=True))
Rows = list[dict[str, Any]]


def labelled(labels: Iterable[Any], texts: Iterable[str] = TEXTS) -> Rows:
    return [{"text": text, "label": label} for text, label in zip(texts, labels, strict=False)]


def scored(scores: Iterable[float]) -> Rows:
    return [{"sentence1": a, "sentence2": b, "score": s} for (a, b), s in zip(HALVES, scores, strict=False)]


def near(count: int, **more: Callable[[int], str]) -> Rows:
    return [
        {"text": a, "near_miss": b, **{key: of(i) for key, of in more.items()}}
        for i, (a, b) in enumerate(HALVES[:count])
    ]


def paired(count: int) -> Rows:
    return [{"sentence1": a, "sentence2": b, "label": i % 2} for i, (a, b) in enumerate(HALVES[:count])]


LABELLED = {
    "three labels": labelled([0, 1, 2] * 8),
    "equal texts": labelled([0, 1] * 12, ["same"] * 24),
    "no text": labelled([0, 1] * 12, [""] * 24),
    "a label each": labelled(range(24)),
    "odd labels": labelled(["$x$", "\\frac", "[/b]", "%s"] * 6),
    "labels beyond int64": labelled([10**30, -(10**30)] * 12),
    "two texts": labelled([0, 1]),
    "one text": labelled([1]),
    "one label": labelled([1] * 24),
}
LABEL_TASKS = (
    *("knn:{},k=1", "knn:{},transform=whitened,k=2", "knn:{},transform=centered,metric=cosine,k=1"),
    *("knn:{},metric=similarity,k=1", "classify:{},k=1", "cluster:{},seeds=2"),
)
SCORED = {
    "scores": scored(range(12)),
    "huge scores": scored(1e300 * i for i in range(12)),
    "the largest scores": scored((-1) ** i * 1.7976931348623157e308 for i in range(12)),
    "the smallest scores": scored(5e-324 * i for i in range(12)),
    "large whole scores": scored(10**30 * i for i in range(12)),
    "scores beyond any float": scored(10**400 * i for i in range(12)),
    "scores that hardly differ": scored(1e16 + 2 * i for i in range(12)),
    "equal scores": scored([1.0] * 12),
    "two pairs": scored([1, 2]),
    "one pair": scored([1]),
    "a text and itself": [{"sentence1": "a", "sentence2": "a", "score": i} for i in range(4)],
}
PAIRS = {
    "duplicates": paired(12),
    "two duplicates": paired(2),
    "one duplicate": paired(1),
    "a pair that is and is not": [{"sentence1": "a", "sentence2": "a", "label": i} for i in (0, 1)],
    "near-misses": near(12),
    "two near-misses": near(2),
    "one near-miss": near(1),
    "of no text": [{"text": "", "near_miss": "x"}],
    "odd families": near(12, positive=lambda i: f"{i}!", family=lambda i: ["$x$", "a/b", "\\", ""][i % 4]),
    "families called as columns": near(12, positive=lambda i: f"{i}!", family=lambda i: ["all", "std"][i % 2]),
    "one positive": [*near(1, positive=lambda i: "other"), *near(5)[1:]],
}
DOCUMENTS, QUERIES = (
    {f"{kind}{i}": text for i, text in enumerate(part)}
    for kind, part in zip("dq", zip(*HALVES, strict=True), strict=True)
)
RANKED: dict[str, tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]] = {
    "documents": (DOCUMENTS, QUERIES, {query: {"d1": 1} for query in QUERIES}),
    "one query": (DOCUMENTS, {"q": "a"}, {"q": {"d1": 1}}),
    "one document": ({"d": "x"}, {"q": "x", "p": "y"}, {"q": {"d": 1}, "p": {"d": 0}}),
    "nothing relevant": (DOCUMENTS, QUERIES, {query: {"d1": 0, "d2": -1} for query in QUERIES}),
    "documents of no text": ({"d": "", "e": ""}, {"q": ""}, {"q": {"d": 1}}),
    "the query itself": ({"q": "x"}, {"q": "x"}, {"q": {"q": 1}}),
}


def cases() -> Iterable[Any]:
    files = [*((name, LABEL_TASKS, rows) for name, rows in LABELLED.items())]
    files += [(name, ("sts:{}",), rows) for name, rows in SCORED.items()]
    files += [(name, ("pairs:{}",), rows) for name, rows in PAIRS.items()]
    for name, tasks, rows in files:
        yield from (
            pytest.param(task, rows, id=f"{name}-{task.partition(':')[0]}{at}") for at, task in enumerate(tasks)
        )
    for name, parts in RANKED.items():
        yield from (
            pytest.param(f"beir:{{}}{more}", parts, id=f"{name}{more}") for more in ("", ",ignore_identical_ids=true")
        )


@pytest.mark.parametrize(("task", "data"), cases())
def test_strict_json_and_tables_or_one_line(task: str, data: Any, tmp_path: Path) -> None:
    path = (
        write_lines(tmp_path / "data.jsonl", data) if isinstance(data, list) else write_folder(tmp_path / "data", *data)
    )
    refusals: list[str] = []
    for kind, similarity in ENCODED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's own
            warnings.filterwarnings("error", category=RuntimeWarning, module="retrokit")
            arguments = ([f"odd:{kind}", "odd:random"], [task.format(path)], [similarity])
            try:
                found = evaluate(*arguments, results=str(tmp_path / "kept"))
            except DataError as error:
                refusals.append(str(error))
                continue
            for form in FORMATS.values():
                assert form(found, True)
    assert not [line for line in refusals if len(line.splitlines()) != 1]
    if (tmp_path / "kept").exists():
        assert FORMATS["json"](evaluate(results=str(tmp_path / "kept")), True)


@pytest.mark.parametrize("power", [-110, -90, 90, 126])
def test_whitening_does_not_depend_on_the_scale(power: int) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(transformed(np.ldexp(rows, power), "whitened"), transformed(rows, "whitened"))


@pytest.mark.parametrize("power", [-1030, -600, 600, 1021])
def test_a_correlation_does_not_depend_on_the_scale(power: int) -> None:
    gold, scores = np.arange(6.0), np.array([0.5, 0.1, 0.2, 0.9, 0.3, 0.7])
    assert pearson(np.ldexp(gold, power), scores) == pearson(scores, np.ldexp(gold, power)) == pearson(gold, scores)


@pytest.mark.parametrize("task", ["pairs", "sts", "beir"])
def test_scores_that_overflow_are_an_error(task: str, tmp_path: Path) -> None:
    data = {"pairs": PAIRS["near-misses"], "sts": SCORED["scores"]}
    path = (
        write_folder(tmp_path / "x", *RANKED["documents"])
        if task == "beir"
        else write_lines(tmp_path / "x", data[task])
    )
    with pytest.raises(DataError, match=r"^dot: \d+ of .* scores are not finite"):
        evaluate(["odd:enormous"], [f"{task}:{path}"], ["dot"])
