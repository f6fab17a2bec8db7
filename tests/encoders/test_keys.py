"""What was computed is found again only where it would be computed to the same bits, whatever keeps it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import retrokit
from retrokit.core.shards import Shards
from retrokit.encoders import fingerprint
from retrokit.encoders.cached import cached
from retrokit.encoders.store.database import EmbeddingCache
from retrokit.encoders.torch_encoder import TorchEncoder
from retrokit.evaluation.mteb.model import MtebModel
from retrokit.ranking.reranking.base import PairwiseReranker
from retrokit.ranking.reranking.kept import KeptReranker
from retrokit.ranking.reranking.maps import TokenCache
from retrokit.ranking.retrieval.dense import Dense
from retrokit.ranking.retrieval.embeddings import SharedEmbeddings

TEXTS = ["a cat", "the dog runs"]


class Counting(TorchEncoder):
    """Counts how often it is asked to compute, and gives ones."""

    asked = 0
    place = "cpu"

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    def token_embeddings(self, items, role, precision="auto"):
        self.asked += 1
        return [np.ones((2, self.dimension), dtype=np.float32) for _ in items]

    def batches(self, items, role, precision="auto"):
        self.asked += 1
        yield np.arange(len(items)), np.ones((len(items), self.dimension), dtype=np.float32)


class Judge(PairwiseReranker):
    """Counts as well."""

    spec = "judge"
    asked = 0

    def __init__(self, encoder: Counting) -> None:
        self.encoder = encoder

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    def score_pairs(self, queries, documents):
        self.asked += 1
        return np.ones(len(queries), dtype=np.float32)

    def fingerprint(self) -> str:
        return "judge"


def in_the_cache(encoder, folder) -> Callable[[], int]:
    def ask() -> int:
        cached(encoder).embed(TEXTS, "query", "fp32")
        return encoder.asked

    return ask


def tokens(encoder, folder) -> Callable[[], int]:
    def ask() -> int:
        TokenCache(EmbeddingCache(folder, 10**9), encoder, "fp32").tokens(TEXTS, "query")
        return encoder.asked

    return ask


def reranked(encoder, folder) -> Callable[[], int]:
    judge = Judge(encoder)

    def ask() -> int:
        KeptReranker(judge, Shards(folder)).score_pairs(TEXTS, TEXTS)
        return judge.asked

    return ask


def mteb_results(encoder, folder) -> Callable[[], int]:
    names = set()

    def ask() -> int:
        searcher = Dense(SharedEmbeddings(encoder, [], "fp32"), retrokit.similarity("cosine"))
        names.add(MtebModel(searcher, False, False, {}).mteb_model_meta.revision)
        return len(names)

    return ask


CHANGES = ["libraries", "code", "device", "code that cannot be told"]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("keeps", [in_the_cache, tokens, reranked, mteb_results])
def test_another_way_of_computing_computes_anew(keeps, change, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    made = retrokit.encoder(str(tiny_bert), device="cpu")
    encoder = Counting(made.spec, made.to_train().model, made.similarity)
    ask = keeps(encoder, tmp_path / "kept")
    assert [ask(), ask()] == [1, 1]
    match change:
        case "libraries":
            before = fingerprint.version
            monkeypatch.setattr(fingerprint, "version", lambda name: "99" if name == "tokenizers" else before(name))
        case "code":
            monkeypatch.setattr(fingerprint, "_digest", lambda file: "other")
        case "device":
            encoder.place = "cuda"
        case _:
            monkeypatch.setattr(fingerprint.inspect, "getfile", lambda kind: "<stdin>")
    assert ask() == 2
    assert ask() == (3 if change == CHANGES[-1] else 2)
