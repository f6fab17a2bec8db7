"""``retrokit eval`` from the words of the command line to the bytes of its output, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from retrokit import cli, encoders, similarities
from retrokit.data.trec import read_run
from retrokit.metrics.ranking import DEFAULT_METRICS, evaluate_run, mean
from retrokit.registry import Entry
from tests.evaluation.fakes import write_folder
from tests.models import sentences

Command = Callable[..., tuple[int, str, str]]

TEXTS = sentences(34, seed=7)
DOCUMENTS = {f"d{i}": text for i, text in enumerate(TEXTS[:24])}
QUERIES = {f"q{i}": text for i, text in enumerate(TEXTS[24:])}
QRELS = {query: {f"d{i}": 1, f"d{i + 10}": 2} for i, query in enumerate(QUERIES)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "small", DOCUMENTS, QUERIES, QRELS)


@pytest.fixture
def retrokit_eval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run ``retrokit eval …`` in this process; exit code, standard output, standard error."""
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")  # what a command sets ends with the test
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["retrokit", "eval", *map(str, words)])
        capsys.readouterr()
        code = cli.run()
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture(scope="module")
def expected(tiny_bert: Path) -> dict[str, dict[str, float]]:
    """Means by similarity and metric, with the library's encoding and the formulas."""
    model = SentenceTransformer(str(tiny_bert), device="cpu")
    queries, documents = (model.encode(list(texts.values())) for texts in (QUERIES, DOCUMENTS))
    lengths = [np.linalg.norm(side, axis=1) for side in (queries, documents)]
    scores = {
        "cosine": (queries @ documents.T) / lengths[0][:, None] / lengths[1][None],
        "dot": queries @ documents.T,
        "cosine of 4": (queries[:, :4] @ documents[:, :4].T)
        / np.linalg.norm(queries[:, :4], axis=1)[:, None]
        / np.linalg.norm(documents[:, :4], axis=1)[None],
    }
    means = {}
    for name, values in scores.items():
        run = {query: dict(zip(DOCUMENTS, row, strict=True)) for query, row in zip(QUERIES, values, strict=True)}
        means[name] = {metric: mean(found) for metric, found in evaluate_run(QRELS, run).items()}
    assert len({found["ndcg@10"] for found in means.values()}) == 3  # the three can be told apart
    return means


def test_the_table(retrokit_eval: Command, tiny_bert: Path, folder: Path, expected: dict) -> None:
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder}", "--precision", "fp32")
    assert code == 0
    assert err == "small (test): 10 queries, 24 documents, 20 judgements\n"
    assert f"beir:{folder}" in out.replace("\n", "")
    header, row = (next(line for line in out.splitlines() if word in line) for word in ("ndcg@10", " cosine "))
    shown = ("ndcg@10", "recall@100", "mrr@10", "map@100", "precision@10", "accuracy@1")
    assert [word for word in header.split() if "@" in word] == list(shown)
    for metric in shown:
        assert f" {expected['cosine'][metric]:.4f} " in row
    assert "10 queries, 24 documents" in out
    assert "p=" not in out


def test_json_is_all_there_is_on_standard_output(
    retrokit_eval: Command, tiny_bert: Path, folder: Path, expected: dict
) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--precision", "fp32", "--sim", "cosine", "--sim", "dot", "--json")
    code, out, err = retrokit_eval(*words)
    assert code == 0
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert set(found) == {"results", "comparisons"}
    assert [result["similarity"] for result in found["results"]] == ["cosine", "dot"]
    for result in found["results"]:
        assert set(result["metrics"]) == set(DEFAULT_METRICS)
        assert result["metrics"] == pytest.approx(expected[result["similarity"]], abs=1e-6)
        assert result["task"] == f"beir:{folder}"
        assert result["encoder"] == str(tiny_bert)
        assert "per_query" not in result
    difference = expected["dot"]["ndcg@10"] - expected["cosine"]["ndcg@10"]
    main = next(c for c in found["comparisons"] if c["metric"] == "ndcg@10")
    assert main["test"]["difference"] == pytest.approx(difference, abs=1e-6)
    assert err == "small (test): 10 queries, 24 documents, 20 judgements\n"


def test_two_similarities_in_a_table(retrokit_eval: Command, tiny_bert: Path, folder: Path, expected: dict) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--precision", "fp32", "--sim", "cosine", "--sim", "dot")
    code, out, _ = retrokit_eval(*words, "--metrics", "mrr@10, ndcg@3")
    assert code == 0
    header = next(line for line in out.splitlines() if "encoder" in line)
    assert [word for word in header.split() if "@" in word] == ["mrr@10", "ndcg@3"]
    for metric in ("mrr@10", "ndcg@3"):
        values = [expected[similarity][metric] for similarity in ("cosine", "dot")]
        assert all(f" {value:.4f}" in out for value in values)
        assert f"{values[1] - values[0]:+.4f}" in out
    assert out.count("p=") == 2
    assert "difference from the first row" in out


