"""Exact search against a brute-force ranking of scores that NumPy computes from the formulas."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.errors import UsageError
from retrokit.ranking.retrieval import exact as search
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.distance import Distance
from tests.close import assert_rounded


def norm(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x**2).sum(-1, keepdims=True))


def fragments(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1, 4)


def by_fragment(q: np.ndarray, d: np.ndarray, score: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    pairs = zip(fragments(q).swapaxes(0, 1), fragments(d).swapaxes(0, 1), strict=True)
    return np.mean([score(a, b) for a, b in pairs], axis=0)


def cosine(q: np.ndarray, d: np.ndarray) -> np.ndarray:
    return (q @ d.T) / norm(q) / norm(d).T


def dot(q: np.ndarray, d: np.ndarray) -> np.ndarray:
    return q @ d.T


def l2(q: np.ndarray, d: np.ndarray) -> np.ndarray:
    return -np.sqrt(((q[:, None] - d[None]) ** 2).sum(-1))


def l1(q: np.ndarray, d: np.ndarray) -> np.ndarray:
    return -np.abs(q[:, None] - d[None]).sum(-1)


FORMULAS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "cosine": cosine,
    "dot": dot,
    "qnorm": lambda q, d: (q @ d.T) / norm(q),
    "dnorm": lambda q, d: (q @ d.T) / norm(d).T,
    "learn": lambda q, d: (q @ d.T) / norm(q) ** 0.5 / norm(d).T ** 0.5,
    "learn:query=0.25,document=0.75": lambda q, d: (q @ d.T) / norm(q) ** 0.25 / norm(d).T ** 0.75,
    "sfs:4": lambda q, d: by_fragment(q, d, cosine),
    "sfs:4,base=dot": lambda q, d: by_fragment(q, d, dot),
    "sfs:4,base=l2": lambda q, d: by_fragment(q, d, l2),
    "sfs:4,base=l1": lambda q, d: by_fragment(q, d, l1),
    "sfs:4,dims=8": lambda q, d: by_fragment(q[:, :8], d[:, :8], cosine),
    "l2": l2,
    "l1": l1,
}


def embeddings(queries: int = 7, documents: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.2, 5, (documents, 1))
    return (
        rng.normal(size=(queries, 16)).astype(np.float32),
        (lengths * rng.normal(size=(documents, 16))).astype(np.float32),
    )


def rng_rows(among: int, count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, among, count)


def assert_is_ranking(scores: np.ndarray, indices: np.ndarray, exact: np.ndarray, k: int) -> None:
    """The k best of each row of ``exact``, where near ties may fall either way."""
    assert scores.shape == indices.shape == (len(exact), k)
    assert (scores.dtype, indices.dtype) == (np.float32, np.int64)
    order = np.argsort(-exact, axis=1, kind="stable")
    ranked = np.take_along_axis(exact, order, axis=1)
    order, best = order[:, :k], ranked[:, :k]
    assert_rounded(scores, best)
    assert_rounded(np.take_along_axis(exact, indices, axis=1), best)
    assert all(len(set(row)) == k for row in indices.tolist())
    # what is apart from the scores before and after it by more than their rounding has its rank
    apart = np.pad(-np.diff(ranked, axis=1), [(0, 0), (1, 1)], constant_values=np.inf) > 1e-4 * np.abs(exact).max()
    is_clear = (apart[:, :-1] & apart[:, 1:])[:, :k]
    assert (indices == order)[is_clear].all()
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("spec", FORMULAS)
@pytest.mark.parametrize(
    ("k", "query_block", "block"),
    [(1, 512, 8000), (10, 512, 8000), (60, 512, 8000), (10, 3, 1), (10, 3, 7), (10, 3, 59)],
)
def test_equals_brute_force(monkeypatch: pytest.MonkeyPatch, spec: str, k: int, query_block: int, block: int) -> None:
    queries, documents = embeddings()
    monkeypatch.setattr(search, "QUERY_BLOCK", query_block)
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", block)
    exact = FORMULAS[spec](queries.astype(np.float64), documents.astype(np.float64))
    assert_is_ranking(*top_k(retrokit.similarity(spec), queries, documents, k), exact, k)


TIED = ["dot", "l2", "l1", "sfs:4,base=dot", "sfs:4,base=l1"]  # exact on small whole numbers


@pytest.mark.parametrize("spec", TIED)
@pytest.mark.parametrize("k", [1, 2, 5, 13, 40])
@pytest.mark.parametrize(("query_block", "block"), [(256, 100_000), (2, 7), (2, 1), (1, 39)])
def test_ties_go_to_the_lower_index(monkeypatch, spec, k, query_block, block):
    rng = np.random.default_rng(5)
    queries = rng.integers(-1, 2, (5, 16)).astype(np.float32)
    documents = rng.integers(-1, 2, (40, 16)).astype(np.float32)
    documents[20:] = documents[rng.integers(0, 20, 20)]  # every second one stands twice
    monkeypatch.setattr(search, "QUERY_BLOCK", query_block)
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", block)
    exact = FORMULAS[spec](queries.astype(np.float64), documents.astype(np.float64))
    assert all(len(set(row)) < 20 for row in exact.round(9).tolist())  # ties there are
    scores, indices = top_k(retrokit.similarity(spec), queries, documents, k)
    order = np.argsort(-exact.round(9), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(indices, order)
    assert_rounded(scores, np.take_along_axis(exact, order, axis=1), 8)


@pytest.mark.parametrize("spec", ["cosine", "dot", "sfs:4", "l1"])
@pytest.mark.parametrize("order", ["as they come", "best last", "best first"])
@pytest.mark.parametrize(("block", "group"), [(32, 2), (64, 4), (36, 4), (48, 5)])
def test_documents_that_are_passed_over_in_groups(monkeypatch, spec, order, block, group):
    queries, documents = embeddings(7, 900)
    first = FORMULAS[spec](queries[:1], documents)[0]
    if order != "as they come":
        documents = documents[np.argsort(first if order == "best last" else -first)]
    documents[500:800] = documents[rng_rows(500, 300)]
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", block)
    monkeypatch.setattr(search, "GROUP", group)
    shares = []
    promising = search._promising

    def watched(scores: torch.Tensor, *given: Any) -> tuple[torch.Tensor, ...] | None:
        found = promising(scores, *given)
        shares.append(1 if found is None else len(found[0]) / scores.numel())
        return found

    monkeypatch.setattr(search, "_promising", watched)
    scores, indices = top_k(retrokit.similarity(spec), queries, documents, 5)
    exact = FORMULAS[spec](queries.astype(np.float64), documents.astype(np.float64)).round(9)
    # a document that stands twice may be rounded otherwise in another place of a block
    kind = np.unique(documents, axis=0, return_inverse=True)[1].reshape(-1)
    best = np.argsort(-exact, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(kind[indices], kind[best])
    assert all(len(set(row)) == 5 for row in indices.tolist())
    assert_rounded(scores, np.take_along_axis(exact, best, axis=1))
    skips = block % group == 0
    assert any(share < 1 for share in shares) == skips


def rows_of(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Queries and documents float32, of which many lie close, or far, or twice."""
    rng = np.random.default_rng(3)
    queries, documents = rng.normal(size=(9, 24)), rng.normal(size=(2_000, 24))
    if kind == "clusters":
        documents = documents[rng.integers(0, 400, 2_000)] + 0.01 * documents
    elif kind == "duplicates":
        documents = documents[rng.integers(0, 700, 2_000)]
    elif kind == "many copies":  # more than are kept by their ceilings
        documents = documents[rng.integers(0, 30, 2_000)]
    elif kind == "queries among the documents":
        queries[:6] = documents[[0, 5, 700, 1_500, 1_999, 900]]
        documents[900] *= 1 + 1e-6
    elif kind == "lengths apart":
        queries, documents = queries * np.logspace(-2, 2, 9)[:, None], documents * np.logspace(-2, 2, 2_000)[:, None]
    elif kind == "far from the origin":
        queries, documents = queries + 100, documents + 100
    elif kind == "one huge":
        documents[1_000] *= 1e15
    scale = {"float16": 2.0**-14, "huge": 1e17, "beyond float32's squares": 1e25, "tiny": 1e-25}.get(kind, 1)
    dtype = np.float16 if kind == "float16" else np.float32
    return (scale * queries).astype(dtype), (scale * documents).astype(dtype)


