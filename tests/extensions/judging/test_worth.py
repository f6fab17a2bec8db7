"""Is a system worth it: queries without judgements, from the draw of pairs to the verdict."""

import csv
import json
import math
import re
import shlex
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from retrokit import cli
from retrokit.core.errors import DataError
from retrokit.data.beir import retrieval_data
from retrokit.extensions.judging.estimate import Predictor, draw_pairs, estimate
from retrokit.extensions.judging.plain_queries import read_without_judgements
from retrokit.extensions.judging.prediction_powered import PoweredEstimate
from retrokit.extensions.judging.unjudged import pool_of
from retrokit.extensions.judging.worth import Effort, QueryInterval, Worth, decide, over_queries
from tests.evaluation.fakes import write_lines

ROOT = Path(__file__).resolve().parents[3]
QUERIES = 30
RELEVANT = {str(i + 1): f"d{i}" for i in range(QUERIES)}
"""Line of each query → its one relevant document."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A corpus, queries as people type them, and runs: ``good`` ranks the answer first, ``weak`` for each third query,
    ``even`` for as many others."""
    write_lines(tmp_path / "corpus.jsonl", [{"id": f"d{i}", "text": f"text {i}"} for i in range(60)])
    (tmp_path / "queries.txt").write_text("".join(f"query {i}\n" for i in range(QUERIES)))
    answered = {"good": range(QUERIES), "weak": range(0, QUERIES, 3), "even": range(1, QUERIES, 3)}
    for system, numbers in answered.items():
        lines = []
        for i in range(QUERIES):
            document = f"d{i}" if i in numbers else f"d{QUERIES + i}"
            lines.append(f"{i + 1} Q0 {document} 1 2.0 x\n{i + 1} Q0 d{(i + 7) % 60} 2 1.0 x\n")
        (tmp_path / f"{system}.trec").write_text("".join(lines))
    return tmp_path


def words(folder: Path, command: str, systems: list[str], *more: object) -> list[str]:
    named = [word for system in systems for word in ("--systems", f"run:{folder / system}.trec,name={system}")]
    plain = ["judge", command, str(folder / "corpus.jsonl"), "--queries", str(folder / "queries.txt")]
    return [*plain, *named, "--metrics", "precision@2", *map(str, more)]


