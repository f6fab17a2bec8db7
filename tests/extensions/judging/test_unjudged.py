"""What judgements do not know: bounds against all possible judgements, estimates against whole test sets."""

import csv
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrokit
from retrokit import cli
from retrokit.core.errors import DataError
from retrokit.data.beir import RetrievalData, retrieval_data
from retrokit.extensions.judging import systems
from retrokit.extensions.judging.estimate import Estimates, Predictor, draw_pairs, estimate
from retrokit.extensions.judging.prediction_powered import PoweredEstimate, draw_items, inclusion_probabilities, powered
from retrokit.extensions.judging.unjudged import Runs, bounds, fraction_of, pool_of
from retrokit.extensions.judging.verdicts import read_relevance
from retrokit.metrics.ranking import evaluate_run, mean
from tests.evaluation.fakes import write_folder, write_lines

METRICS = ["ndcg@3", "precision@3", "recall@3"]


def data_of(qrels: dict[str, dict[str, int]], documents: int, level: int = 1) -> RetrievalData:
    texts = {f"d{i}": f"text {i}" for i in range(documents)}
    return retrieval_data("set", "test", texts, {query: f"query {query}" for query in qrels}, qrels, level=level)


def small(level: int) -> tuple[RetrievalData, Runs]:
    """Two queries and two systems; ``d9`` is judged and nobody lists it."""
    qrels = {"a": {"d0": 2, "d9": 3, "d5": 0}, "b": {"d1": 2, "d2": 1}}
    runs = {
        "x": {"a": {"d1": 5.0, "d0": 4.0, "d2": 3.0, "d3": 2.0}, "b": {"d0": 3.0, "d1": 2.0, "d3": 1.0}},
        "y": {"a": {"d0": 5.0, "d5": 4.0, "d2": 3.0}, "b": {"d4": 3.0, "d2": 2.0, "d0": 1.0}},
    }
    return data_of(qrels, 10, level), runs


def all_judgements(data: RetrievalData, runs: Runs, depth: int) -> list[dict[str, dict[str, int]]]:
    """The judgements under every assignment of relevance to the open pairs."""
    pool = pool_of(data, runs, depth)
    pairs = [(pool.queries[pool.query[pair]], pool.documents[pair]) for pair in pool.open.tolist()]
    every = []
    for relevant in itertools.product((False, True), repeat=len(pairs)):
        qrels = {query: dict(grades) for query, grades in data.qrels.items()}
        for (query, document), is_relevant in zip(pairs, relevant, strict=True):
            if is_relevant:
                qrels[query][document] = data.level
        every.append(qrels)
    return every


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("metric", METRICS)
def test_bounds_are_the_extremes_of_all_judgements(metric: str, level: int) -> None:
    data, runs = small(level)
    pool = pool_of(data, runs, 3)
    fraction = fraction_of(metric, pool, 20)
    values = [
        [mean(evaluate_run(qrels, run, [metric], level)[metric]) for run in runs.values()]
        for qrels in all_judgements(data, runs, 3)
    ]
    x, y = np.array(values).T
    for expected, found in (
        ((x[0], x.min(), x.max()), bounds(pool, fraction, 0)),
        ((y[0], y.min(), y.max()), bounds(pool, fraction, 1)),
        ((y[0] - x[0], (y - x).min(), (y - x).max()), bounds(pool, fraction, 1, 0)),
    ):
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_verdicts_on_all_pairs_give_the_whole_figures(metric: str) -> None:
    """With every open pair judged, nothing is left to estimate."""
    data, runs = small(1)
    data.qrels["a"].pop("d9")  # nobody lists it, and more like it would be expected
    pool = pool_of(data, runs, 3)
    predictor = Predictor(pool, [metric], np.empty((0, len(pool.query))))
    count = len(pool.open)
    drawn, probabilities = draw_pairs(predictor, count, 0)
    assert sorted(drawn.tolist()) == list(range(count))
    assert probabilities.tolist() == [1.0] * count
    truth = np.random.default_rng(1).integers(0, 2, count).astype(float)
    of = estimate(predictor, drawn, truth[drawn], probabilities, count)
    qrels = {query: dict(grades) for query, grades in data.qrels.items()}
    for place, pair in enumerate(pool.open.tolist()):
        if truth[place]:
            qrels[pool.queries[pool.query[pair]]][pool.documents[pair]] = 1
    x, y = (mean(evaluate_run(qrels, run, [metric])[metric]) for run in runs.values())
    assert of.metrics[metric, 0].value == pytest.approx(x, abs=1e-9)
    assert of.differences[metric, 1].value == pytest.approx(y - x, abs=1e-9)
    assert of.relevant.value == pytest.approx(truth.mean())
    assert of.relevant.low == of.relevant.high


