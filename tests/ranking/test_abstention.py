"""Abstention: the promise in simulations, thresholds by brute force, drift, and calibration of files."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp, norm

import retrokit
from retrokit import cli
from retrokit.ranking.abstention import BATCH, EMPTY, LEVEL, Hubs, drift_p, signal_of, threshold_of
from tests.evaluation.fakes import write_folder
from tests.models import sentences

TEXTS = sentences(160, seed=5)
DOCUMENTS = {f"d{number}": text for number, text in enumerate(TEXTS)}
QUERIES = {f"q{number}": " ".join(text.split()[:4]) for number, text in enumerate(TEXTS[:100])}


def brute_force(nulls: list[float], alpha: float) -> float:
    """The lowest of all thresholds whose corrected risk is at most ``alpha``."""
    allowed = [t for t in nulls if (sum(value > t for value in nulls) + 1) / (len(nulls) + 1) <= alpha + 1e-12]
    return min(allowed, default=math.inf)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.sampled_from([0.02, 0.05, 0.1, 0.29, 0.4, 0.5]))
def test_the_threshold_is_that_of_brute_force(nulls, alpha):
    assert threshold_of(np.array(nulls, dtype=float), alpha) == brute_force(nulls, alpha)


@pytest.mark.parametrize(("count", "alpha"), [(19, 0.05), (57, 0.05), (200, 0.1), (18, 0.05)])
def test_the_error_is_at_most_what_was_promised(count, alpha):
    """Over 1,000 calibrations, the exact error of each; of continuous signals it is also no lower than it need be."""
    random = np.random.default_rng(count)
    errors = np.array([norm.sf(threshold_of(random.normal(size=count), alpha)) for _ in range(1000)])
    noise = 5 * errors.std() / math.sqrt(len(errors))
    expected = math.floor(alpha * (count + 1) + 1e-9) / (count + 1)
    assert errors.mean() <= alpha + noise
    assert errors.mean() == pytest.approx(expected, abs=noise + 1e-12)


def test_the_promise_survives_ties():
    random = np.random.default_rng(0)
    values, shares = np.arange(4), np.array([0.5, 0.3, 0.15, 0.05])
    errors = [
        shares[values > threshold_of(random.choice(values, 39, p=shares).astype(float), 0.1)].sum() for _ in range(1000)
    ]
    assert 0.02 < np.mean(errors) <= 0.1  # over 20 seeds 0.048, with an SD of 0.001


def test_one_reference_is_the_two_sample_test():
    random = np.random.default_rng(3)
    first, second = random.normal(size=80), random.normal(0.3, size=120)
    expected = ks_2samp(first, second, method="asymp")
    assert drift_p(first, second) == pytest.approx(expected.pvalue, rel=0.1)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_no_mixture_of_the_calibration_is_a_drift(share):
    random = np.random.default_rng(4)
    alarms = 0
    for _ in range(300):
        nulls = random.normal(size=100)
        answerable = nulls + random.gamma(2, 1, size=100)
        live = random.normal(size=BATCH) + random.gamma(2, 1, size=BATCH) * (random.random(BATCH) < share)
        alarms += drift_p(live, nulls, answerable) < LEVEL
    assert alarms <= 300 * LEVEL + 3 * math.sqrt(300 * LEVEL)  # 8; over 20 seeds 1.3, with an SD of 1.2


@pytest.mark.parametrize("move", [lambda x: x + 4, lambda x: x - 2, lambda x: 4 * x])
def test_a_planted_drift_is_reported(move):
    random = np.random.default_rng(5)
    missed = 0
    for _ in range(50):
        nulls, answerable = random.normal(size=150), random.normal(1.5, size=150)
        missed += drift_p(move(random.normal(size=2 * BATCH)), nulls, answerable) >= LEVEL
    assert missed <= 1  # over 20 seeds none


def test_hubs_and_signals_by_hand():
    def ranking(**scores: float) -> tuple[np.ndarray, np.ndarray]:
        return np.array([*scores.values()], np.float32), np.array(["abcdefghijkl".index(name) for name in scores])

    ids = dict(enumerate("abcdefghijkl"))
    bank = [ranking(a=0.9, b=0.5), ranking(a=0.7, c=0.4), ranking(b=0.8, a=0.3), ranking()]
    hubs = Hubs.of(bank, ids)
    rest = 0.4  # median of 0.5, 0.4 and 0.3
    assert hubs.rest == pytest.approx(rest)
    means = {"a": 0.9 + 0.7 + 0.3 + 7 * rest, "b": 0.8 + 0.5 + 8 * rest, "c": 0.4 + 9 * rest}
    assert hubs.scores == pytest.approx({id: total / 10 for id, total in means.items()})
    lists = [ranking(**{name: 1 - place / 20 for place, name in enumerate("abcdefghijkl")}), ranking(l=0.5), ranking()]
    assert signal_of("score", lists, ids, hubs).tolist() == pytest.approx([1, 0.5, EMPTY])
    assert signal_of("margin", lists, ids, hubs).tolist() == pytest.approx([0.45, 0, EMPTY])
    csls = [2 - 0.775 - means["a"] / 10, 2 * 0.5 - 0.5 - rest, EMPTY]  # of ten scores from 1 to 0.55 the mean is 0.775
    assert signal_of("hubness", lists, ids, hubs).tolist() == pytest.approx(csls)
    twelve = [ranking(a=1 - number / 100) for number in range(12)]  # the ten best count
    assert Hubs.of(twelve, ids).scores["a"] == pytest.approx(0.955)


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    qrels = {f"q{number}": {f"d{number}": 1, f"d{number + 1}": 1} for number in range(95)}
    qrels |= {f"q{number}": {"d1": 0} for number in range(95, 100)}  # nothing relevant, left out
    return write_folder(tmp_path_factory.mktemp("data") / "toy", DOCUMENTS, QUERIES, qrels)


@pytest.fixture(scope="module")
def exported(tiny_bert: Path, beir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "documents"
    assert cli.run(["export", str(tiny_bert), "--on", str(beir), "-o", str(out), "--precision", "fp32"]) == 0
    return out


@pytest.mark.parametrize("system", ["bm25", "bert"])
def test_a_calibration_is_that_of_a_search_without_the_relevant_documents(system, beir, tiny_bert, tmp_path):
    system, out = str(tiny_bert) if system == "bert" else system, tmp_path / "a.json"
    report = retrokit.calibrate(system, f"beir:{beir}", 0.1, str(out), signal="score", splits=100)
    rankings, nulls = retrokit.search(system, TEXTS, list(QUERIES.values()), k=len(TEXTS)), []
    for number in range(95):
        scores, places = rankings[number]
        others = [float(s) for s, place in zip(scores, places, strict=True) if place not in (number, number + 1)]
        nulls.append(others[0] if others else EMPTY)
    if system != "bm25":  # which counts words in all documents
        scores, _ = retrokit.search(system, TEXTS[2:], [QUERIES["q0"]], k=1)[0]
        assert nulls[0] == pytest.approx(float(scores[0]), rel=1e-5)
    assert (report.queries, report.calibrated, report.signal) == (95, 95, "score")
    assert report.threshold == pytest.approx(brute_force(nulls, 0.1), rel=1e-5)
    assert json.loads(out.read_text())["nulls"] == pytest.approx(sorted(nulls), rel=1e-5)
    assert report.error.mean <= 0.1 + 5 * math.sqrt(0.1 * 0.9 / 95)
    assert report.expected.mean == pytest.approx(9 / 96)
    assert report.answered.mean > report.error.mean


def test_the_same_calibration_has_the_same_bits(beir, tmp_path, capsys):
    printed = []
    for name in ("a.json", "b.json"):
        words = ["calibrate", "bm25", "--on", f"beir:{beir}", "--abstain", "0.1", "-o", str(tmp_path / name), "--json"]
        assert cli.run(words) == 0
        printed.append(capsys.readouterr().out.replace(name, ""))
    assert printed[0] == printed[1]
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    report = json.loads(printed[0])
    assert sum(report["chosen"].values()) == report["splits"] == 200
    assert cli.run(words[:-1]) == 0
    assert f"promised to be at most {report['abstain']:g}" in " ".join(capsys.readouterr().out.split())


def test_a_verifier_and_an_export_are_calibrated(beir, other, exported, tiny_bert, tmp_path, capsys):
    verifier = f"maxsim:{tiny_bert}"
    report = retrokit.calibrate(
        "bm25", f"beir:{beir}", 0.1, str(tmp_path / "a.json"), signal="verifier", verifier=verifier, splits=100
    )
    assert report.signal == "verifier"
    assert json.loads((tmp_path / "a.json").read_text())["verifier"][0].startswith("maxsim:")
    of_texts = retrokit.calibrate(str(tiny_bert), f"beir:{beir}", 0.1, str(tmp_path / "b.json"), precision="fp32")
    of_export = retrokit.calibrate(on=f"beir:{beir}", abstain=0.1, index_folder=str(exported), precision="fp32")
    assert of_export.file == str(exported / "abstention.json")
    first, second = (json.loads(Path(file).read_text()) for file in (of_texts.file, of_export.file))
    assert first["nulls"] == pytest.approx(second["nulls"], rel=1e-5)
    assert first["corpus"] != second["corpus"]
    words = ["search", "--index-folder", str(exported), "--query", "x", "--abstain", "0.1", "--precision", "fp32"]
    assert cli.run(words) == 0
    assert cli.run([*words, "--calibration", of_texts.file]) == 2
    assert f"{of_texts.file}: was calibrated for another index, or other weights or set" in capsys.readouterr().err
    words = ["eval", f"dense:{tiny_bert},export={exported}", "--on", f"beir:{other}", "--abstain", "0.1", "--precision"]
    assert cli.run([*words, "fp32", "--calibration", of_export.file]) == 0
    assert "answered" in capsys.readouterr().out
    words = ["export", str(tiny_bert), "--on", str(beir), "-o", str(exported), "--precision", "fp32", "--overwrite"]
    assert cli.run(words) == 0
    assert not (exported / "abstention.json").exists(), "it was calibrated for the export that was replaced"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("bm25 --on beir:BEIR --abstain 0.01 -o OUT", "cannot promise an error of at most 0.01: 95 queries with rel"),
        ("bm25 --on beir:BEIR", "give --output, a file to write"),
        ("bm25 -o OUT", "give a task with judged queries: --on TASK"),
        ("--on beir:BEIR -o OUT", "name what is calibrated: an encoder, bm25, … or an --index-folder"),
        ("bm25 --on beir:BEIR -o OUT --signal verifier", "--signal verifier needs --verifier"),
        ("bm25 --on beir:BEIR -o OUT --abstain 0.7", "--abstain 0.7 is out of range"),
        ("bm25 --on beir:BEIR -o OUT --splits 10", "'--splits': Input should be greater than or equal to 100"),
        ("bm25 --on sts:BEIR/corpus.jsonl -o OUT", "has no judged documents|sentence1"),
        ("bm25 --on beir:BEIR -o OUT --sim dot", "are an encoder's, and bm25 is none"),
        ("--on beir:BEIR --index-folder OTHERS", "0 queries with relevant documents in "),
        ("--on beir:BEIR --index-folder EXPORT --verifier maxsim", "a verifier reads texts, and an export has none"),
    ],
)
def test_what_cannot_be_calibrated(words, problem, beir, exported, tmp_path, capsys):
    (tmp_path / "texts.jsonl").write_text('{"id": "x", "text": "other"}\n')
    others = tmp_path / "others"
    assert cli.run(["export", "static:8", "--on", str(tmp_path / "texts.jsonl"), "-o", str(others)]) == 0
    places = {"BEIR": str(beir), "OUT": str(tmp_path / "out.json"), "EXPORT": str(exported), "OTHERS": str(others)}
    given_words = words.split()
    for name, place in places.items():
        given_words = [word.replace(name, place) for word in given_words]
    assert cli.run(["calibrate", *given_words]) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in problem.split("|")), error
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(("signal", "least"), [("auto", 8), ("hubness", 5)])
def test_few_queries_are_calibrated_or_refused(signal, least, tmp_path, capsys):
    # four that are not held out allow 0.2; six are needed for one that chooses
    for count in range(5, 9):
        qrels = {f"q{number}": {f"d{number}": 1} for number in range(count)}
        data = write_folder(tmp_path / f"{count}", DOCUMENTS, {id: QUERIES[id] for id in qrels}, qrels)
        words = ["calibrate", "bm25", "--on", f"beir:{data}", "--abstain", "0.2", "--signal", signal]
        status = cli.run([*words, "--splits", "100", "-o", str(tmp_path / f"{count}.json")])
        error = capsys.readouterr().err
        assert (count, status) == (count, 0 if count >= least else 2), error
        assert (f"cannot promise an error of at most 0.2: {count} queries" in error) == (count < least)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same documents with other queries."""
    texts = {f"t{number}": " ".join(TEXTS[number].split()[1:5]) for number in range(100, 158)}
    texts |= {"known": QUERIES["q1"]}  # calibrated on, and left out
    qrels = {"known": {"d1": 1}}
    qrels |= {f"t{number}": {f"d{number}": 1} for number in range(100, 155)}
    qrels |= {f"t{number}": {"d1": 0} for number in range(155, 158)}  # nothing relevant
    return write_folder(tmp_path_factory.mktemp("data") / "other", DOCUMENTS, texts, qrels)