def judge(folder: Path, most: int | None = None) -> Path:
    """The drawn pairs with verdicts on the first ``most``."""
    with (folder / "pairs.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[:most]:
        row["relevant"] = str(int(RELEVANT[row["query-id"]] == row["document-id"]))
    with (folder / "verdicts.csv").open("w") as stream:
        writer = csv.DictWriter(stream, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return folder / "verdicts.csv"


def worth_of(folder: Path, systems: list[str], capsys: pytest.CaptureFixture[str], *more: object) -> dict[str, Any]:
    assert cli.run(words(folder, "pool", systems, "--sample", 500, "--pairs", folder / "pairs.csv")) == 0
    verdicts = judge(folder)
    capsys.readouterr()
    assert cli.run(words(folder, "estimate", systems, "--verdicts", verdicts, "--json", *more)) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_with_all_pairs_judged_the_interval_is_that_of_a_paired_t_test(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``good`` answers 20 queries more: 20 gains of 1/2 and 10 of 0, with SD √(20 · 10 / (30 · 29)) / 2."""
    result = worth_of(folder, ["weak", "good"], capsys)
    weak, good, difference = (row["estimate"] for row in result["metrics"])
    assert (weak["value"], good["value"]) == pytest.approx((10 / 60, 30 / 60))
    margin = 2.045230 * math.sqrt(20 * 10 / (30 * 29)) / 2 / math.sqrt(30)
    assert difference["value"] == pytest.approx(20 / 60)
    assert difference["high"] - difference["value"] == pytest.approx(margin, rel=1e-5)
    (worth,) = result["worth"]
    assert (worth["verdict"], worth["more"], worth["against"]) == ("yes", None, result["metrics"][0]["system"])


@pytest.mark.parametrize(
    ("systems", "least", "verdict"),
    [
        (["weak", "good"], 0.0, "yes"),
        (["good", "weak"], 0.0, "no"),
        (["weak", "good"], 0.5, "no"),
        (["weak", "even"], 0.0, "unknown"),
    ],
)
def test_the_verdict_follows_the_interval(
    folder: Path, capsys: pytest.CaptureFixture[str], systems: list[str], least: float, verdict: str
) -> None:
    result = worth_of(folder, systems, capsys, "--worth", least)
    assert [worth["verdict"] for worth in result["worth"]] == [verdict]


def test_the_table_ends_with_a_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worth_of(folder, ["weak", "good", "even"], capsys)
    words_of = words(folder, "estimate", ["weak", "good", "even"], "--verdicts", folder / "verdicts.csv")
    assert cli.run(words_of) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "good: yes. +0.3333 precision@2 (+0." in printed
    assert "even: not yet. +0.0000 precision@2" in printed
    assert "those of the differences hold together (Bonferroni)" in printed


def test_a_page_without_judgements_has_the_queries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words(folder, "pool", ["weak", "good"], "--sample", 40, "--pairs", folder / "pairs.html")) == 0
    assert re.search(r"40 of \d+ pairs to judge", capsys.readouterr().err)
    data = (folder / "pairs.html").read_text().partition('id="data">')[2].partition("</script>")[0]
    items = json.loads(data)["items"]
    assert len(items) == 40
    lines = {f"query {i}": str(i + 1) for i in range(QUERIES)}
    assert all(lines[item["query"]] == item["row"]["query-id"] for item in items)


def test_the_tutorial_on_a_small_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its commands from a corpus alone to a verdict on each of its systems, with a corpus of 20 topics for the built-in
    one, and a static encoder for the transformer."""
    pytest.importorskip("bm25s", reason="the page installs it")
    page = (ROOT / "docs" / "tutorials" / "is-it-worth-it.md").read_text()
    commands = re.findall(r"^retrokit (?:.*\\\n)*.*", page, re.MULTILINE)
    lines = [shlex.split(line.replace("\\\n", " "))[1:] for line in commands]
    assert [" ".join(line[:2]) for line in lines] == [
        "augment crops",
        "finetune static",
        "judge pool",
        "judge pool",
        "judge estimate",
        "judge estimate",
    ]
    monkeypatch.chdir(tmp_path)
    topics = [f"{first}{second}" for first in ("red", "green", "blue", "dark") for second in range(5)]
    rows = [{"id": t, "text": f"A page that treats {t} is here. It goes on about {t} for long"} for t in topics]
    write_lines(tmp_path / "small.jsonl", rows)
    (tmp_path / "queries.txt").write_text("\n".join(f"what of {topic}" for topic in topics))
    for line in lines:
        if line[1] == "estimate":
            with open("pairs.csv") as stream:
                pairs = list(csv.DictReader(stream))
            for pair in pairs:
                pair["relevant"] = str(int(pair["query"].endswith(pair["document-id"])))
            with open("verdicts.csv", "w") as stream:
                writer = csv.DictWriter(stream, [*pairs[0]])
                writer.writeheader()
                writer.writerows(pairs)
            line = [*line, "--json"]
        capsys.readouterr()
        line = [word.replace("minilm", "static").replace("static", "static:8") for word in line]
        smaller = {"docstrings": "small.jsonl", "64": "8"}
        assert cli.run([smaller.get(word, word) for word in line]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [worth["system"] for worth in result["worth"][1:]] == ["runs/crops", "bm25"]
    bm25 = next(row for row in result["metrics"] if row["system"] == "bm25")
    assert bm25["estimate"]["value"] == pytest.approx(0.2), "it ranks the one answer of each query first"


def test_verdicts_without_a_0_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who marks only what is relevant, and leaves the rest empty, has judged nothing else."""
    assert cli.run(words(folder, "pool", ["weak", "good"], "--sample", 40, "--pairs", folder / "pairs.csv")) == 0
    text = judge(folder).read_text().splitlines()
    (column,) = (number for number, name in enumerate(text[0].split(",")) if name == "relevant")
    with (folder / "verdicts.csv").open() as stream:
        rows = list(csv.reader(stream))
    for row in rows[1:]:
        row[column] = "" if row[column] == "0" else row[column]
    with (folder / "verdicts.csv").open("w") as stream:
        csv.writer(stream).writerows(rows)
    capsys.readouterr()
    assert cli.run(words(folder, "estimate", ["weak", "good"], "--verdicts", folder / "verdicts.csv")) == 2
    assert "all verdicts are 1; give what is not relevant a 0" in capsys.readouterr().err


def test_an_estimate_is_a_possible_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From few verdicts an interval reaches beyond what precision can be."""
    assert cli.run(words(folder, "pool", ["weak", "good"], "--sample", 40, "--pairs", folder / "pairs.csv")) == 0
    judge(folder, most=12)
    capsys.readouterr()
    more = ("--verdicts", folder / "verdicts.csv", "--json")
    assert cli.run(words(folder, "estimate", ["weak", "good"], *more)) == 0
    result = json.loads(capsys.readouterr().out)
    for row in result["metrics"]:
        lowest = -1 if row["against"] else 0
        estimate = row["estimate"]
        assert lowest <= estimate["low"] <= estimate["value"] <= estimate["high"] <= 1


def test_pairs_go_to_a_page_or_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words(folder, "pool", ["weak", "good"], "--pairs", folder / "pairs.xlsx")) == 2
    assert "ends in .html or .csv" in " ".join(capsys.readouterr().err.split())
    assert not (folder / "pairs.xlsx").exists()


# --- the decision


def test_more_verdicts_shrink_the_part_of_judging() -> None:
    """0.05 from 0, of queries 0.03 and of judging 0.08 with 50 of 400 verdicts: 0.08 must shrink to 0.04, which is a
    quarter of 1/50 − 1/400 and 1/400 on top."""
    interval = QueryInterval(0.05, math.hypot(0.03, 0.08), 0.08, 0.03)
    verdict, more = decide(interval, 0.0, Effort(50, 400, 30))
    needed = 1 / ((1 / 50 - 1 / 400) / 4 + 1 / 400)
    assert (verdict, more) == ("judge", 100)
    assert needed - 50 < 100 <= needed - 50 + 10


def test_what_no_verdict_decides_needs_queries() -> None:
    interval = QueryInterval(0.05, 0.07, 0.01, 0.069)
    verdict, more = decide(interval, 0.0, Effort(50, 400, 30))
    assert (verdict, more) == ("queries", 30)
    assert pytest.approx(28.8) == 30 * ((0.07 / 0.05) ** 2 - 1)
    assert decide(QueryInterval(0.001, 0.07, 0.01, 0.069), 0.0, Effort(50, 400, 30)) == ("unknown", None)
    assert decide(QueryInterval(0.02, 0.07, 0.01, 0.069), 0.02, Effort(50, 400, 30)) == ("unknown", None)
    for least in (0.0, 0.02):  # all 30 queries rank alike
        assert decide(QueryInterval(0.0, 0.0, 0.0, 0.0), least, Effort(400, 400, 30)) == ("unknown", None)


def test_intervals_of_several_comparisons_are_wider() -> None:
    def quantile(p: float) -> float:
        """Of Student's t with two degrees of freedom, which has a closed form."""
        return (2 * p - 1) / math.sqrt(2 * p * (1 - p))

    estimates = np.array([0.0, 0.2, 0.4])
    judging = PoweredEstimate(0.2, 0.1, 0.3)
    alone, several = (over_queries(estimates, judging, count) for count in (1, 3))
    assert alone.half == pytest.approx(4.302653 * 0.2 / math.sqrt(3))
    assert several.half / alone.half == pytest.approx(quantile(1 - 0.025 / 3) / quantile(0.975))
    exact = over_queries(np.full(3, 0.2), judging)
    assert exact.half == pytest.approx(0.1)
    assert exact.of_judging == pytest.approx(0.1)


def test_comparisons_in_several_metrics_hold_together(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def half(*more: str) -> float:
        result = worth_of(folder, ["weak", "good"], capsys, *more)
        gain = result["worth"][0]["gain"]
        return float(gain["high"] - gain["low"]) / 2

    quantiles = 2.363846 / 2.045230  # of Student's t with 29 degrees of freedom, at 1 − 0.0125 and 1 − 0.025
    assert half("--metrics", "precision@2,precision@1") / half() == pytest.approx(quantiles, rel=1e-4)


def test_queries_that_all_gain_the_same_say_so() -> None:
    same = Worth("a", "b", "precision@5", "unknown", PoweredEstimate(0.2, 0.2, 0.2), 0.0)
    assert same.sentence == "a: not yet. +0.2000 precision@5 (+0.2000 … +0.2000): " + (
        "cannot be told; every query gains the same; add queries and judge a new pool"
    )


def test_one_system_without_judgements_has_estimates_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert worth_of(folder, ["good"], capsys)["queries"] == QUERIES
    assert cli.run(words(folder, "estimate", ["good"], "--verdicts", folder / "verdicts.csv")) == 0
    printed = capsys.readouterr().out
    assert "intervals cover the choice of queries" in printed
    assert "as judged" not in printed
    assert "bounds" not in printed


@pytest.mark.parametrize(
    ("verdict", "more", "sentence"),
    [
        ("yes", None, "runs/a: yes. +0.0500 precision@5 (+0.0100 … +0.0900): the gain over minilm is above 0"),
        ("judge", 20, "runs/a: judge 20 more. +0.0500 precision@5 (+0.0100 … +0.0900): about 20 more verdicts would"),
        ("queries", 40, "all verdicts would not decide; add about 40 queries and judge a new pool"),
        ("unknown", None, "cannot be told; the gain over minilm is too near 0 for these queries"),
    ],
)
def test_a_sentence(verdict: str, more: int | None, sentence: str) -> None:
    gain = PoweredEstimate(0.05, 0.01, 0.09)
    assert sentence in Worth("runs/a", "minilm", "precision@5", verdict, gain, 0.0, more).sentence


class Simulated:
    """30 of 2,000 queries, the pairs that two systems rank first, and verdicts on ``count`` of these pairs, drawn."""

    ids = tuple(f"d{i}" for i in range(40))
    rng: ClassVar = np.random.default_rng(0)
    relevant: ClassVar = rng.random((2000, 40)) < rng.beta(1, 9, (2000, 1))
    scores: ClassVar = rng.normal(size=(2, 2000, 40)) + np.multiply.outer([1.0, 1.6], relevant)

    def __init__(self, seed: int, count: int) -> None:
        queries = np.random.default_rng(seed).choice(2000, 30, replace=False)
        runs = {
            name: {str(q): dict(zip(self.ids, scores[q].tolist(), strict=True)) for q in queries}
            for name, scores in zip("ab", self.scores, strict=True)
        }
        texts = dict.fromkeys(map(str, queries), "query")
        pool = pool_of(retrieval_data("s", "none", dict.fromkeys(self.ids, "text"), texts, {}), runs, 5)
        self.predictor = Predictor(pool, ["precision@5"], np.empty((0, len(pool.query))))
        self.pairs = len(pool.open)
        self.drawn, self.probabilities = draw_pairs(self.predictor, count, seed)
        judged = pool.open[self.drawn]
        numbers = zip(pool.query[judged].tolist(), judged.tolist(), strict=True)
        verdicts = [self.relevant[int(pool.queries[q]), self.ids.index(pool.documents[pair])] for q, pair in numbers]
        self.verdicts = np.array(verdicts, dtype=float)

    def gain(self, count: int) -> QueryInterval:
        """The gain by the first ``count`` verdicts."""
        size = len(self.drawn)
        probabilities = self.probabilities[:count] * count / size
        of = estimate(self.predictor, self.drawn[:count], self.verdicts[:count], probabilities, size)
        per_query = of.per_query["precision@5", 1] - of.per_query["precision@5", 0]
        return over_queries(per_query, of.differences["precision@5", 1], variance=of.variances["precision@5", 1])


def test_intervals_cover_the_gain_on_all_queries() -> None:
    """Each of 200 draws judges 80 pairs. The interval is for the gain on all 2,000 queries."""
    ranked = [np.argsort(-of_system)[:, :5] for of_system in Simulated.scores]
    precision = [np.take_along_axis(Simulated.relevant, documents, 1).mean(1) for documents in ranked]
    truth = float((precision[1] - precision[0]).mean())
    intervals = [Simulated(seed, 80).gain(80) for seed in range(200)]
    covered = [abs(interval.value - truth) <= interval.half for interval in intervals]
    errors = [interval.value - truth for interval in intervals]
    assert np.mean(covered) > 0.95 - 5 * math.sqrt(0.05 * 0.95 / 200)
    assert abs(np.mean(errors)) < 5 * np.std(errors) / math.sqrt(200)


def test_as_many_more_verdicts_as_it_says_decide_on_average() -> None:
    """With 60 verdicts, judging is the larger part of the interval. More pairs are judged until the interval is
    narrower than the first estimate is far from 0. If the part of the queries were what the part of judging leaves of
    the interval, all pairs would not suffice in a third of the cases."""
    recommended, needed, suffice, of_queries = [], [], [], []
    for seed in range(100):
        simulated = Simulated(seed, 10_000)
        gain = simulated.gain(60)
        of_queries.append(gain.of_queries**2)
        verdict, more = decide(gain, 0.0, Effort(60, simulated.pairs, 30))
        if verdict == "judge" and more is not None:
            counts = range(70, simulated.pairs, 10)
            enough = (count for count in counts if simulated.gain(count).half < abs(gain.value))
            recommended.append(more)
            needed.append(next(enough, simulated.pairs) - 60)
            suffice.append(simulated.gain(simulated.pairs).half < abs(gain.value))
    assert len(needed) > 40
    assert np.mean(suffice) > 0.85
    assert np.mean(recommended) == pytest.approx(np.mean(needed), rel=0.15)
    ranked = [np.argsort(-of_system)[:, :5] for of_system in Simulated.scores]
    precision = [np.take_along_axis(Simulated.relevant, documents, 1).mean(1) for documents in ranked]
    variance = float(np.var(precision[1] - precision[0]))
    assert np.mean(of_queries) == pytest.approx(2.045230**2 * variance / 30, rel=0.2)


def test_intervals_of_systems_that_list_different_documents_cover() -> None:
    """Two systems share two of their first five documents, and 0.4 of all are relevant. With 40 verdicts on documents
    drawn alike, the interval of a system would be ±0.15 or more; uneven odds of the others widen it to ±0.27."""
    rng = np.random.default_rng(0)
    ids = [f"d{i}" for i in range(8)]
    listed = {"a": [0, 1, 2, 3, 4], "b": [0, 1, 5, 6, 7]}
    runs: dict[str, dict[str, dict[str, float]]] = {name: {} for name in listed}
    for query in range(200):
        for name, documents in listed.items():
            runs[name][str(query)] = {ids[d]: float(score) for d, score in zip(documents, rng.random(5), strict=True)}
    data = retrieval_data("s", "none", dict.fromkeys(ids, "text"), {str(q): "query" for q in range(200)}, {})
    pool = pool_of(data, runs, 5)
    predictor = Predictor(pool, ["precision@5"], np.empty((0, len(pool.query))))
    covered, halves = [], []
    for seed in range(150):
        relevant = rng.random(len(pool.query)) < 0.4
        drawn, probabilities = draw_pairs(predictor, 40, seed)
        verdicts = relevant[pool.open[drawn]].astype(float)
        of = estimate(predictor, drawn, verdicts, probabilities, len(drawn))
        for system in range(2):
            interval = of.metrics["precision@5", system]
            truth = relevant[pool.ranks[system] <= 5].mean()
            covered.append(interval.low <= truth <= interval.high)
            halves.append((interval.high - interval.low) / 2)
    assert np.mean(covered) >= 0.9
    assert np.mean(halves) < 0.24


# --- files


def queries_of(tmp_path: Path, name: str, text: str) -> list[str]:
    write_lines(tmp_path / "corpus.jsonl", [{"id": "d", "text": "a text"}])
    (tmp_path / name).write_text(text)
    return list(read_without_judgements(str(tmp_path / "corpus.jsonl"), str(tmp_path / name)).queries)


def test_queries_of_a_language_model_are_read(tmp_path: Path) -> None:
    rows = [{"anchor": f"what is {i}", "positive": "a text", "id": "d"} for i in range(10)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert queries_of(tmp_path, "queries.jsonl", text) == [row["anchor"] for row in rows]
    lines = "\n".join(f" what  is {i}\t" for i in range(10))
    assert queries_of(tmp_path, "queries.txt", lines) == [row["anchor"] for row in rows]


TEN = "".join(f"query {i}\n" for i in range(10))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("q.txt", "", "is empty; expected queries, one a line"),
        ("q.txt", "\n \n", "is empty; expected queries, one a line"),
        ("q.txt", TEN + "query  3\n", "q.txt:11: repeats the query of line 4; keep one of them"),
        ("q.txt", "one\ntwo\n", "contains 2 queries; give 10 or more"),
        ("q.txt", '{"text": "a"}\n', "q.txt:1: looks like JSON"),
        ("q.jsonl", '{"text": " "}\n', "q.jsonl:1: the query is empty"),
        ("q.jsonl", '{"words": "a"}\n', "no field 'text'"),
    ],
)
def test_wrong_queries_are_refused(tmp_path: Path, name: str, text: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        queries_of(tmp_path, name, text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("no text", "corpus.jsonl: no document has a text"),
        ("no corpus", "missing.jsonl"),
        ("few verdicts", "verdicts.csv: too few verdicts for an estimate: 4; judge 10 or more"),
        ("no verdicts", "--queries: nothing is judged; give --verdicts on the pairs of `retrokit judge pool`"),
        ("other queries", "is drawn from other unjudged pairs"),
        ("other systems", "is drawn from other unjudged pairs"),
        ("ndcg", "--metrics ndcg@10: needs to know all relevant documents; with --queries give precision@5"),
        ("twice", "bm25: is given twice"),
        ("one name", "two systems have the name weak"),
        ("reranker", "--with and --queries exclude each other"),
        ("tuned", "weight=auto is tuned on judged queries, and there are none; give a number"),
        ("worth", "--worth needs --queries"),
    ],
)
def test_bad_input_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str], change: str, message: str) -> None:
    systems = ["weak", "good"]
    assert cli.run(words(folder, "pool", systems, "--sample", 40, "--pairs", folder / "pairs.csv")) == 0
    verdicts = judge(folder, 4 if change == "few verdicts" else None)
    line = words(folder, "estimate", systems, "--verdicts", verdicts)
    if change == "no text":
        write_lines(folder / "corpus.jsonl", [{"id": f"d{i}", "text": " "} for i in range(60)])
    elif change == "no corpus":
        line[2] = str(folder / "missing.jsonl")
    elif change == "no verdicts":
        line = words(folder, "estimate", systems)
    elif change == "other queries":
        text = (folder / "queries.txt").read_text()
        (folder / "queries.txt").write_text(text.replace("query 3\n", "another\n"))
    elif change == "other systems":
        line = words(folder, "estimate", ["weak", "even"], "--verdicts", verdicts)
    elif change == "ndcg":
        line += ["--metrics", "ndcg@10"]
    elif change == "twice":
        line = words(folder, "estimate", systems, "--systems", "bm25", "--systems", "bm25", "--verdicts", verdicts)
    elif change == "one name":
        line += ["--systems", f"run:{folder}/good.trec,name=weak"]
    elif change == "reranker":
        line += ["--with", "maxsim:static"]
    elif change == "tuned":
        line += ["--systems", "hybrid:a=bm25,b=static,weight=auto"]
    elif change == "worth":
        line = ["judge", "estimate", str(folder), "--systems", "bm25", "--worth", "0.1"]
    capsys.readouterr()
    assert cli.run(line) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1
    assert message in lines[0]