# --- drawing and estimating


def test_probabilities_are_proportional_up_to_one() -> None:
    sizes = np.array([9.0, 3.0, 1.0, 1.0, 0.0])
    found = inclusion_probabilities(sizes, 3)
    np.testing.assert_allclose(found, [1, 1, 0.5, 0.5, 0])
    np.testing.assert_allclose(inclusion_probabilities(sizes, 1), sizes / 14)
    assert inclusion_probabilities(sizes, 99).tolist() == [1, 1, 1, 1, 0]


def test_a_grade_below_zero_is_a_judgement() -> None:
    runs = {"x": {"a": {"d0": 3.0, "d1": 2.0, "d2": 1.0}}}
    pool = pool_of(data_of({"a": {"d0": -2, "d2": 1}}, 3), runs, 3)
    assert pool.grades.tolist() == [0, -1, 1]
    assert [pool.documents[pair] for pair in pool.open] == ["d1"]
    assert pool.judged_share(0, 3) == 2 / 3


def test_an_interval_by_hand() -> None:
    """Two errors, 1 and −1, drawn with probability 1/2: twice as large each, they have the variance
    2 / (2 − 1) · (2² + 2²) / 2, and one degree of freedom."""
    half = np.full(2, 0.5)
    of = powered(3.0, np.array([1.0, -1.0]), half, np.zeros(2), half)
    assert of.value == 3.0
    margin = 12.7062047 * math.sqrt(8)
    assert (of.low, of.high) == pytest.approx((3 - margin, 3 + margin))
    # where predictions expect a larger variance, 10 · (1 / 0.5 − 1) for each item, that one counts
    of = powered(3.0, np.array([1.0, -1.0]), half, np.full(2, 10.0), half)
    assert of.high - 3 == pytest.approx(12.7062047 * math.sqrt(20))
    # what was certain to be drawn leaves nothing open
    of = powered(3.0, np.array([1.0, -1.0]), np.ones(2), np.full(2, 10.0), np.ones(2))
    assert (of.low, of.value, of.high) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize("bias", [0.0, 0.3])
def test_a_total_is_covered_whether_predictions_are_right_or_not(bias: float) -> None:
    rng = np.random.default_rng(3)
    chances = rng.beta(0.5, 2, 400)
    truth = (rng.random(400) < chances).astype(float)
    predicted = np.clip(chances + bias, 0.01, 0.99)
    probabilities = inclusion_probabilities(np.sqrt(predicted * (1 - predicted)), 80)
    inside, values = [], []
    for _ in range(400):
        drawn = draw_items(probabilities, rng)
        errors = truth[drawn] - predicted[drawn]
        base = predicted.sum() + errors.sum()
        of = powered(base, errors, probabilities[drawn], predicted * (1 - predicted), probabilities)
        inside.append(of.low <= truth.sum() <= of.high)
        values.append(of.value)
    assert np.mean(inside) > 0.95 - 5 * math.sqrt(0.05 * 0.95 / 400)
    assert abs(np.mean(values) - truth.sum()) < 5 * np.std(values) / 20


def ranked_set(queries: int, seed: int) -> tuple[RetrievalData, Runs]:
    """One to four relevant documents of a query, which both systems tend to rank high."""
    rng = np.random.default_rng(seed)
    qrels = {f"q{i}": {f"d{d}": 1 for d in rng.choice(60, rng.integers(1, 5), replace=False)} for i in range(queries)}
    data = data_of(qrels, 60)
    runs: dict[str, dict[str, dict[str, float]]] = {}
    for system, lift in (("weak", 1.2), ("strong", 2.0)):
        runs[system] = {
            query: {f"d{d}": float(rng.normal() + lift * (f"d{d}" in grades)) for d in range(60)}
            for query, grades in qrels.items()
        }
    return data, runs


# --- files and commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A set of 50 queries, of which 40% of the judgements are missing; and the runs of two systems."""
    data, runs = ranked_set(50, 5)
    rng = np.random.default_rng(7)
    left = {
        query: {d: g for place, (d, g) in enumerate(grades.items()) if place == 0 or rng.random() > 0.4}
        for query, grades in data.qrels.items()
    }
    documents = dict(zip(data.document_ids, data.documents, strict=True))
    write_folder(tmp_path / "set", documents, dict(zip(data.query_ids, data.queries, strict=True)), left)
    for system, run in runs.items():
        rows = [(query, document, score) for query, scores in run.items() for document, score in scores.items()]
        lines = [f"{query} Q0 {document} 0 {score} x" for query, document, score in rows]
        (tmp_path / f"{system}.trec").write_text("\n".join(lines) + "\n")
    (tmp_path / "whole.json").write_text(json.dumps(data.qrels))
    return tmp_path


