"""Approximate search: what it finds and the recall it tells, against rankings that NumPy computes."""

import builtins

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import MissingExtra, UsageError
from retrokit.ranking.retrieval import approximate, exact
from retrokit.ranking.retrieval.approximate import Approximate, ApproximateIndex, empty_index
from retrokit.ranking.retrieval.exact import top_k
from tests.close import assert_rounded
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


@pytest.mark.parametrize("spec", ["cosine", "dot", "sfs:4"])
def test_a_graph_finds_nearly_all(spec: str) -> None:
    queries, documents = embeddings(40, 2000)
    found = search(retrokit.similarity(spec), queries, documents, 10, "HNSW32:efSearch=300")
    _, best = top_k(retrokit.similarity(spec), queries, documents, 10)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.indices, best, strict=True)])
    assert shared > 0.97
    assert found.recall == {10: pytest.approx(shared)}


def test_recall_counts_what_was_found() -> None:
    """One of four clusters is looked into; what it holds of the best is counted here by hand."""
    queries, documents = embeddings(30, 400)
    similarity = retrokit.similarity("cosine")
    found = search(similarity, queries, documents, 50, "IVF4,Flat")
    _, best = top_k(similarity, queries, documents, 50)
    for k in (10, 50):
        shared = np.mean([len(set(a[:k]) & set(b[:k])) / k for a, b in zip(found.indices, best, strict=True)])
        assert found.recall[k] == pytest.approx(shared)
    assert 0.2 < found.recall[50] < 0.95
    every = search(similarity, queries, documents, 50, "IVF4,Flat:nprobe=4")
    assert every.recall == {10: 1.0, 50: 1.0}


def test_documents_that_are_not_found() -> None:
    """A cluster that holds fewer documents than are wanted."""
    queries, documents = embeddings(20, 60)
    found = search(retrokit.similarity("cosine"), queries, documents, 60, "IVF8,Flat")
    absent = found.indices < 0
    assert absent.any()
    assert (absent == np.isneginf(found.scores)).all()
    assert (np.sort(absent, axis=1) == absent).all()  # they come last
    assert found.recall[60] == pytest.approx((~absent).mean())


def test_equal_documents_count_as_found() -> None:
    documents = np.repeat(np.eye(8, dtype=np.float32), 20, axis=0)
    found = search(retrokit.similarity("dot"), np.eye(8, dtype=np.float32), documents, 5, "Flat")
    assert found.recall == {5: 1.0}
    assert (np.sort(found.indices, axis=1) == found.indices).all()
    assert (found.indices // 20 == np.arange(8)[:, None]).all()


def test_recall_is_measured_on_a_sample_of_many_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    measure = approximate._recall
    monkeypatch.setattr(approximate, "_recall", lambda *of: asked.append(len(of[1])) or measure(*of))
    queries, documents = embeddings(250, 60)
    found = search(retrokit.similarity("cosine"), queries, documents, 5, "Flat")
    assert (found.queries_checked, asked, found.indices.shape) == (100, [100], (250, 5))


def test_an_index_is_trained_on_a_sample_of_many_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "TRAINING_NUMBERS", 16 * 100)
    queries, documents = embeddings(10, 1000)
    found = search(retrokit.similarity("cosine"), queries, documents, 5, "IVF100,Flat:nprobe=100")
    assert found.recall == {5: 1.0}
    with pytest.raises(UsageError, match=r"IVF101,Flat: faiss: Number of training points \(100\) should be at least"):
        search(retrokit.similarity("cosine"), queries, documents, 5, "IVF101,Flat")


@pytest.mark.parametrize(
    ("index", "complaint"),
    [
        ("HSNW32", "index HSNW32: faiss: could not parse index string HSNW32"),
        ("", "index : faiss: could not parse index string"),
        ("HNSW1", "index HNSW1: a graph needs at least 2 neighbours of each document, not 1"),
        ("IVF4_HNSW0,Flat", "index IVF4_HNSW0,Flat: a graph needs at least 2 neighbours of each document, not 0"),
        ("PQ5", r"index PQ5: faiss: The dimension of the vector \(d\) should be a multiple of the number of sub"),
        ("HNSW32,PQ8", "index HNSW32,PQ8: faiss has it for distances alone, not for inner products"),
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


def test_the_prepared_dimension_counts() -> None:
    with pytest.raises(UsageError, match="multiple"):
        empty_index("PQ12", retrokit.similarity("cosine"), 16)
    empty_index("PQ12", retrokit.similarity("sfs:4,dims=12"), 16)


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "faiss":
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"python -m pip install 'retrokit-ir\[faiss\]'"):
        empty_index("HNSW32", retrokit.similarity("cosine"), 16)
