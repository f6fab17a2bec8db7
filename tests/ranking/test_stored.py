"""Search in fewer bits, against sentence-transformers' quantisation, NumPy and faiss, under every inner product."""

import numpy as np
import pytest
import torch
from sentence_transformers.util.quantization import quantize_embeddings, semantic_search_faiss

import retrokit
from retrokit.core.errors import DataError, UsageError
from retrokit.data import exports
from retrokit.data.dtypes import DTYPES
from retrokit.data.exports import Quantization
from retrokit.ranking.retrieval.base import TextList
from retrokit.ranking.retrieval.dense import Dense, StoredIndex
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings
from retrokit.similarities.base import Role
from tests.evaluation.fakes import GivenEncoder
from tests.ranking.test_exact import FORMULAS

SIMILARITIES = [spec for spec in FORMULAS if retrokit.similarity(spec).factorable]
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


@pytest.mark.parametrize("spec", SIMILARITIES)
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


@pytest.mark.parametrize(("quantize", "theirs"), [("int8", "uint8"), ("binary+rescore:40", "ubinary")])
@pytest.mark.parametrize("spec", SIMILARITIES)
def test_the_library_ranks_alike(spec, quantize, theirs):
    """It finds k times a multiplier by stored queries and scores these again; where these are all, our int8 is that."""
    pytest.importorskip("faiss", reason="of the extra faiss")
    queries, documents = prepared(spec, QUERIES, "query"), prepared(spec, DOCUMENTS, "document")
    ranges = np.stack([documents.min(0), documents.max(0)])
    corpus = quantize_embeddings(documents, theirs, ranges=ranges)
    expected, _, _ = semantic_search_faiss(
        queries, corpus, corpus_precision=theirs, top_k=K, ranges=ranges, rescore_multiplier=40, output_index=True
    )
    found = searcher(spec, quantize).index(DOCUMENTS).search(QUERIES, K)
    for hits, (values, places) in zip(expected, found, strict=True):
        if spec != "sfs:4,dims=8":  # whose 256 patterns of signs leave the order of many documents open
            assert [hit["corpus_id"] for hit in hits] == places.tolist()
        apart = np.array([hit["score"] for hit in hits])
        apart = 2 * apart if theirs == "ubinary" else apart  # their bits are 0 and 1, ours −1 and 1
        assert np.ptp(apart - values) < 1e-4 * np.abs(values).max()  # but for what a query adds to all its scores


@pytest.mark.parametrize("faiss", ["Flat", "IVF8,Flat:nprobe=8", "HNSW32:efSearch=400"])
@pytest.mark.parametrize("quantize", ["float16", "int8", "binary", "binary+rescore:40"])
def test_an_index_keeps_the_same_numbers(quantize, faiss):
    pytest.importorskip("faiss", reason="of the extra faiss")
    exact = searcher("sfs:4", quantize).index(DOCUMENTS).search(QUERIES, K)
    index = searcher("sfs:4", quantize, faiss).index(DOCUMENTS)
    for (values, places), (scores, best) in zip(index.search(QUERIES, K), exact, strict=True):
        assert values == pytest.approx(scores, rel=1e-4)
        if quantize in ("float16", "int8"):
            assert set(places.tolist()) == set(best.tolist())
    told = index.account().configuration
    assert (told["index"], told["quantize"]) == (faiss, quantize)
    assert all(told["index_recall"][name] == 1 for name in told["index_recall"] if name.startswith("recall"))


@pytest.mark.parametrize(("quantize", "codec"), [("int8", 20), ("float16", 40), ("binary", 3)])
def test_an_index_takes_the_memory_of_its_numbers(quantize, codec):
    faiss = pytest.importorskip("faiss", reason="of the extra faiss")
    index = searcher("cosine", quantize, "Flat").index(DOCUMENTS)
    assert isinstance(index, StoredIndex)
    made = index.parts[0].approximate.faiss_index
    codes = faiss.vector_to_array(made.xb if quantize == "binary" else made.codes)
    assert codes.nbytes == len(DOCUMENTS) * codec


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_not_stored(dtype, number):
    rows = np.array([[0.5, 1.0], [number, 2.0]], dtype=np.float32)
    with pytest.raises(DataError, match="embeddings: hold 1 numbers that are not finite"):
        Quantization(dtype, 2).calibrated(rows[:1]).narrowed(rows)


def test_a_sample_is_taken_evenly(monkeypatch):
    monkeypatch.setattr(exports, "SAMPLE", 3)
    assert list(range(10))[:: exports.step_of(10)] == [0, 4, 8]
    assert searcher("dot", "float32").index(DOCUMENTS).search(QUERIES, 1)[0][0].dtype == np.float32
    assert searcher("dot", "float32").quantize is None
    nothing = searcher("dot", "int8").index(TextList())
    assert [len(places) for _, places in nothing.search(QUERIES, 3)] == [0] * len(QUERIES)