KINDS = ["plain", "clusters", "duplicates", "queries among the documents", "float16", "huge"]
BY_KERNEL = [
    "many copies",
    "lengths apart",
    "far from the origin",
    "one huge",
    "beyond float32's squares",
    "tiny",
]  # some, or all


@pytest.mark.parametrize("kind", [*KINDS, *BY_KERNEL])
@pytest.mark.parametrize(("query_block", "block", "by_onednn"), [(1024, 320, True), (4, 640, True), (9, 320, False)])
def test_l2_by_a_product_is_l2_by_its_kernel(monkeypatch, kind, query_block, block, by_onednn):
    queries, documents = rows_of(kind)
    monkeypatch.setattr(search, "QUERY_BLOCK", query_block)
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", block)
    if not by_onednn:
        monkeypatch.setattr(search.onednn, "works", lambda dtype: False)
    whole, kernel = [], Distance.kernel
    monkeypatch.setattr(Distance, "kernel", lambda *given: whole.append(1) or kernel(*given))
    scores, indices = top_k(retrokit.similarity("l2"), queries, documents, 5)
    assert kind in BY_KERNEL or not whole  # the way that is tested was taken
    exact = l2(queries.astype(np.float64), documents.astype(np.float64)).astype(np.float32)
    order = np.argsort(-exact, axis=1, kind="stable")[:, :5]
    if not whole:  # from differences, so even where the products of close vectors cancel
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_max_ulp(scores, np.take_along_axis(exact, order, axis=1), 1)
    monkeypatch.setattr(Distance, "ceilings", lambda *given: None)
    by_kernel = top_k(retrokit.similarity("l2"), queries, documents, 5)
    if kind != "queries among the documents":  # the kernel is wrong by 1e-7 of their length
        np.testing.assert_array_equal(indices, by_kernel[1])
        np.testing.assert_array_max_ulp(scores, by_kernel[0], 1)


