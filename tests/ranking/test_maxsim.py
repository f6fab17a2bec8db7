"""MaxSim against loops and the library's own scoring; padding, special tokens, order and batches do not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentence_transformers.util import mean_maxsim_pairwise

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.reductions import maxsim
from tests.close import assert_rounded
from tests.models import sentences

QUERIES = sentences(9, seed=1)
DOCUMENTS = [*sentences(30, seed=2), " ".join(sentences(5, seed=3)), "cat", QUERIES[0]]
PAIRS = [(i % len(QUERIES), i % len(DOCUMENTS)) for i in range(0, 400, 3)]


@pytest.fixture(scope="module")
def reranker(tiny_bert):
    return registry.create(f"maxsim:{tiny_bert}", device="cpu")


def unit(tokens: np.ndarray) -> np.ndarray:
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def expected(reranker) -> dict[tuple[int, int], float]:
    """COMP, Eq. 6, a pair at a time, each text encoded by itself: nothing is padded."""
    queries = [unit(reranker.encoder.token_embeddings([text], "query", "fp32")[0]) for text in QUERIES]
    documents = [unit(reranker.encoder.token_embeddings([text], "document", "fp32")[0]) for text in DOCUMENTS]
    return {
        (i, j): float(np.mean([max(float(a @ b) for b in documents[j]) for a in queries[i]]))
        for i in range(len(QUERIES))
        for j in range(len(DOCUMENTS))
    }


def scored(reranker, pairs) -> np.ndarray:
    return reranker.score_pairs([QUERIES[i] for i, _ in pairs], [DOCUMENTS[j] for _, j in pairs])


def test_scores_are_those_of_loops(reranker, expected):
    every = list(expected)
    scores = scored(reranker, every)
    assert scores.dtype == np.float32
    assert_rounded(scores, list(expected.values()))
    assert np.ptp(scores) > 0.1, "different pairs must get different scores"
    assert_rounded(reranker.rank(QUERIES[2], DOCUMENTS), [expected[2, j] for j in range(33)])
    assert_rounded(reranker.rank(QUERIES[0], [QUERIES[0]]), [1.0])


def test_scores_are_the_librarys(reranker):
    queries = [torch.from_numpy(unit(t)) for t in reranker.encoder.token_embeddings(QUERIES, "query", "fp32")]
    documents = [torch.from_numpy(unit(t)) for t in reranker.encoder.token_embeddings(DOCUMENTS, "document", "fp32")]
    theirs = mean_maxsim_pairwise([queries[i] for i, _ in PAIRS], [documents[j] for _, j in PAIRS])
    assert_rounded(scored(reranker, PAIRS), theirs)


def test_padding_never_counts():
    maps = torch.tensor([[-0.5, -0.25, 0.0], [-1.0, -0.75, 0.0], [0.0, 0.0, 0.0]])
    masks = torch.tensor([True, True, False]), torch.tensor([True, True, False])
    assert maxsim(maps, *masks).item() == -0.5, "a padded cell's 0 is more than the best cosine"
    batch = maxsim(maps.expand(2, 4, 3, 3), masks[0].expand(2, 1, 3), masks[1].expand(1, 4, 3))
    assert batch.tolist() == [[-0.5] * 4] * 2


def test_texts_without_tokens_come_last(reranker):
    assert reranker.rank("", ["cat", ""]).tolist() == [-1.0, -1.0]
    scores = reranker.rank("cat", ["", "cat", "dog"])
    assert scores[0] == -1.0
    assert scores[1:].min() > -1.0
    assert reranker.rank("cat", []).shape == (0,)
    with pytest.raises(UsageError, match="2 and 1"):
        reranker.score_pairs(["a", "b"], ["c"])
