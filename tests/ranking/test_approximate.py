"""Approximate search and its recall, and storage dtypes, against NumPy, faiss and sentence-transformers."""

import sys

import numpy as np
import pytest
import torch
from sentence_transformers.util.quantization import quantize_embeddings

import retrokit
from retrokit.core.errors import MissingExtra, UsageError
from retrokit.data.exports import Quantization
from retrokit.ranking.retrieval import approximate, exact
from retrokit.ranking.retrieval.approximate import Approximate, ApproximateIndex, empty_index
from retrokit.ranking.retrieval.base import TextList
from retrokit.ranking.retrieval.dense import Dense
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Role
from tests.close import assert_rounded
from tests.evaluation.fakes import GivenEncoder
from tests.ranking.test_exact import FORMULAS, embeddings


def search(similarity, queries: np.ndarray, documents: np.ndarray, k: int, index: str) -> Approximate:
    return ApproximateIndex(similarity, documents, index).search(queries, k)


INNER_PRODUCTS = [spec for spec in FORMULAS if retrokit.similarity(spec).factorable]


@pytest.mark.parametrize("spec", INNER_PRODUCTS)
def test_a_flat_index_finds_what_exact_search_finds(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    monkeypatch.setattr(exact, "DOCUMENT_BLOCK", 7)
    monkeypatch.setattr(approximate, "QUERY_BLOCK", 3)
    queries, documents = embeddings()
    found = search(retrokit.similarity(spec), queries, documents, 20, "Flat")
    scores = FORMULAS[spec](queries.astype(np.float64), documents.astype(np.float64))
    order = np.argsort(-scores, axis=1)[:, :20]
    np.testing.assert_array_equal(found.indices, order)
    assert_rounded(found.scores, np.take_along_axis(scores, order, axis=1))
    assert (found.indices.dtype, found.scores.dtype) == (np.int64, np.float32)
    assert (found.recall, found.queries_checked) == ({10: 1.0, 20: 1.0}, 7)


def test_no_query_finds_nothing_and_measures_no_recall() -> None:
    queries, documents = embeddings()
    index = ApproximateIndex(retrokit.similarity("cosine"), documents, "Flat")
    found = index.search(queries[:0], 4)
    assert (found.scores.shape, found.indices.shape, found.recall) == ((0, 4), (0, 4), {})
    assert index.search(queries, 4).recall == {4: 1.0}


@pytest.mark.parametrize("spec", ["cosine", "dot", "sfs:4"])
def test_a_graph_finds_more_the_longer_it_searches(spec: str) -> None:
    queries, documents = embeddings(40, 2000)
    _, best = top_k(retrokit.similarity(spec), queries, documents, 10)
    recalls = []
    for length in (10, 300):
        found = search(retrokit.similarity(spec), queries, documents, 10, f"HNSW4:efSearch={length}")
        shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.indices, best, strict=True)])
        assert found.recall == {10: pytest.approx(shared)}
        recalls.append(shared)
    assert recalls[1] > recalls[0] + 0.2  # over 20 seeds 0.32 more with dot, the least, with an SD of 0.02


def test_recall_counts_what_was_found() -> None:
    """One of four clusters is looked into; what it holds of the best is counted here by hand."""
    queries, documents = embeddings(30, 400)
    similarity = retrokit.similarity("cosine")
    found = search(similarity, queries, documents, 50, "IVF4,Flat")
    _, best = top_k(similarity, queries, documents, 50)
    for k in (10, 50):
        shared = np.mean([len(set(a[:k]) & set(b[:k])) / k for a, b in zip(found.indices, best, strict=True)])
        assert found.recall[k] == pytest.approx(shared)
    assert 1 / 4 < found.recall[50] < 1  # a random quarter has 1/4; over 20 seeds 0.45, with an SD of 0.02
    every = search(similarity, queries, documents, 50, "IVF4,Flat:nprobe=4")
    assert every.recall == {10: 1.0, 50: 1.0}