@pytest.fixture(scope="module")
def calibrated(beir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("calibrated") / "bm25.json"
    retrokit.calibrate("bm25", f"beir:{beir}", 0.2, str(out), signal="score")
    return out


@pytest.mark.parametrize("system", ["bm25", "export"])
def test_a_search_answers_above_the_threshold_alone(system, beir, other, calibrated, exported, capsys):
    shared = ["--queries", str(other), "-k", "3", "--format", "jsonl"]
    if system == "bm25":
        words, file = ["search", "bm25", "--corpus", str(beir), *shared], calibrated
        abstain = ["--abstain", "0.2", "--calibration", str(calibrated)]
    else:
        retrokit.calibrate(on=f"beir:{beir}", abstain=0.2, index_folder=str(exported), signal="margin")
        words, file = ["search", "--index-folder", str(exported), *shared], exported / "abstention.json"
        abstain = ["--abstain", "0.2"]
    assert cli.run(words) == 0
    every = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    words[words.index("-k") + 1] = "10"
    assert cli.run(words) == 0
    deep = [json.loads(line)["documents"] for line in capsys.readouterr().out.splitlines()]
    words[words.index("-k") + 1] = "3"
    assert cli.run([*words, *abstain]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    limit = threshold_of(np.array(json.loads(file.read_text())["nulls"]), 0.2)
    answered = 0
    for row, usual, documents in zip(rows, every, deep, strict=True):
        signal = documents[0]["score"] - (0 if system == "bm25" else documents[-1]["score"]) if documents else EMPTY
        assert row == usual if signal > limit else row == {**usual, "documents": [], "abstained": True}
        answered += signal > limit
    assert 0 < answered < len(rows)
    assert cli.run([*(word for word in words if word not in ("--format", "jsonl")), *abstain]) == 0
    assert "abstained: no document is relevant enough" in capsys.readouterr().out


def test_an_evaluation_reports_what_is_answered(beir, other, calibrated, capsys):
    words = ["eval", "bm25", "--on", f"beir:{other}", "--abstain", "0.2", "--calibration", str(calibrated)]
    assert cli.run([*words, "--json", "--per-query"]) == 0
    captured = capsys.readouterr()
    assert "1 of 59 queries calibrated --abstain and are left out" in captured.err
    (result,) = json.loads(captured.out)["results"]
    own, limit = result["abstention"], threshold_of(np.array(json.loads(calibrated.read_text())["nulls"]), 0.2)
    queries = [" ".join(TEXTS[number].split()[1:5]) for number in range(100, 158)]
    rankings = retrokit.search("bm25", TEXTS, queries, k=len(TEXTS))
    answered, nulls = [], []
    for number, (scores, places) in zip(range(100, 158), rankings, strict=True):
        others = scores[places != number] if number < 155 else scores
        nulls.append(len(others) > 0 and others[0] > limit)
        if number < 155:
            answered.append(len(scores) > 0 and scores[0] > limit)
    ndcg = [result["per_query"]["ndcg@10"][f"t{number}"] for number in range(100, 155)]
    assert (own["queries"], own["without"], own["threshold"]) == (55, 58, pytest.approx(limit))
    assert own["answered"] == pytest.approx(np.mean(answered))
    assert own["error"] == pytest.approx(np.mean(nulls))
    assert own["metrics"]["ndcg@10"] == pytest.approx(np.mean(np.array(ndcg)[answered]))
    assert own["baseline"]["ndcg@10"] == pytest.approx(np.mean(ndcg))
    assert 0 < own["answered"] < 1
    assert cli.run(words) == 0
    assert "promised to be at most 0.2" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["eval", "bm25", "--on", f"beir:{other}", "--json"]) == 0
    assert "abstention" not in json.loads(capsys.readouterr().out)["results"][0]


def test_a_drift_of_a_search_is_reported(beir, other, calibrated, tmp_path, capsys):
    words = ["search", "bm25", "--corpus", str(beir), "--abstain", "0.2", "--calibration", str(calibrated)]
    assert cli.run([*words, "--queries", str(beir), "-o", str(tmp_path / "a.trec")]) == 0
    assert "has drifted" not in capsys.readouterr().err
    longer = tmp_path / "queries.jsonl"
    longer.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in list(DOCUMENTS.items())[:60]))
    assert cli.run([*words, "--queries", str(longer), "-o", str(tmp_path / "b.trec")]) == 0
    error = capsys.readouterr().err
    assert "--abstain 0.2: the score of 60 queries has drifted from the calibration" in error
    assert "the promise is void" in error


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("eval bm25 --on beir:BEIR ABSTAIN", "95 of 100 queries calibrated --abstain; calibrate on another split"),
        ("eval bm25:b=0.5 --on beir:OTHER ABSTAIN", "was calibrated for bm25 with own, not for bm25:b=0.5"),
        ("eval bm25 --on beir:CHANGED ABSTAIN", "was calibrated for other documents"),
        ("eval bm25 --on beir:OTHER --abstain 0.2", "--abstain and --calibration, a file of retrokit calibrate, need"),
        ("eval bm25 --on beir:OTHER --abstain 0.2 --calibration no.json", "no.json: no such file; retrokit calibrate"),
        ("eval BERT --on knn:LABELLED ABSTAIN", "--abstain is for retrieval with judged documents"),
        ("search bm25 --corpus CHANGED --query x ABSTAIN", "was calibrated for other documents"),
        ("search bm25 --corpus BEIR --query x --abstain 0.2", "--abstain needs --calibration"),
        ("search bm25 --corpus BEIR --query x --calibration FILE", "--calibration is for --abstain; give both"),
        ("search bm25 --corpus BEIR --query x --abstain 0.001 --calibration FILE", "at least 999 are needed"),
        ("search bm25 --corpus BEIR --query x --abstain 5e-324 --calibration FILE", "must be at least 1e-12"),
        ("search bm25 --corpus BEIR --query x --abstain 0.2 --calibration BEIR", "is a folder; expected a file"),
        ("calibrate bm25 --on beir:BEIR --abstain 1e-300 -o never.json", "--abstain 1e-300 must be at least 1e-12"),
        ("calibrate bm25 --on beir:BEIR --abstain 1e-9 -o never.json", "and 2,249,999,993 are needed"),
        (
            "search bm25 --corpus BEIR --query x --abstain 0.2 --calibration BEIR/corpus.jsonl",
            "calibration of retrokit",
        ),
        ("search --index-folder EXPORT --query x ABSTAIN", "was calibrated for bm25 with own, not for"),
    ],
)
def test_a_calibration_of_something_else_is_refused(
    words, problem, beir, other, calibrated, exported, tiny_bert, tmp_path, capsys
):
    changed = write_folder(tmp_path / "changed", {**DOCUMENTS, "d0": "other"}, {"x": "a b"}, {"x": {"d1": 1}})
    (tmp_path / "labelled.jsonl").write_text('{"text": "a", "label": "b"}\n{"text": "c", "label": "d"}\n' * 20)
    places = {"ABSTAIN": f"--abstain 0.2 --calibration {calibrated}", "FILE": calibrated, "BERT": tiny_bert}
    places |= {"BEIR": beir, "OTHER": other, "CHANGED": changed, "EXPORT": exported}
    places |= {"LABELLED": tmp_path / "labelled.jsonl"}
    for name, place in places.items():
        words = words.replace(name, str(place))
    assert cli.run(words.split()) == 2
    captured = capsys.readouterr()
    assert problem in captured.err, captured.err
    assert len(captured.err.strip().splitlines()) <= 2  # what the task is, and the problem


