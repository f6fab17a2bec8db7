"""Scorers of token maps: padding, batches and order do not matter; MaxSim is the library's, F3 and F4 the formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers.util import mean_maxsim_pairwise
from torch.nn.functional import conv2d, gelu, layer_norm

from retrokit import encoders
from retrokit.core.errors import UsageError
from retrokit.encoders.store import cache_in
from retrokit.ranking.reranking import maps as module
from retrokit.ranking.reranking import registry, verifiers
from retrokit.ranking.reranking.maps import (
    MapReranker,
    MapScorer,
    TokenBlock,
    TokenCache,
    pad_tokens,
    pair_maps,
    unit_tokens,
)
from retrokit.ranking.reranking.scorers import mean_of_map, soft_alignment
from tests.close import assert_rounded
from tests.models import sentences

ORDER_COUNTS = [
    "soft:lambda=0.05,tau=0.2",
    "cnn:layers=2",
    "cnn:plain,layers=2",
    "transformer:patch=3,keep=2,dim=16,heads=2",
    "transformer:plain,patch=3,dim=16,heads=2",
]
SPECS = ["mean", "maxsim", *ORDER_COUNTS]


def scorer_of(spec: str) -> MapScorer:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        made = verifiers.create(spec).eval()
        for parameter in made.parameters():  # fresh networks are nearly constant
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.5)
        return made


SCORERS = {spec: scorer_of(spec) for spec in SPECS}


def block(counts: list[int], seed: int) -> TokenBlock:
    """Random unit tokens of texts with so many tokens each."""
    generator = np.random.default_rng(seed)
    found = [generator.normal(size=(count, 6)).astype(np.float32) for count in counts]
    return pad_tokens([part / np.linalg.norm(part, axis=1, keepdims=True) for part in found], torch.device("cpu"))


def one(of: TokenBlock, i: int) -> TokenBlock:
    """A text by itself, without padding."""
    return TokenBlock(of.tokens[i : i + 1, of.mask[i]], of.mask[i : i + 1, of.mask[i]])


def score(scorer: MapScorer, queries: TokenBlock, documents: TokenBlock) -> torch.Tensor:
    with torch.inference_mode():
        return scorer.scores(pair_maps(queries, documents), queries.mask, documents.mask)


COUNTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 14)), min_size=1, max_size=5)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=25, deadline=None)
@given(COUNTS, st.integers(0, 1000))
def test_masked_equals_unpadded(spec, counts, seed):
    queries, documents = block([a for a, _ in counts], seed), block([b for _, b in counts], seed + 1)
    together = score(SCORERS[spec], queries, documents)
    alone = [score(SCORERS[spec], one(queries, i), one(documents, i)).item() for i in range(len(counts))]
    assert_rounded(together, alone, 256, size=1)


def test_f0_and_f2_are_those_of_loops():
    queries, documents = block([4, 2], 3), block([5, 3], 4)
    maps = pair_maps(queries, documents)
    for i, (m, n) in enumerate([(4, 5), (2, 3)]):
        cosines = maps[i, :m, :n].numpy().astype(np.float64)
        mean = mean_of_map(maps, queries.mask, documents.mask)[i].item()
        assert_rounded(mean, cosines.mean(), 8, size=1)
        rows = []
        for a in range(m):
            weights = np.exp([(cosines[a, b] - 0.05 * abs(a - b)) / 0.2 for b in range(n)])
            rows.append((weights / weights.sum() * cosines[a]).sum())
        soft = soft_alignment(maps, queries.mask, documents.mask, 0.05, 0.2)[i].item()
        assert_rounded(soft, np.mean(rows), 8, size=1)


def test_a_document_without_tokens_has_a_score_and_gradients():
    scorer, maps = verifiers.create("soft"), torch.rand(2, 3, 4, requires_grad=True)
    masks = torch.ones(2, 3, dtype=torch.bool), torch.tensor([[True] * 4, [False] * 4])
    values = scorer(maps, *masks)
    values.sum().backward()
    assert values.isfinite().all()
    assert all(value.grad.isfinite().all() for value in (maps, *scorer.parameters()))
    assert scorer.scores(maps, *masks)[1] == scorer.lowest


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("cells", "characters"), [(50, 400), (50, 250_000), (10_000, 1)])
def test_neither_batch_nor_order_of_pairs_matters(tiny_bert, spec, cells, characters, monkeypatch):
    encoder = registry.create(f"maxsim:{tiny_bert}", device="cpu").encoder
    scorer = scorer_of(spec)
    reranker = MapReranker("", encoder, scorer)
    texts = [*sentences(6, seed=4), "cat", ""]
    pairs = [(a, b) for a in texts for b in texts]
    expected = [reranker.rank(a, [b])[0] for a, b in pairs]
    assert np.ptp(expected) > 1e-4
    monkeypatch.setattr(scorer, "cells", cells)
    monkeypatch.setattr(module, "MAP_CELLS", 60 * cells)
    monkeypatch.setattr(module, "BLOCK_CHARACTERS", characters)
    for order in (range(len(pairs)), np.random.default_rng(0).permutation(len(pairs))):
        found = reranker.score_pairs([pairs[i][0] for i in order], [pairs[i][1] for i in order])
        assert_rounded(found, [expected[i] for i in order], 256)


def test_a_scorer_sees_no_padding_that_all_of_its_maps_share(tiny_bert):
    class Seen(MapScorer):
        cells = 60  # two maps of 3 × 10

        def forward(self, maps, query_mask, document_mask):
            shapes.append(tuple(maps.shape))
            return document_mask.sum(dim=1).float()

    shapes: list[tuple[int, ...]] = []
    reranker = MapReranker("", registry.create(f"maxsim:{tiny_bert}", device="cpu").encoder, Seen())
    columns = np.arange(4)
    scores = reranker.score_blocks(block([3], 0), block([2, 3, 9, 10], 1), np.zeros_like(columns), columns)
    assert shapes == [(2, 3, 3), (2, 3, 10)]
    assert scores.tolist() == [2, 3, 9, 10]


def test_texts_without_tokens_keep_a_column():
    empty = TokenBlock(torch.zeros(3, 4, 2), torch.zeros(3, 4, dtype=torch.bool))
    assert empty.at(torch.tensor([0, 2])).tokens.shape == (2, 1, 2)
    some = TokenBlock(torch.zeros(2, 4, 2), torch.tensor([[True, True, False, False], [False] * 4]))
    assert some.at(torch.tensor([1, 0])).mask.tolist() == [[False, False], [True, True]]


def test_a_token_of_zeros_stays_one():
    class Given:
        def token_embeddings(self, texts, role, precision):
            return [np.array([[0.0, 0.0], [3.0, 4.0]], dtype=np.float32) for _ in texts]

    (tokens,) = unit_tokens(Given(), ["a"], "query", "fp32")
    assert tokens.tolist() == [[0.0, 0.0], pytest.approx([0.6, 0.8])]


def test_specs_of_the_registries():
    assert str(registry.parse("soft:lambda=0.2,tau=0.3")) == "soft:lambda=0.2,tau=0.3"
    assert str(registry.parse("mean:minilm")) == "mean"
    assert verifiers.create("soft:lambda=0.2,tau=0.3").bias.item() == pytest.approx(0.2)
    with pytest.raises(UsageError, match="out of range"):
        registry.parse("soft:tau=0")
    with pytest.raises(UsageError, match="kernel size must be odd"):
        verifiers.create("cnn:kernel=4")
    with pytest.raises(UsageError, match="multiple of 4"):
        verifiers.create("transformer:dim=10")
    with pytest.raises(UsageError, match="cnn needs path"):
        registry.parse("cnn")


def test_what_decides_a_score_decides_the_fingerprint(tiny_bert, tiny_llama):
    specs = [f"soft:{tiny_bert}", f"soft:{tiny_bert},lambda=0.1", f"mean:{tiny_bert}", f"maxsim:{tiny_bert}"]
    specs += [f"maxsim:{tiny_llama}", f"maxsim:{tiny_bert},precision=bf16"]
    rerankers = [registry.create(spec, device="cpu") for spec in specs]
    assert all(
        reranker.spec.startswith(spec.partition(",")[0]) for reranker, spec in zip(rerankers, specs, strict=True)
    )
    assert len({reranker.fingerprint() for reranker in rerankers}) == 6
    assert registry.create(specs[3], device="cpu").fingerprint() == rerankers[3].fingerprint()


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


TEXTS = [*sentences(12, seed=6), "", "cat"]


@pytest.fixture(scope="module")
def encoder(tiny_bert):
    return encoders.registry.create(f"{tiny_bert}", device="cpu")


def check(found, encoder, texts=TEXTS) -> None:
    for ours, theirs in zip(found, unit_tokens(encoder, texts, "document", "fp32"), strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == np.float16
        assert_rounded(ours, theirs, 0.6, np.float16)  # half a unit, and the encoder's own rounding


def test_what_is_kept_is_what_the_encoder_gives(encoder, tmp_path, monkeypatch):
    check(TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS, "document"), encoder)
    calls = []
    monkeypatch.setattr(encoder, "token_embeddings", lambda *given: calls.append(given))
    again = TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS[::-1], "document")
    assert calls == [], "nothing is encoded twice"
    monkeypatch.undo()
    check(again[::-1], encoder)


def test_another_encoder_precision_or_prompt_shares_nothing(encoder, tiny_llama, tiny_bert, tmp_path):
    others = (str(tiny_llama), f"{tiny_bert},query_prompt=cat", f"{tiny_bert},max_length=4")
    TokenCache(cache_in(tmp_path), encoder, "fp32").tokens(TEXTS, "document")
    before = len(cache_in(tmp_path).held())
    for spec in others:
        other = encoders.registry.create(spec, device="cpu")
        for role in ("query", "document"):
            expected = unit_tokens(other, TEXTS, role, "fp32")
            for ours, theirs in zip(
                TokenCache(cache_in(tmp_path), other, "fp32").tokens(TEXTS, role), expected, strict=True
            ):
                assert_rounded(ours, theirs, 0.6, np.float16)  # half a unit, and the encoder's own rounding
    TokenCache(cache_in(tmp_path), encoder, "bf16").tokens(TEXTS, "document")
    held = cache_in(tmp_path).held()
    assert (before, len(held)) == (1, 5), "llama, a prompt, a length, a precision"
    rows = sorted(one.rows for one in held)
    assert rows == [len(TEXTS)] * 4 + [2 * len(TEXTS)], "two roles where a prompt tells them apart"


def test_a_reranker_with_a_cache_scores_the_same_cold_and_warm(tiny_bert, tmp_path):
    spec = f"maxsim:{tiny_bert}"
    plain = registry.create(spec, device="cpu")
    scores = plain.score_pairs(TEXTS, TEXTS[::-1])
    cold = registry.create(f"{spec},cache={tmp_path}", device="cpu")
    first = cold.score_pairs(TEXTS, TEXTS[::-1])
    assert_rounded(first, scores, 1, np.float16)
    warm = registry.create(f"{spec},cache={tmp_path}", device="cpu")
    np.testing.assert_array_equal(warm.score_pairs(TEXTS, TEXTS[::-1]), first)
    assert cold.fingerprint() != plain.fingerprint()


SIZES = [(5, 7), (3, 4), (8, 2), (1, 1)]


def made(spec: str) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return verifiers.create(spec).eval()


def mlp(part: torch.nn.Module, vector: torch.Tensor) -> torch.Tensor:
    first, last = part[0], part[-1]
    return last.weight @ gelu(first.weight @ vector + first.bias) + last.bias


def cnn_by_hand(network: torch.nn.Module, seen: torch.Tensor) -> torch.Tensor:
    features = seen[None, None]
    for layer in network.convolutions:
        features = conv2d(features, layer.weight, layer.bias, padding=layer.padding).clamp(min=0)
    return mlp(network.head, features[0].flatten(1).mean(dim=1))


def transformer_by_hand(network: torch.nn.Module, seen: torch.Tensor) -> torch.Tensor:
    size, dim = network.patch, len(network.cls)
    rates = torch.exp(torch.arange(0, dim // 2, 2) * (-math.log(1000.0) / (dim // 2)))
    tokens = [network.cls]
    for row in range(0, seen.shape[0], size):
        for column in range(0, seen.shape[1], size):
            cut = seen[row : row + size, column : column + size]
            patch = torch.zeros(size, size)
            patch[: cut.shape[0], : cut.shape[1]] = cut
            place = [f(at // size * rates) for at in (row, column) for f in (torch.sin, torch.cos)]
            tokens.append(network.embed.weight @ patch.flatten() + network.embed.bias + torch.cat(place))
    x = torch.stack(tokens)
    for layer in network.layers:
        normed = layer_norm(x, (dim,), layer.attention_norm.weight, layer.attention_norm.bias)
        q, k, v = (normed @ layer.inputs.weight.T + layer.inputs.bias).split(dim, dim=1)
        heads = []
        for part in torch.arange(dim).chunk(layer.heads):
            weights = (q[:, part] @ k[:, part].T / math.sqrt(len(part))).softmax(dim=1)
            heads.append(weights @ v[:, part])
        x = x + torch.cat(heads, dim=1) @ layer.output.weight.T + layer.output.bias
        normed = layer_norm(x, (dim,), layer.norm.weight, layer.norm.bias)
        up, down = layer.feed_forward[0], layer.feed_forward[3]
        x = x + gelu(normed @ up.weight.T + up.bias) @ down.weight.T + down.bias
    return mlp(network.head, layer_norm(x[0], (dim,), network.norm.weight, network.norm.bias))


@pytest.mark.parametrize(
    ("spec", "by_hand"),
    [
        ("cnn:plain", cnn_by_hand),
        ("cnn:plain,layers=3,kernel=5", cnn_by_hand),
        ("transformer:plain,patch=2,dim=16", transformer_by_hand),
        ("transformer:plain,dim=32,heads=2", transformer_by_hand),
    ],
)
def test_plain_networks_are_the_formulas(spec, by_hand):
    network = made(spec)
    random = np.random.default_rng(0)
    widest = np.max(SIZES, axis=0)
    maps = torch.from_numpy(random.uniform(-1, 1, (len(SIZES), *widest)).astype(np.float32))
    rows, columns = (torch.arange(widest[i])[None] < torch.tensor([size[i] for size in SIZES])[:, None] for i in (0, 1))
    with torch.no_grad():
        found = network(maps, rows, columns)
        for score, cells, (a, b) in zip(found, maps, SIZES, strict=True):
            expected = by_hand(network, cells[:a, :b].clip(0, 1) * 2 - 1)
            torch.testing.assert_close(score[None], expected, rtol=1e-4, atol=1e-5)