def test_equal_documents_count_as_found() -> None:
    documents = np.repeat(np.eye(8, dtype=np.float32), 20, axis=0)
    found = search(retrokit.similarity("dot"), np.eye(8, dtype=np.float32), documents, 5, "Flat")
    assert found.recall == {5: 1.0}
    assert (np.sort(found.indices, axis=1) == found.indices).all()
    assert (found.indices // 20 == np.arange(8)[:, None]).all()


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ("HSNW32", "index HSNW32: faiss: could not parse index string HSNW32"),
        ("", "index : faiss: could not parse index string"),
        ("HNSW1", "index HNSW1: a graph needs at least 2 neighbours of each document, not 1"),
        ("IVF4_HNSW0,Flat", "index IVF4_HNSW0,Flat: a graph needs at least 2 neighbours of each document, not 0"),
        ("PQ5", r"index PQ5: faiss: The dimension of the vector \(d\) should be a multiple of the number of sub"),
        ("HNSW32,PQ8", "index HNSW32,PQ8: faiss has it only for distances, not for inner products"),
        ("LSH", "index LSH: faiss: "),
        ("IVF4,Flat:nprob=2", "index IVF4,Flat:nprob=2: faiss: .*could not set parameter nprob"),
        ("IVF4,Flat:nprobe=all", "index IVF4,Flat:nprobe=all: parameters are whole numbers, such as nprobe=8"),
        ("IVF4,Flat:nprobe=-1", "index IVF4,Flat:nprobe=-1: parameters are whole numbers, such as nprobe=8"),
        ("IVF4,Flat:nprobe=0", r"index IVF4,Flat:nprobe=0: nprobe=0 is out of range \(1 to 1000000\)"),
        ("HNSW8:efSearch=2147483648", "index HNSW8:efSearch=2147483648: efSearch=2147483648 is out of range"),
    ],
)
def test_an_index_that_cannot_be(index: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=f"^{complaint}") as found:
        empty_index(index, retrokit.similarity("cosine"), 16)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("index", "complaint"), [("IVF100,Flat", "Number of training points"), ("IDMap,Flat", "add ")])
def test_an_index_that_cannot_be_filled(index: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=f"^index {index}: faiss: {complaint}"):
        search(retrokit.similarity("cosine"), *embeddings(), 3, index)


@pytest.mark.parametrize("spec", [spec for spec in FORMULAS if spec not in INNER_PRODUCTS])
def test_a_similarity_that_is_no_inner_product(spec: str) -> None:
    with pytest.raises(UsageError, match=f"index HNSW32: it serves inner products, and {spec.split(',')[0]}.* is none"):
        empty_index("HNSW32", retrokit.similarity(spec), 16)


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtra, match=r"python -m pip install 'retrokit-ir\[faiss\]'"):
        empty_index("HNSW32", retrokit.similarity("cosine"), 16)


RNG = np.random.default_rng(3)
VECTORS = {f"t{number}": RNG.normal(size=20).astype(np.float32) + 0.3 for number in range(420)}
DOCUMENTS = TextList(list(VECTORS)[:400])
QUERIES = TextList(list(VECTORS)[400:])
K = 10


def prepared(spec: str, texts: TextList, role: Role) -> np.ndarray:
    raw = torch.from_numpy(np.stack([VECTORS[text] for text in texts]))
    return retrokit.similarity(spec).prepare(raw, role).detach().numpy()


def searcher(spec: str, quantize: str | None, faiss: str | None = None) -> Dense:
    shared = SharedEmbeddings(GivenEncoder(VECTORS), [], "fp32")
    return Dense(shared, retrokit.similarity(spec), faiss, quantize)


