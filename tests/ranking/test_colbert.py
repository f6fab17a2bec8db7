"""The reranker `colbert` gives the library's own scores, in the order asked for."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import MultiVectorEncoder

from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.ranking.reranking import registry
from tests.close import assert_rounded
from tests.models import sentences

QUERIES, DOCUMENTS = sentences(4, seed=1), sentences(6, seed=2)


@pytest.fixture(scope="module")
def folder(tiny_bert, tmp_path_factory) -> Path:
    """A multi-vector encoder on the tiny BERT, with a projection of random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = MultiVectorEncoder(str(tiny_bert), device="cpu")
    path = tmp_path_factory.mktemp("models") / "colbert"
    made.save_pretrained(str(path), create_model_card=False)
    return path


@pytest.fixture(scope="module")
def reranker(folder):
    return registry.create(f"colbert:{folder}", device="cpu")


def test_scores_are_the_librarys_in_the_order_asked_for(reranker, folder):
    library = MultiVectorEncoder(str(folder), device="cpu")
    queries = library.encode_query(QUERIES)
    documents = library.encode_document(DOCUMENTS)
    expected = library.similarity(queries, documents).numpy()
    pairs = [(i, j) for i in range(4) for j in range(6)]
    shuffled = [pairs[k] for k in np.random.default_rng(0).permutation(len(pairs))]
    scores = reranker.score_pairs([QUERIES[i] for i, _ in shuffled], [DOCUMENTS[j] for _, j in shuffled])
    assert scores.dtype == np.float32
    assert_rounded(scores, [expected[i, j] for i, j in shuffled])
    assert np.ptp(scores) > 0.1
    assert_rounded(reranker.rank(QUERIES[1], DOCUMENTS), expected[1])
    assert reranker.rank(QUERIES[0], []).shape == (0,)


def test_the_fingerprint_follows_the_weights(reranker, folder):
    again = registry.create(f"colbert:{folder}", device="cpu")
    assert again.fingerprint() == reranker.fingerprint()
    with torch.no_grad():
        next(again.model.parameters()).add_(0.1)
    assert again.fingerprint() != reranker.fingerprint()


def test_mistakes_are_one_clear_line(reranker, tiny_bert, tmp_path, monkeypatch):
    with pytest.raises(DataError, match="it has no projection of its token vectors"):
        registry.create(f"colbert:{tiny_bert}", device="cpu")
    with pytest.raises(UsageError, match="2 and 1"):
        reranker.score_pairs(["a", "b"], ["c"])
    with pytest.raises(DataError, match="is not a multi-vector encoder"):
        registry.create(f"colbert:{tmp_path}", device="cpu")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        registry.create(f"colbert:{tmp_path / 'file'}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises((ServiceError, UsageError), match="is not a folder"):
        registry.create("colbert:nobody/nothing")