def test_scores_per_query(retrokit_eval: Command, tiny_bert: Path, folder: Path) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--metrics", "mrr@10")
    code, out, _ = retrokit_eval(*words, "--json", "--per-query")
    (result,) = json.loads(out)["results"]
    assert code == 0
    assert set(result["per_query"]) == set(result["metrics"]) == {"ndcg@10", "mrr@10"}
    assert result["per_query"]["mrr@10"].keys() == QRELS.keys()
    assert mean(result["per_query"]["mrr@10"]) == result["metrics"]["mrr@10"]
    code, out, err = retrokit_eval(*words, "--per-query")
    assert (code, out, err) == (2, "", "retrokit: --per-query adds to --json: give both\n")


def test_the_first_dimensions(retrokit_eval: Command, tiny_bert: Path, folder: Path, expected: dict) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--precision", "fp32")
    code, out, _ = retrokit_eval(*words, "--dims", 4, "--json")
    (result,) = json.loads(out)["results"]
    assert code == 0
    assert result["configuration"]["dims"] == 4
    assert result["metrics"] == pytest.approx(expected["cosine of 4"], abs=1e-6)
    code, out, err = retrokit_eval(*words, "--dims", 17)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == f"retrokit: --dims 17: {tiny_bert} has 16 dimensions"


def test_fail_under(retrokit_eval: Command, tiny_bert: Path, folder: Path, expected: dict) -> None:
    value = expected["cosine"]["ndcg@10"]
    words = (tiny_bert, "--on", f"beir:{folder}", "--precision", "fp32")
    code, out, err = retrokit_eval(*words, "--fail-under", f"ndcg@10={value - 0.001}")
    assert (code, err.count("\n")) == (0, 1)
    assert f"{value:.4f}" in out
    for as_json in ((), ("--json",)):
        code, out, err = retrokit_eval(*words, "--fail-under", "ndcg@10=0.999", "--fail-under", "mrr@10=0", *as_json)
        assert code == 1
        assert out  # the result is printed all the same
        assert err.splitlines()[1:] == [
            f"retrokit: {tiny_bert} cosine on beir:{folder}: ndcg@10 = {value:.4f} is under 0.999"
        ]
    assert json.loads(out)["results"][0]["metrics"]["ndcg@10"] == pytest.approx(value, abs=1e-6)


def test_a_gate_on_an_unusual_metric_without_chosen_ones(retrokit_eval: Command, tiny_bert: Path, folder: Path) -> None:
    assert retrokit_eval(tiny_bert, "--on", f"beir:{folder}", "--fail-under", "ndcg@7=0")[0] == 0


def test_dims_that_fit_a_similarity_that_the_whole_does_not(
    retrokit_eval: Command, tiny_bert: Path, folder: Path
) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--sim", "sfs:3")
    assert retrokit_eval(*words, "--dims", "12")[0] == 0
    assert "size 3 does not divide 16" in retrokit_eval(*words)[2]


@pytest.mark.parametrize("metrics", [(), ("--metrics", "mrr@10")])
@pytest.mark.parametrize(
    ("gate", "problem"),
    [("ndgc@10=0.5", "ndgc@10"), ("ndcg@10", "expected METRIC=VALUE"), ("ndcg@10=nan", "expected METRIC=VALUE")],
)
def test_a_wrong_gate(
    retrokit_eval: Command, tiny_bert: Path, folder: Path, metrics: tuple[str, ...], gate: str, problem: str
) -> None:
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder}", *metrics, "--fail-under", gate)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("retrokit: ")
    assert problem in err.splitlines()[-1]


def test_a_gate_with_chosen_metrics(retrokit_eval: Command, tiny_bert: Path, folder: Path) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--metrics", "mrr@10")
    assert retrokit_eval(*words, "--fail-under", "recall@7=0")[0] == 0
    assert retrokit_eval(*words, "--fail-under", "recall@1=1")[0] == 1