def words(folder: Path, command: str, *more: object) -> list[str]:
    both = [f"run:{folder / 'weak.trec'}", f"run:{folder / 'strong.trec'}"]
    named = [word for system in both for word in ("--systems", system)]
    return ["judge", command, f"beir:{folder / 'set'}", *named, "--metrics", "ndcg@10", *map(str, more)]


def judged(folder: Path, name: str, most: int | None = None) -> Path:
    """The file of pairs, with the whole set's verdicts on the first ``most``."""
    whole = json.loads((folder / "whole.json").read_text())
    with (folder / name).open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[:most]:
        row["relevant"] = str(int(row["document-id"] in whole[row["query-id"]]))
    with (folder / "judged.csv").open("w") as stream:
        writer = csv.DictWriter(stream, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return folder / "judged.csv"


def unjudged(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_pairs_are_written_judged_and_estimated_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words(folder, "pool", "--sample", 80, "--pairs", folder / "pairs.csv")) == 0
    assert "pairs to judge; then give the verdicts to `retrokit judge estimate`" in capsys.readouterr().err
    assert cli.run(words(folder, "estimate")) == 0
    assert "copies count" not in capsys.readouterr().out
    whole = json.loads((folder / "whole.json").read_text())
    assert cli.run(words(folder, "estimate", "--verdicts", judged(folder, "pairs.csv"), "--json")) == 0
    found = unjudged(capsys)
    assert found["verdicts"] == 80
    assert found["note"] == ""
    rows = {(row["system"].rpartition("/")[2], row["against"] is None): row for row in found["metrics"]}
    assert len(rows) == 3
    for system in ("weak", "strong"):
        run = retrokit.evaluate([f"run:{folder}/{system}.trec"], [f"beir:{folder}/set"], keep_runs=True).results[0].run
        truth = mean(evaluate_run(whole, run, ["ndcg@10"])["ndcg@10"])
        row = rows[f"{system}.trec", True]
        assert row["lowest"] <= row["estimate"]["low"] <= truth <= row["estimate"]["high"] <= row["highest"]
        assert row["estimate"]["high"] - row["estimate"]["low"] < 0.8 * (row["highest"] - row["lowest"])


@pytest.mark.parametrize("relevant", [0, 5, 20])
def test_of_a_part_of_the_pairs_follows_the_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], relevant: int
) -> None:
    """Each of 40 queries has a relevant document, and one that nobody judged; 20 of these 40 have verdicts."""
    documents = {f"{kind}{i}": f"{kind} text {i}" for i in range(40) for kind in ("known", "open")}
    queries, qrels = {f"q{i}": f"query {i}" for i in range(40)}, {f"q{i}": {f"known{i}": 1} for i in range(40)}
    write_folder(tmp_path / "set", documents, queries, qrels)
    lines = [f"q{i} Q0 {kind}{i} 0 {score} x\n" for i in range(40) for kind, score in (("known", 2), ("open", 1))]
    (tmp_path / "x.trec").write_text("".join(lines))
    given = [f"beir:{tmp_path / 'set'}", "--systems", f"run:{tmp_path / 'x.trec'}", "--metrics", "precision@2"]
    assert cli.run(["judge", "pool", *given, "--sample", "40", "--pairs", str(tmp_path / "pairs.csv")]) == 0
    with (tmp_path / "pairs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for place, row in enumerate(rows[:20]):
        row["relevant"] = str(int(place < relevant))
    with (tmp_path / "pairs.csv").open("w") as stream:
        writer = csv.DictWriter(stream, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    capsys.readouterr()
    assert cli.run(["judge", "estimate", *given, "--verdicts", str(tmp_path / "pairs.csv"), "--json"]) == 0
    found, share = unjudged(capsys), relevant / 20
    assert (found["verdicts"], found["pairs"]) == (20, 40)
    rate, (metric,) = found["false_negatives"], found["metrics"]
    assert rate["value"] == pytest.approx(share, abs=1e-9)
    assert metric["estimate"]["value"] == pytest.approx((1 + share) / 2, abs=1e-9)
    if relevant == 5:  # a quarter of 20 of 40: its standard error is about √(1/4 · 3/4 / 20 · (1 − 20/40)) = 0.068
        assert rate["high"] - share == pytest.approx(share - rate["low"])
        assert 2 * 0.068 < rate["high"] - share < 3 * 0.068


@pytest.mark.parametrize("grade", [1, 2])
def test_bounds_of_ndcg_are_none_with_higher_grades(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, grade: int
) -> None:
    qrels = folder / "set" / "qrels" / "test.tsv"
    lines = qrels.read_text().splitlines()
    qrels.write_text("\n".join([*lines[:-1], f"{lines[-1].rpartition(chr(9))[0]}\t{grade}"]) + "\n")
    both = ["--metrics", "ndcg@10,recall@10"]
    assert cli.run(words(folder, "pool", *both, "--sample", 40, "--pairs", folder / "pairs.csv")) == 0
    capsys.readouterr()
    assert cli.run(words(folder, "estimate", *both)) == 0
    note = "in nDCG an unjudged document counts with grade 1"
    assert (note in capsys.readouterr().out) == (grade > 1)
    beyond = PoweredEstimate(2.0, 1.9, 2.1)
    values = {(name, system): beyond for name in ("ndcg@10", "recall@10") for system in (0, 1)}
    monkeypatch.setattr(systems, "estimate", lambda *_: Estimates(beyond, values, values, {}, {}))
    assert cli.run(words(folder, "estimate", *both, "--verdicts", judged(folder, "pairs.csv"), "--json")) == 0
    found = unjudged(capsys)
    assert (note in found["note"]) == (grade > 1)
    for row in found["metrics"]:
        is_free = grade > 1 and row["metric"] == "ndcg@10"
        assert row["estimate"]["high"] == (2.1 if is_free else row["highest"])


def test_verdicts_of_other_pairs_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those drawn for one of the two systems, whose documents are all among the pairs of both; and two draws."""
    run = f"run:{folder / 'weak.trec'}"
    one = [f"beir:{folder / 'set'}", "--systems", run, "--metrics", "ndcg@10"]
    for ending in ("csv", "html"):
        assert cli.run(["judge", "pool", *one, "--sample", "40", "--pairs", str(folder / f"pairs.{ending}")]) == 0
    items = json.loads((folder / "pairs.html").read_text().partition('id="data">')[2].partition("</script>")[0])
    lines = [{**item["row"], "relevant": True, "sample": items["sample"]} for item in items["items"]]
    page = write_lines(folder / "page.jsonl", lines)
    capsys.readouterr()
    for verdicts in (judged(folder, "pairs.csv"), page):
        assert cli.run(["judge", "estimate", *one, "--verdicts", str(verdicts)]) == 0
        capsys.readouterr()
        assert cli.run(words(folder, "estimate", "--verdicts", verdicts)) == 2
        (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: "))
        assert "drawn from other unjudged pairs; give the data, --systems, --metrics and --depth of the draw" in line
    paths = []
    for seed in (1, 2):
        assert cli.run(words(folder, "pool", "--sample", 40, "--pairs", folder / "pairs.csv", "--seed", seed)) == 0
        paths.append(judged(folder, "pairs.csv").rename(folder / f"{seed}.csv"))
    capsys.readouterr()
    assert cli.run(words(folder, "estimate", "--verdicts", paths[0], "--verdicts", paths[1])) == 2
    assert "is of another sample than the verdicts before it; give those of one draw" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"query-id": "q", "document-id": "d", "probability": 0.5, "of": 4, "relevant": "maybe"}, "1 or 0"),
        ({"query-id": "q", "document-id": "d", "probability": 2, "of": 4, "relevant": 1}, "at most 1"),
        ({"query-id": "q", "document-id": "d", "of": 4, "relevant": 1}, "no field 'probability'"),
        ({"query-id": "q", "document-id": "d", "probability": 0.5, "of": 4, "relevant": ""}, "contains no verdict"),
    ],
)
def test_wrong_verdicts_are_refused(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_relevance([str(write_lines(tmp_path / "v.jsonl", [row]))])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--metrics", "mrr@10"], "--metrics mrr@10: only ndcg, precision, recall can be bounded"),
        (["--metrics", "ndcg@10,ndgc@10"], "unknown metric 'ndgc@10'"),
        (["--with", "maxsim"], "--with needs --verdicts"),
        (["--depth", "5"], "--depth 5: ndcg@10 need 10"),
        (["--verdicts", "{0}/other.jsonl"], "is drawn from other unjudged pairs"),
        (["--systems", "nothing:x"], "nothing"),
    ],
)
def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str) -> None:
    other = {"query-id": "q0", "document-id": "none", "probability": 0.5, "of": 4, "relevant": 1, "sample": "a-b"}
    write_lines(folder / "other.jsonl", [other])
    assert cli.run(words(folder, "estimate", *(word.format(folder) for word in more))) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1
    assert message in lines[0]