@pytest.mark.parametrize("kind", ["array", "read-only file", "tensor"])
def test_l2_scores_what_is_among_the_best_at_the_end_alone(monkeypatch, tmp_path, kind):
    queries, documents = rows_of("plain")
    stored: Any = torch.as_tensor(documents) if kind == "tensor" else documents
    if kind == "read-only file":
        np.save(tmp_path / "documents.npy", documents)
        stored = np.load(tmp_path / "documents.npy", mmap_mode="r")
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", 320)
    scored, of_pairs = [], search._Search.score_pairs
    monkeypatch.setattr(search._Search, "score_pairs", lambda *given: scored.append(len(given[2])) or of_pairs(*given))
    indices = top_k(retrokit.similarity("l2"), queries, stored, 5)[1]
    exact = l2(queries.astype(np.float64), documents.astype(np.float64))
    np.testing.assert_array_equal(indices, np.argsort(-exact, axis=1, kind="stable")[:, :5])
    assert 9 * 5 <= sum(scored) <= 9 * 6  # of nine queries the five best, and what is as near as their rounding


def test_as_many_documents_in_the_first_block_as_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come unsorted, and the lowest of them need not be the last."""
    documents = np.array([1, 5, 9, 7, 3, 4, 2, 8], dtype=np.float32)[:, None]
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", 4)
    monkeypatch.setattr(search, "GROUP", 2)
    scores, indices = top_k(retrokit.similarity("dot"), np.ones((1, 1)), documents, 4)
    assert (scores.tolist(), indices.tolist()) == ([[9, 8, 7, 5]], [[2, 7, 3, 1]])


@pytest.mark.parametrize("spec", FORMULAS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.filterwarnings("error")
def test_documents_in_a_file(monkeypatch, tmp_path, spec, dtype, mode):
    queries, documents = embeddings()
    np.save(tmp_path / "documents.npy", documents.astype(dtype))
    stored = np.load(tmp_path / "documents.npy", mmap_mode=mode)
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", 7)
    found = top_k(retrokit.similarity(spec), queries, stored, 10)
    exact = FORMULAS[spec](queries.astype(np.float64), documents.astype(dtype).astype(np.float64))
    assert_is_ranking(*found, exact, 10)
    np.testing.assert_array_equal(np.load(tmp_path / "documents.npy"), documents.astype(dtype))


def test_documents_are_read_once_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    class File(np.ndarray):
        read: ClassVar[list[slice]] = []

        def __getitem__(self, rows: slice) -> np.ndarray:
            self.read.append(rows)
            return super().__getitem__(rows).view(np.ndarray)

    queries, documents = embeddings(7, 20)
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", 8)
    monkeypatch.setattr(search, "QUERY_BLOCK", 2)
    top_k(retrokit.similarity("cosine"), queries, documents.view(File), 3)
    assert [rows for rows in File.read if rows.stop] == [slice(0, 8), slice(8, 16), slice(16, 24)]


def test_k_beyond_the_documents() -> None:
    queries, documents = embeddings(2, 5)
    scores, indices = top_k(retrokit.similarity("cosine"), queries, documents, 1000)
    assert scores.shape == (2, 5)
    assert [sorted(row) for row in indices.tolist()] == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("spec", ["cosine", "l2", "sfs:4,base=l2"])
@pytest.mark.parametrize(("queries", "documents", "shape"), [(0, 5, (0, 3)), (4, 0, (4, 0)), (0, 0, (0, 0))])
def test_nothing_to_search(spec: str, queries: int, documents: int, shape: tuple[int, int]) -> None:
    q, d = embeddings(queries, documents)
    scores, indices = top_k(retrokit.similarity(spec), q, d, 3)
    assert scores.shape == indices.shape == shape
    assert (scores.dtype, indices.dtype) == (np.float32, np.int64)


@pytest.mark.parametrize(
    ("spec", "queries", "k", "problem"),
    [
        ("dot", np.ones((2, 8)), 1, "queries have 8 dimensions, documents 16"),
        ("sfs:5", np.ones((2, 16)), 1, "size 5 does not divide 16"),
        ("dot", np.ones((2, 16)), 0, "k must be at least 1, not 0"),
        ("dot", np.ones((2, 16)), -1, "k must be at least 1, not -1"),
    ],
)
def test_what_does_not_fit(spec: str, queries: np.ndarray, k: int, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        top_k(retrokit.similarity(spec), queries, embeddings()[1], k)


@pytest.mark.parametrize(
    "kind", ["torch", "torch with gradients", "float64", "float32 and float64", "one query as a vector"]
)
def test_inputs_of_any_kind(kind: str) -> None:
    queries, documents = embeddings()
    expected = top_k(retrokit.similarity("learn"), queries, documents, 10)
    inputs: tuple[object, object] = (queries, documents)
    if kind == "one query as a vector":
        inputs, expected = (queries[0], documents), (expected[0][:1], expected[1][:1])
    elif kind == "float32 and float64":
        inputs = (queries, documents.astype(np.float64))
    elif kind == "float64":
        inputs = (queries.astype(np.float64), documents.astype(np.float64))
    else:
        wanted = kind == "torch with gradients"
        inputs = tuple(torch.from_numpy(side).clone().requires_grad_(wanted) for side in (queries, documents))
    scores, indices = top_k(retrokit.similarity("learn"), *inputs, 10)  # type: ignore[arg-type]
    assert_rounded(scores, expected[0])
    np.testing.assert_array_equal(indices, expected[1])


def test_the_similarity_is_left_as_it_was() -> None:
    similarity = retrokit.similarity("learn")
    before = copy.deepcopy(similarity.state_dict())
    # A device without memory: the search breaks off after the similarity was brought there.
    with pytest.raises((NotImplementedError, RuntimeError)):
        top_k(similarity, *embeddings(), 3, device="meta")
    assert {parameter.device.type for parameter in similarity.parameters()} == {"cpu"}
    top_k(similarity, *embeddings(), 3)
    assert all(parameter.grad is None for parameter in similarity.parameters())
    assert similarity.state_dict() == before
    # and what it learns can still be learned
    q, d = (torch.from_numpy(side) for side in embeddings())
    similarity.score(q, d).sum().backward()
    assert all(parameter.grad is not None for parameter in similarity.parameters())


def test_only_the_documents_magnitude_decides_a_ranking() -> None:
    """MAG, Propositions 4.1 and S.2."""
    queries, documents = embeddings(20)
    specs = ("dot", "qnorm", "dnorm", "cosine", "learn:query=0.1,document=0.3", "learn:query=0.9,document=0.3")
    ranked = {spec: top_k(retrokit.similarity(spec), queries, documents, 5)[1] for spec in specs}
    for one, other in zip(specs[::2], specs[1::2], strict=True):
        np.testing.assert_array_equal(ranked[one], ranked[other])
    assert (ranked["dot"] != ranked["cosine"]).any()
    assert (ranked["dot"] != ranked[specs[-1]]).any()


def test_l2_keeps_the_margin_of_every_block(monkeypatch):
    """What is nearest by less than the rounding of a long document of another block is found: the distances are 1 and
    1 − 10⁻⁶, those of all others above 1."""
    monkeypatch.setattr(search, "DOCUMENT_BLOCK", 64)
    query = np.zeros((1, 16), dtype=np.float32)
    query[0, 0] = 1
    documents = np.zeros((128, 16), dtype=np.float32)
    documents[:64, 0], documents[64:, 0] = 2.5, -0.1
    documents[10, 0], documents[100, 0] = 2, 1e-6
    scores, indices = top_k(retrokit.similarity("l2"), query, documents, 2)
    assert indices.tolist() == [[100, 10]]
    assert scores.tolist() == [[pytest.approx(-(1 - 1e-6), rel=1e-7), -1.0]]
    scores, indices = top_k(retrokit.similarity("l2"), query, documents, 1)
    assert indices.tolist() == [[100]]