def test_fail_if_worse(
    retrokit_eval: Command, tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every query is a document's own text, so an encoder of texts finds them all, and one of nothing hardly any.
    same = dict(zip((f"q{i}" for i in range(24)), DOCUMENTS.values(), strict=True))
    folder = write_folder(tmp_path / "same", DOCUMENTS, same, {f"q{i}": {f"d{i}": 1} for i in range(24)})
    entry = Entry("blind", "", "tests.test_cli_eval:blind")
    monkeypatch.setitem(encoders.registry._entries, "blind", entry)
    task = ("--on", f"beir:{folder}", "--fail-if-worse")
    code, out, err = retrokit_eval(tiny_bert, "blind", *task)
    assert code == 1
    (line,) = err.splitlines()[1:]
    assert line.startswith(f"retrokit: blind cosine on beir:{folder}: ndcg@10 is 0.")
    assert f"worse than {tiny_bert} cosine (p = " in line
    assert "blind" in out
    assert "*" in out
    assert retrokit_eval("blind", tiny_bert, *task)[0] == 0  # better is no failure
    assert retrokit_eval(tiny_bert, tiny_bert, *task)[0] == 0


def blind(device: str | None = None):
    """An encoder that the text tells nothing: a fixed sequence of embeddings."""
    from tests.evaluation.fakes import GivenEncoder

    class Blind(GivenEncoder):
        def embed(self, texts, role, precision="auto"):
            return np.random.default_rng(len(role)).normal(size=(len(texts), 4)).astype(np.float32)

    return Blind({"": [0, 0, 0, 1]})


def test_all_wrong_names_at_once(retrokit_eval: Command, folder: Path) -> None:
    code, out, err = retrokit_eval(
        "mnilm", "--on", "bier:x", "--on", f"beir:{folder}", "--sim", "cosin", "--sim", "sfs:0"
    )
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("retrokit: ") for line in lines)
    for line, part in zip(lines, ("minilm", "did you mean beir?", "did you mean cosine?", "size=0"), strict=True):
        assert part in line


def test_unknown_metrics(retrokit_eval: Command, tiny_bert: Path, folder: Path) -> None:
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder}", "--metrics", "ndcg@10,recal@5")
    assert (code, out) == (2, "")
    (line,) = [line for line in err.splitlines() if line.startswith("retrokit: ")]
    assert "unknown metric 'recal@5' (did you mean recall@5?)" in line


def test_missing_and_broken_data(retrokit_eval: Command, tiny_bert: Path, folder: Path) -> None:
    nowhere = folder / "nowhere"
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{nowhere}")
    assert (code, out) == (2, "")
    assert err.startswith(f"retrokit: {nowhere}: does not exist; expected a BEIR folder")
    code, _, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder},split=dev")
    assert (code, err) == (2, f"retrokit: {folder}: has no split 'dev'; its splits are 'test'\n")
    qrels = folder / "qrels" / "test.tsv"
    qrels.write_text(qrels.read_text() + "q1\td1\thigh\n")
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder}")
    assert (code, out) == (2, "")
    assert err == f"retrokit: {qrels}:22: the grade 'high' is no whole number\n"


def test_options_that_are_missing(retrokit_eval: Command, tiny_bert: Path) -> None:
    code, out, err = retrokit_eval(tiny_bert)
    assert (code, out) == (2, "")
    assert "--on" in err


def test_a_missing_optional_package(
    retrokit_eval: Command, tiny_bert: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Entry("needy", "", "a_module_that_nobody_has.at_all:thing", extra="needs")
    monkeypatch.setitem(similarities.registry._entries, "needy", entry)
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder}", "--sim", "needy")
    assert (code, out) == (3, "")
    expected = "retrokit: needy needs an optional package: python -m pip install 'retrokit[needs]'"
    assert err.splitlines()[-1] == expected


def test_saved_runs(retrokit_eval: Command, tiny_bert: Path, folder: Path, tmp_path: Path) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--json", "--save-run")
    code, out, _ = retrokit_eval(*words, tmp_path / "run.trec")
    assert code == 0
    scores = evaluate_run(QRELS, read_run(tmp_path / "run.trec"))
    assert {name: mean(found) for name, found in scores.items()} == json.loads(out)["results"][0]["metrics"]
    code, out, _ = retrokit_eval(*words, tmp_path / "runs", "--sim", "cosine", "--sim", "dot")
    assert code == 0
    found = [evaluate_run(QRELS, read_run(path)) for path in (tmp_path / "runs").iterdir()]
    values = {mean(scores["map@100"]) for scores in found}
    assert values == {result["metrics"]["map@100"] for result in json.loads(out)["results"]}
    assert len(values) == 2
    code, out, err = retrokit_eval(*words, tmp_path / "missing" / "run.trec")
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'missing' / 'run.trec'}: could not be written" in err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_leaves_early_sees_no_traceback(tiny_bert: Path, folder: Path, options: list[str]) -> None:
    command = [sys.executable, "-m", "retrokit", "eval", str(tiny_bert), "--on", f"beir:{folder}", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=120)
    assert err == "small (test): 10 queries, 24 documents, 20 judgements\n"
    assert process.returncode == 0
