"""Abstention: the promise in simulations, thresholds by brute force, drift, and the searcher ``abstain``."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import retrokit
from retrokit import cli
from retrokit.extensions import abstention
from retrokit.extensions.abstention.searcher import ABSTAINED, BATCH, LEVEL
from retrokit.extensions.abstention.signals import EMPTY, Hubs, drift_p, signal_of, threshold_of
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
    report = abstention.calibrate(system, on=f"beir:{beir}", error=0.1, output=str(out), signal="score", splits=100)
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


def test_an_export_is_calibrated_and_searched(beir, other, exported, tiny_bert, tmp_path, capsys):
    texts, file = str(tmp_path / "texts.json"), str(tmp_path / "exported.json")
    system = f"dense:{tiny_bert},precision=fp32"
    abstention.calibrate(system, on=f"beir:{beir}", error=0.1, output=texts)
    abstention.calibrate(system, on=f"beir:{beir}", error=0.1, index_folder=str(exported), output=file)
    first, second = (json.loads(Path(name).read_text()) for name in (texts, file))
    assert first["nulls"] == pytest.approx(second["nulls"], rel=1e-5)
    assert first["corpus"] != second["corpus"]
    words = ["search", "--index-folder", str(exported), "--query", "x"]
    assert cli.run([f"{words[0]}", f"abstain:{file},error=0.1", *words[1:]]) == 0
    assert cli.run([f"{words[0]}", f"abstain:{texts},error=0.1", *words[1:]]) == 2
    assert f"{texts}: was calibrated for other documents" in capsys.readouterr().err
    moved = shutil.copytree(exported, tmp_path / "moved")
    assert cli.run(["search", f"abstain:{file},error=0.1", "--index-folder", str(moved), "--query", "x"]) == 0
    capsys.readouterr()
    assert cli.run(["eval", f"abstain:{file},error=0.1,export={moved}", "--on", f"beir:{other}", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["configuration"]["dtype"] == "float32", "the stored embeddings were used"
    words = ["abstain", "report", file, "--on", f"beir:{other}", "--error", "0.1", "--index-folder", str(moved)]
    assert cli.run([*words, "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["queries"] == 55
    report = abstention.report(texts, on=f"beir:{other}", error=0.1)
    assert (report.error, report.answered) == (measured["error"], measured["answered"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("bm25 --on beir:BEIR --error 0.01 -o OUT", "cannot promise an error of at most 0.01: 95 queries with rel"),
        ("bm25 --on beir:BEIR", "Missing option '--output'"),
        ("--on beir:BEIR --index-folder EXPORT", "Missing option '--output'"),
        ("bm25 -o OUT", "Missing option '--on'"),
        ("--on beir:BEIR -o OUT", "name what is calibrated: an encoder, bm25, … or an --index-folder"),
        ("bm25 --on beir:BEIR -o OUT --signal verifier", "--signal verifier needs --verifier"),
        ("bm25 --on beir:BEIR -o OUT --error 0.7", "--error 0.7 is out of range"),
        ("bm25 --on beir:BEIR -o OUT --error 1e-300", "--error 1e-300 must be at least 1e-12"),
        ("bm25 --on beir:BEIR -o OUT --error 1e-9", "and 2,249,999,993 are needed"),
        ("bm25 --on beir:BEIR -o OUT --splits 10", "'--splits': Input should be greater than or equal to 100"),
        ("bm25 --on sts:BEIR/corpus.jsonl -o OUT", "has no judged documents|sentence1"),
        ("abstain:OUT --on beir:BEIR -o OUT", "abstains already; calibrate the system inside"),
        ("bm25:sim=dot --on beir:BEIR -o OUT", "bm25 has no parameter 'sim'"),
        ("bm25 --on beir:BEIR -o OUT --index-folder EXPORT", "is searched with the encoder that wrote it, not with bm"),
        ("hybrid:a=bm25,b=static:8,weight=auto --on beir:BEIR -o OUT", "weight=auto is tuned on judged queries"),
        ("--on beir:BEIR --index-folder OTHERS -o OUT", "0 queries with relevant documents in "),
        ("--on beir:BEIR --index-folder EXPORT -o OUT --verifier maxsim", "a verifier reads texts, and an export has"),
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
    assert cli.run(["abstain", "calibrate", *given_words]) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in problem.split("|")), error
    assert not (tmp_path / "out.json").exists()


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
    abstention.calibrate("bm25", on=f"beir:{beir}", error=0.2, output=str(out), signal="score")
    return out


@pytest.fixture(scope="module")
def calibrated_export(beir: Path, exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("calibrated") / "exported.json"
    abstention.calibrate(on=f"beir:{beir}", error=0.2, output=str(out), index_folder=str(exported), signal="margin")
    return out


@pytest.mark.parametrize("system", ["bm25", "export"])
def test_a_search_answers_above_the_threshold_alone(
    system, beir, other, calibrated, calibrated_export, exported, capsys
):
    shared = ["--queries", str(other), "-k", "3", "--format", "jsonl"]
    if system == "bm25":
        plain, file, searched = ["bm25"], calibrated, ["--corpus", str(beir)]
    else:
        plain, file, searched = [], calibrated_export, ["--index-folder", str(exported)]
    words = ["search", *searched, *shared]
    assert cli.run([*words, *plain]) == 0
    every = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    words[words.index("-k") + 1] = "10"
    assert cli.run([*words, *plain]) == 0
    deep = [json.loads(line)["documents"] for line in capsys.readouterr().out.splitlines()]
    words[words.index("-k") + 1] = "3"
    assert cli.run([*words, f"abstain:{file},error=0.2"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    limit = threshold_of(np.array(json.loads(file.read_text())["nulls"]), 0.2)
    answered = 0
    for row, usual, documents in zip(rows, every, deep, strict=True):
        signal = documents[0]["score"] - (0 if system == "bm25" else documents[-1]["score"]) if documents else EMPTY
        assert row == usual if signal > limit else row == {**usual, "documents": [], "empty": ABSTAINED}
        answered += signal > limit
    assert 0 < answered < len(rows)
    words = [word for word in words if word not in ("--format", "jsonl")]
    assert cli.run([*words, f"abstain:{file},error=0.2"]) == 0
    assert "abstained: no document is relevant enough" in capsys.readouterr().out


def report_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[dict, str]:
    """What ``abstain report`` prints as JSON, and its messages."""
    assert cli.run(["abstain", "report", *words, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_a_report_measures_error_and_answers(beir, other, calibrated, capsys):
    words = [str(calibrated), "--on", f"beir:{other}", "--error", "0.2"]
    report, messages = report_of(words, capsys)
    assert f"1 of 59 queries calibrated {calibrated} and are left out" in messages
    limit = threshold_of(np.array(json.loads(calibrated.read_text())["nulls"]), 0.2)
    queries = [" ".join(TEXTS[number].split()[1:5]) for number in range(100, 158)]
    rankings = retrokit.search("bm25", TEXTS, queries, k=len(TEXTS))
    answered, nulls = [], []
    for number, (scores, places) in zip(range(100, 158), rankings, strict=True):
        others = scores[places != number] if number < 155 else scores
        nulls.append(len(others) > 0 and others[0] > limit)
        if number < 155:
            answered.append(len(scores) > 0 and scores[0] > limit)
    assert cli.run(["eval", "bm25", "--on", f"beir:{other}", "--json", "--per-query"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    ndcg = [result["per_query"]["ndcg@10"][f"t{number}"] for number in range(100, 155)]
    assert (report["queries"], report["without"], report["threshold"]) == (55, 58, pytest.approx(limit))
    assert report["answered"] == pytest.approx(np.mean(answered))
    assert report["error"] == pytest.approx(np.mean(nulls))
    assert report["low"] < report["error"] < report["high"]
    assert report["metrics"]["ndcg@10"] == pytest.approx(np.mean(np.array(ndcg)[answered]))
    assert report["baseline"]["ndcg@10"] == pytest.approx(np.mean(ndcg))
    assert 0 < report["answered"] < 1
    few, _ = report_of([*words, "--metrics", "accuracy@1"], capsys)
    assert [*few["metrics"]] == ["accuracy@1"]
    assert cli.run(["abstain", "report", *words]) == 0
    printed = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "promised to be at most 0.2 on average; 55 queries with and 58 without relevant documents" in printed
    change = f"{report['baseline']['ndcg@10']:.4f} → {report['metrics']['ndcg@10']:.4f}"
    assert f"ndcg@10, of all → of the answered {change} " in printed
    interval = f"{report['error']:.1%} {report['low']:.1%} – {report['high']:.1%}"
    assert f"threshold of the {report['signal']} {limit:.6g} " in printed
    assert f" error {interval} " in printed


def test_an_evaluation_counts_queries_without_an_answer_as_0(beir, other, calibrated, tmp_path, capsys):
    system = f"abstain:{calibrated},error=0.2"
    words = ["eval", "bm25", system, "--on", f"beir:{other}"]
    assert cli.run([*words, "--json", "--per-query", "--fail-if-worse"]) == 1
    captured = capsys.readouterr()
    assert f"{system}: 1 of 59 queries calibrated it" in captured.err
    plain, abstaining = json.loads(captured.out)["results"]
    before, after = (result["per_query"]["ndcg@10"] for result in (plain, abstaining))
    refused = {id for id in after if after[id] != before[id]}
    assert all(after[id] == 0 for id in refused)
    report = abstention.report(str(calibrated), on=f"beir:{other}", error=0.2)
    answered = [value for id, value in after.items() if value and id != "known"]
    assert np.sum(answered) == pytest.approx(report.metrics["ndcg@10"] * report.answered * report.queries)
    count = abstaining["counts"]["queries_not_answered"]
    assert count >= len(refused) > 0
    assert abstaining["configuration"]["abstain"]["threshold"] == report.threshold
    assert cli.run([*words, "--results", str(tmp_path / "results")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{count} of 59 queries are not answered" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("eval ABSTAIN --on beir:BEIR", "95 of 100 queries are those of the calibration; calibrate on another split"),
        ("abstain report FILE --on beir:BEIR", "95 of 100 queries are those of the calibration; calibrate on another"),
        ("eval ABSTAIN --on beir:CHANGED", "was calibrated for other documents"),
        ("abstain report FILE --on beir:CHANGED", "was calibrated for other documents"),
        ("abstain report FILE --on knn:LABELLED", "has no judged documents; give a task such as beir:"),
        ("abstain report FILE", "Missing option '--on'"),
        ("abstain report FILE --on beir:OTHER --metrics ndcg", "ndcg"),
        ("eval abstain:no.json --on beir:OTHER", "no.json: no such file; retrokit abstain calibrate writes it"),
        ("abstain report no.json --on beir:OTHER", "no.json: no such file; retrokit abstain calibrate writes it"),
        ("eval ABSTAIN --on knn:LABELLED", "needs embeddings: give an encoder in place of abstain:"),
        ("search ABSTAIN --corpus CHANGED --query x", "was calibrated for other documents"),
        ("search abstain:FILE,error=0.001 --corpus BEIR --query x", "at least 999 are needed"),
        ("search abstain:FILE,error=5e-324 --corpus BEIR --query x", "must be at least 1e-12"),
        ("search abstain:FILE,error=0.7 --corpus BEIR --query x", "error=0.7 is out of range"),
        ("search abstain:BEIR --corpus BEIR --query x", "is a folder; expected a file"),
        ("search ABSTAIN --corpus BEIR --query x --sim dot", "are an encoder's, and abstain:"),
        ("search abstain:BEIR/corpus.jsonl --corpus BEIR --query x", "calibration of retrokit abstain"),
        ("search ABSTAIN --index-folder EXPORT --query x", "is searched with the encoder that wrote it, not with bm25"),
        ("search ABSTAIN,export=EXPORT --corpus BEIR --query x", "bm25 has no parameter 'export'"),
    ],
)
def test_a_calibration_of_something_else_is_refused(
    words, problem, beir, other, calibrated, exported, tmp_path, capsys
):
    changed = write_folder(tmp_path / "changed", {**DOCUMENTS, "d0": "other"}, {"x": "a b"}, {"x": {"d1": 1}})
    (tmp_path / "labelled.jsonl").write_text('{"text": "a", "label": "b"}\n{"text": "c", "label": "d"}\n' * 20)
    places = {"ABSTAIN": f"abstain:{calibrated},error=0.2", "FILE": calibrated}
    places |= {"BEIR": beir, "OTHER": other, "CHANGED": changed, "EXPORT": exported}
    places |= {"LABELLED": tmp_path / "labelled.jsonl"}
    for name, place in places.items():
        words = words.replace(name, str(place))
    assert cli.run(words.split()) == 2
    captured = capsys.readouterr()
    assert problem in captured.err, captured.err
    assert len(captured.err.strip().splitlines()) <= 2  # what the task is, and the problem


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"signal": "x"}, "field 'signal' is 'x'; expected score or margin or hubness or verifier"),
        ({"verifier": ["x"]}, "its lists differ in length"),
        ({"nulls": [1.0]}, "its lists differ in length"),
        ({"version": 2}, "has version 2 of its format; expected version 1; update retrokit"),
        ({"system": "bm26"}, "was calibrated for a system that cannot be opened: unknown searcher 'bm26'"),
        (
            {"system": "abstain:a.json"},
            "for a system that cannot be opened: abstain:a.json: abstains already",
        ),
    ],
)
@pytest.mark.parametrize("command", ["search", "report"])
def test_a_damaged_file_is_named(command, changed, problem, beir, other, calibrated, tmp_path, capsys):
    file = tmp_path / "a.json"
    file.write_text(json.dumps({**json.loads(calibrated.read_text()), **changed}))
    words = {
        "search": ["search", f"abstain:{file},error=0.2", "--corpus", str(beir), "--query", "x"],
        "report": ["abstain", "report", str(file), "--on", f"beir:{other}", "--error", "0.2"],
    }
    assert cli.run(words[command]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert str(file) in error
