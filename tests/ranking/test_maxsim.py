"""MaxSim against the library's own scoring; padding and texts without tokens."""

import numpy as np
import pytest
import torch
from sentence_transformers.util import mean_maxsim_pairwise

from retrokit.core.errors import UsageError
from retrokit.ranking.reranking import registry
from retrokit.ranking.reranking.scorers import maxsim
from tests.close import assert_rounded
from tests.models import sentences

QUERIES = sentences(9, seed=1)
DOCUMENTS = [*sentences(30, seed=2), " ".join(sentences(5, seed=3)), "cat", QUERIES[0]]


@pytest.fixture(scope="module")
def reranker(tiny_bert):
    return registry.create(f"maxsim:{tiny_bert}", device="cpu")


def unit(tokens: np.ndarray) -> np.ndarray:
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def test_scores_are_the_librarys(reranker):
    queries = [torch.from_numpy(unit(t)) for t in reranker.encoder.token_embeddings(QUERIES, "query", "fp32")]
    documents = [torch.from_numpy(unit(t)) for t in reranker.encoder.token_embeddings(DOCUMENTS, "document", "fp32")]
    pairs = [(i, j) for i in range(len(QUERIES)) for j in range(len(DOCUMENTS))]
    theirs = mean_maxsim_pairwise([queries[i] for i, _ in pairs], [documents[j] for _, j in pairs])
    scores = reranker.score_pairs([QUERIES[i] for i, _ in pairs], [DOCUMENTS[j] for _, j in pairs])
    assert scores.dtype == np.float32
    assert_rounded(scores, theirs)
    assert np.ptp(scores) > 0.1, "different pairs must get different scores"
    assert_rounded(reranker.rank(QUERIES[2], DOCUMENTS), theirs[2 * len(DOCUMENTS) : 3 * len(DOCUMENTS)])
    assert_rounded(reranker.rank(QUERIES[0], [QUERIES[0]]), [1.0])


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