def test_every_system_is_refused_before_any_works(other, calibrated, tiny_bert, monkeypatch, capsys):
    def measure(*args):
        raise AssertionError("a system has worked")

    monkeypatch.setattr("retrokit.evaluation.tasks.retrieval.Retrieval.measure_index", measure)
    words = ["--on", f"beir:{other}", "--abstain", "0.2", "--calibration", str(calibrated)]
    for last in ("bm25:b=0.5", str(tiny_bert)):
        assert cli.run(["eval", "bm25", last, *words]) == 2
        assert f"was calibrated for bm25 with own, not for {last}" in capsys.readouterr().err


def test_the_example_calibrates_checks_and_searches(beir, other, tmp_path):
    data = shutil.copytree(beir, tmp_path / "data")
    shutil.move(data / "qrels" / "test.tsv", data / "qrels" / "train.tsv")
    shutil.copy(other / "qrels" / "test.tsv", data / "qrels")
    (data / "queries.jsonl").write_text((beir / "queries.jsonl").read_text() + (other / "queries.jsonl").read_text())
    example = Path(__file__).parents[2] / "examples" / "abstain.sh"
    words = ["bash", str(example), str(data), "bm25", "0.2", str(tmp_path / "out")]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "promised to be at most 0.2" in " ".join(done.stdout.split())
    rows = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert {bool(row["documents"]) for row in rows if "abstained" not in row} == {True}
    assert 0 < sum("abstained" in row for row in rows) < len(rows)
