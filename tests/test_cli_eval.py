"""``retrokit eval`` from the words of the command line to the bytes of its output, and its exit codes."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from retrokit.metrics.ranking import DEFAULT_METRICS, evaluate_run, mean
from tests.evaluation.fakes import write_folder
from tests.models import sentences

Command = Callable[..., tuple[int, str, str]]

TEXTS = sentences(34, seed=7)
DOCUMENTS = {f"d{i}": text for i, text in enumerate(TEXTS[:24])}
QUERIES = {f"q{i}": text for i, text in enumerate(TEXTS[24:])}
QRELS = {query: {f"d{i}": 1, f"d{i + 10}": 2} for i, query in enumerate(QUERIES)}


_BARE = re.compile(r"\S+: is a bare checkpoint; .*\n")  # the notice of the tiny model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "small", DOCUMENTS, QUERIES, QRELS)


@pytest.fixture
def retrokit_eval(typed: Command) -> Command:
    """Run ``retrokit eval …``."""

    def run(*words: object) -> tuple[int, str, str]:
        code, out, err = typed("eval", *words)
        return code, out, _BARE.sub("", err)

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
    assert set(found) == {
        *("results", "seeds", "comparisons", "changes", "gates", "overlaps", "explanations", "over_tasks", "cross"),
        *("correlations", "near_misses", "shown", "data", "trained_with", "kind", "version"),
    }
    assert [result["similarity"] for result in found["results"]] == ["cosine", "dot"]
    for result in found["results"]:
        assert set(result["metrics"]) == set(DEFAULT_METRICS)
        assert result["metrics"] == pytest.approx(expected[result["similarity"]], abs=1e-6)
        assert (result["task"], result["encoder"]) == (f"beir:{folder}", str(tiny_bert))
        assert "per_query" not in result
    difference = expected["dot"]["ndcg@10"] - expected["cosine"]["ndcg@10"]
    main = next(c for c in found["comparisons"] if c["metric"] == "ndcg@10")
    assert main["test"]["difference"] == pytest.approx(difference, abs=1e-6)
    assert err == "small (test): 10 queries, 24 documents, 20 judgements\n"


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
            f"retrokit: {tiny_bert.name} cosine on beir:{folder}: ndcg@10 = {value:.4f} is under 0.999"
        ]
    assert json.loads(out)["results"][0]["metrics"]["ndcg@10"] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (
            ["mnilm", "--on", "bier:x", "--sim", "cosin", "--sim", "sfs:0"],
            ["minilm", "did you mean beir?", "did you mean cosine?", "size=0"],
        ),
        (["--metrics", "ndcg@10,recal@5"], ["unknown metric 'recal@5' (did you mean recall@5?)"]),
        (["--fail-under", "ndgc@10=0.5"], ["ndgc@10"]),
        (["--metrics", "mrr@10", "--fail-under", "ndgc@10=0.5"], ["ndgc@10"]),
        (["--fail-under", "ndcg@10"], ["expected METRIC=VALUE"]),
        (["--fail-under", "ndcg@10=nan"], ["expected METRIC=VALUE"]),
        (["--per-query"], ["--per-query adds to --json: give both"]),
        (["--dims", "17"], ["--dims 17: {encoder} has 16 dimensions"]),
        (["--sim", "sfs:3"], ["size 3 does not divide 16"]),
        (["--device", "nowhere"], ["--device nowhere: Expected one of cpu, cuda"]),
        (["--format", "cvs"], ["unknown format 'cvs' (did you mean csv?); known: table, json, csv, markdown, latex"]),
        (["--json", "--format", "csv"], ["--json is --format json, not csv: give one"]),
        (["--format", "csv", "--per-query"], ["--per-query adds to --json: give both"]),
        (["--index", "HSNW32"], ["index HSNW32: faiss: could not parse index string HSNW32"]),
        (["--index", "IVF100,Flat"], ["index IVF100,Flat: faiss: Number of training points (24) should be at least"]),
        (["--index", "HNSW32", "--sim", "l2"], ["index HNSW32: it serves inner products, and l2 is none"]),
        (
            ["--quantize", "int8", "--sim", "l2"],
            ["--quantize int8: a storage dtype needs an inner product"],
        ),
        (["--quantize", "int7"], ["--quantize int7: unknown (did you mean int8?); known: float32, float16, int8"]),
    ],
)
def test_wrong_use(
    retrokit_eval: Command, tiny_bert: Path, folder: Path, words: list[str], problems: list[str]
) -> None:
    code, out, err = retrokit_eval(tiny_bert, "--on", f"beir:{folder}", *words)
    lines = [line for line in err.splitlines() if line.startswith("retrokit: ")]
    assert (code, out, len(lines)) == (2, "", len(problems))
    for line, problem in zip(lines, problems, strict=True):
        assert problem.format(encoder=tiny_bert) in line


# --- formats, results folders, cross-evaluation, pictures


@pytest.mark.parametrize(
    ("name", "start"),
    [("csv", "task,encoder,"), ("markdown", "**beir:"), ("latex", "% needs"), ("json", "{"), ("table", "beir:")],
)
def test_formats(retrokit_eval: Command, tiny_bert: Path, folder: Path, expected: dict, name: str, start: str) -> None:
    words = (tiny_bert, "--on", f"beir:{folder}", "--precision", "fp32", "--metrics", "mrr@10")
    code, out, err = retrokit_eval(*words, "--format", name)
    assert code == 0
    assert out.startswith(start)
    assert f"{expected['cosine']['mrr@10']:.4f}"[:-1] in out
    assert err == "small (test): 10 queries, 24 documents, 20 judgements\n"


def test_an_approximate_search(retrokit_eval: Command, tiny_bert: Path, folder: Path) -> None:
    task = ("--on", f"beir:{folder}", "--precision", "fp32", "--metrics", "ndcg@10,recall@20")
    _, exact, _ = retrokit_eval(tiny_bert, *task, "--json")
    code, flat, _ = retrokit_eval(tiny_bert, *task, "--json", "--index", "Flat")
    assert code == 0
    _, probed, _ = retrokit_eval(tiny_bert, *task, "--json", "--index", "IVF6,Flat:nprobe=2")
    results = [json.loads(out)["results"][0] for out in (exact, flat, probed)]
    configurations = [result["configuration"] for result in results]
    assert "index" not in configurations[0]
    assert results[1]["metrics"] == results[0]["metrics"]
    assert configurations[1]["index_recall"] == {"recall@10": 1.0, "recall@20": 1.0, "queries": 10}
    assert configurations[2]["index"] == "IVF6,Flat:nprobe=2"
    assert 0 < configurations[2]["index_recall"]["recall@20"] < 1
    code, table, _ = retrokit_eval(tiny_bert, *task, "--index", "Flat")
    told = "Flat against exact search: recall@10 1.000, recall@20 1.000 (10 queries)"
    assert (code, told in " ".join(table.split())) == (0, True)