@pytest.mark.parametrize("dimension", [16, 19])
def test_numbers_are_those_of_the_library(dimension):
    rows, sample = (RNG.normal(size=(count, dimension)).astype(np.float32) for count in (60, 40))
    sample[:, 3] = 0.5  # a dimension in which nothing differs
    int8 = Quantization("int8", dimension).calibrated(sample)
    theirs = quantize_embeddings(rows, "int8", calibration_embeddings=sample)
    assert np.array_equal(int8.narrowed(rows), theirs)
    assert theirs.min() == -128  # what is beyond the ranges is cut
    inside = (rows >= sample.min(0)) & (rows <= sample.max(0))
    steps = np.ptp(sample, axis=0) / 255
    assert (np.abs(int8.widened(theirs) - rows) <= steps / 2 * 1.001)[inside].all()
    binary = Quantization("binary", dimension)
    assert np.array_equal(binary.narrowed(rows), quantize_embeddings(rows, "ubinary"))
    assert np.array_equal(binary.widened(binary.narrowed(rows)), np.where(rows > 0, 1, -1))
    assert binary.narrowed(rows).nbytes == 60 * binary.row_bytes
    nothing = Quantization("int8", 2).calibrated(np.empty((0, 2), dtype=np.float32))
    assert nothing.narrowed(np.zeros((1, 2), dtype=np.float32)).tolist() == [[-128, -128]]


@pytest.mark.parametrize("spec", INNER_PRODUCTS)
@pytest.mark.parametrize("quantize", ["float16", "int8", "binary", "binary+rescore:2", "binary+rescore:40"])
def test_what_is_found(spec, quantize):
    queries, documents = prepared(spec, QUERIES, "query"), prepared(spec, DOCUMENTS, "document")
    dtype, _, multiplier = quantize.replace("+rescore", "").partition(":")
    kept = Quantization(dtype, documents.shape[1]).calibrated(documents)
    stored = kept.widened(kept.narrowed(documents)).astype(np.float64)
    scores = queries.astype(np.float64) @ stored.T
    if dtype == "binary":
        by_signs = np.where(queries > 0, 1, -1) @ stored.T
        if multiplier:
            order = np.argsort(-by_signs, axis=1, kind="stable")[:, int(multiplier) * K :]
            np.put_along_axis(scores, order, -np.inf, axis=1)
        else:
            scores = by_signs
    index = searcher(spec, quantize).index(DOCUMENTS)
    found = index.search(QUERIES, K)
    for row, (values, places) in zip(scores, found, strict=True):
        assert values == pytest.approx(np.sort(row)[::-1][:K], rel=1e-4, abs=1e-5)
        assert row[places] == pytest.approx(values, rel=1e-4, abs=1e-5)
        assert len(set(places.tolist())) == K
    if quantize == "binary":  # of equal scores, of which there are many, the lower position comes first
        best = np.argsort(-scores, axis=1, kind="stable")[:, :K]
        assert [places.tolist() for _, places in found] == best.tolist()
    pairs = index.score_pairs(TextList([QUERIES[0]] * K), TextList(DOCUMENTS[place] for place in found[0][1]))
    assert pairs == pytest.approx(found[0][0], rel=1e-4, abs=1e-5)
    assert index.account().configuration["quantize"] == quantize


@pytest.mark.parametrize(
    ("spec", "quantize", "faiss", "problem"),
    [
        ("l2", "int8", None, "`quantize=` int8: a storage dtype needs an inner product, and l2 is none"),
        ("cosine", "binry", None, "`quantize=` binry: unknown .did you mean binary"),
        ("cosine", "int8:3", None, "expected binary.rescore:N, N times k"),
        ("cosine", "binary+rescore:0", None, "N times k"),
        ("cosine", "binary", "IVF4,PQ4", "index IVF4,PQ4: faiss has Flat, HNSW32 and IVF64,Flat for signs"),
        ("cosine", "binary", "HNSW8:probe=2", "index HNSW8:probe=2: faiss: could not set parameter probe"),
        ("cosine", "binary", "HNSW8:efSearch=x", "parameters are whole numbers, such as nprobe=8"),
    ],
)
def test_what_does_not_fit(spec, quantize, faiss, problem):
    with pytest.raises(UsageError, match=problem) as error:
        searcher(spec, quantize, faiss)
    assert "\n" not in str(error.value)
