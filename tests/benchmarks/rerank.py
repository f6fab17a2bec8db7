"""How fast are the verifiers? Times on this machine; not part of the test suite.

    python tests/benchmarks/rerank.py                  F0 to F4 and the library's multi-vector scoring, 100 candidates,
                                                       and what each takes beyond making the token maps
    python tests/benchmarks/rerank.py batches          32 queries of 20 candidates one after another, and in one call
    python tests/benchmarks/rerank.py precision        the default verifier in fp32 and bf16: time, scores, area
    python tests/benchmarks/rerank.py pylate           MaxSim beside PyLate's (`pip install pylate`), in turns
    python tests/benchmarks/rerank.py data/scifact     MaxSim over 300 queries with 100 candidates each, tokens cached

The last encodes SciFact once, which takes minutes; only the scoring from cached tokens is timed. Without a model,
tokens are random.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch
from sentence_transformers.util import mean_maxsim

from retrokit import encoders
from retrokit.data.beir import read_beir
from retrokit.data.jsonl import read_jsonl
from retrokit.metrics.separation import roc_auc
from retrokit.ranking import reranking
from retrokit.ranking.reranking.maps import MapReranker, TokenBlock, pad_tokens, pair_maps
from retrokit.similarities.base import Role

DIMENSION = 384
QUERY_TOKENS, CANDIDATES, CANDIDATE_TOKENS = 32, 100, 128
TURNS = 5
VERIFIERS = ("mean", "maxsim", "soft", "cnn", "cnn:plain", "transformer", "transformer:plain")


def unit(count: int, random: np.random.Generator) -> np.ndarray:
    """Random tokens of unit length."""
    tokens = random.normal(size=(count, DIMENSION)).astype(np.float32)
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def seconds(run: Callable[[], object]) -> float:
    """Of ten runs after two that warm up: on one thread the median processor time, in which others on the machine do
    not count; on several the shortest time, for theirs adds up the waiting."""
    clock, one_of = (time.process_time, median) if torch.get_num_threads() == 1 else (time.perf_counter, min)
    times = []
    for _ in range(12):
        began = clock()
        run()
        times.append(clock() - began)
    return one_of(times[2:])


@torch.inference_mode()
def of_one_query() -> None:
    """One query's candidates, from token embeddings to scores."""
    random = np.random.default_rng(0)
    queries = [unit(QUERY_TOKENS, random)]
    documents = [unit(CANDIDATE_TOKENS, random) for _ in range(CANDIDATES)]
    encoder = encoders.registry.create("static:dim=8", device="cpu")
    rows, columns = np.zeros(CANDIDATES, dtype=np.int64), np.arange(CANDIDATES)
    tensors = [torch.from_numpy(part) for part in queries], [torch.from_numpy(part) for part in documents]
    library = seconds(lambda: mean_maxsim(*tensors))
    print(f"{'library, mean_maxsim':24} {1e3 * library:8.2f} ms")
    blocks = pad_tokens(queries, encoder.device), pad_tokens(documents, encoder.device)
    making = seconds(lambda: pair_maps(blocks[0].at(torch.from_numpy(rows)), blocks[1]))
    print(f"{'the token maps alone':24} {1e3 * making:8.2f} ms")
    for spec in VERIFIERS:
        reranker = MapReranker("", encoder, reranking.verifiers.create(spec))

        def run(reranker: MapReranker = reranker) -> None:
            padded = pad_tokens(queries, encoder.device), pad_tokens(documents, encoder.device)
            reranker.score_blocks(*padded, rows, columns)

        taken, scoring = seconds(run), seconds(partial(reranker.score_blocks, *blocks, rows, columns))
        beyond = f"beyond the maps {1e3 * (scoring - making):.1f} ms"
        print(f"{spec:24} {1e3 * taken:8.2f} ms  ({taken / library:.2f} × the library's; {beyond})", flush=True)


@torch.inference_mode()
def of_batches() -> None:
    """Several queries' candidates, of different lengths: a call for each query, and one for all."""
    random = np.random.default_rng(0)
    queries = [unit(int(random.integers(8, 32)), random) for _ in range(32)]
    documents = sorted((unit(int(random.integers(64, 128)), random) for _ in range(400)), key=len)
    candidates = np.stack([random.choice(400, 20, replace=False) for _ in queries])
    encoder = encoders.registry.create("static:dim=8", device="cpu")

    def score(
        reranker: MapReranker, some: list[np.ndarray], among: list[np.ndarray], columns: np.ndarray
    ) -> np.ndarray:
        padded = pad_tokens(some, encoder.device), pad_tokens(among, encoder.device)
        return reranker.score_blocks(*padded, np.repeat(np.arange(len(some)), 20), columns)

    for spec in ("maxsim", "cnn", "transformer"):
        reranker = MapReranker("", encoder, reranking.verifiers.create(spec))

        def one_by_one(reranker: MapReranker = reranker) -> np.ndarray:
            parts = zip(queries, candidates, strict=True)
            found = [score(reranker, [query], [documents[j] for j in row], np.arange(20)) for query, row in parts]
            return np.concatenate(found)

        together = partial(score, reranker, queries, documents, candidates.ravel())
        apart = np.abs(one_by_one() - together()).max()
        times = f"one by one {1e3 * seconds(one_by_one):.0f} ms, together {1e3 * seconds(together):.0f} ms"
        print(f"{spec:12} {times}; scores differ by {apart:.1e} at most", flush=True)


class TokensReranker(MapReranker):
    """MaxSim over token embeddings that are there already, by text."""

    def __init__(self, embeddings: dict[str, np.ndarray]) -> None:
        super().__init__(
            "", encoders.registry.create("static:dim=8", device="cpu"), reranking.verifiers.create("maxsim")
        )
        self.embeddings = embeddings

    def tokens(self, texts: Sequence[str], role: Role) -> TokenBlock:
        return pad_tokens([self.embeddings[text] for text in texts], self.device)


def of_pylate() -> None:
    """The scores of lists by both, each way from the same token embeddings."""
    from pylate.rank import rerank
    from pylate.scores import colbert_scores_pairwise

    random = np.random.default_rng(0)
    lengths = random.integers(8, 33, 32), random.integers(32, 257, 1000)
    queries, documents = ({f"{i:04} " * count: unit(count, random) for i, count in enumerate(side)} for side in lengths)
    names = list(documents)
    lists = [[names[j] for j in random.choice(len(names), CANDIDATES, replace=False)] for _ in queries]
    pairs = [(query, document) for query, candidates in zip(queries, lists, strict=True) for document in candidates]
    reranker = TokensReranker(queries | documents)

    def of_lists() -> np.ndarray:
        ranked = rerank(lists, list(queries.values()), [[documents[name] for name in names] for names in lists])
        scores = [{row["id"]: row["score"] for row in rows} for rows in ranked]
        return np.array([row[name] for row, names in zip(scores, lists, strict=True) for name in names])

    def of_pairs() -> np.ndarray:
        sides = [queries[query] for query, _ in pairs], [documents[document] for _, document in pairs]
        return colbert_scores_pairwise(*sides).numpy()

    ways: dict[str, Callable[[], np.ndarray]] = {
        "retrokit, score_pairs": lambda: reranker.score_pairs(*zip(*pairs, strict=True)),
        "pylate, rank.rerank": of_lists,
        "pylate, colbert_scores_pairwise": of_pairs,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    scores = {}
    for _ in range(TURNS + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            scores[name] = way()
            times[name].append(time.perf_counter() - began)
    first, *others = ways
    of_tokens = np.array([len(queries[query]) for query, _ in pairs])
    for name in ways:
        taken = median(times[name][1:])
        print(f"{name:32} {taken:.3f} s, {taken / median(times[first][1:]):.2f} × retrokit's")
    for name in others:
        apart = np.abs(scores[first] - scores[name] / of_tokens).max()
        print(f"{name}: scores, divided by the query's tokens, differ by {apart:.1e} at most")


def of_precisions() -> None:
    """The default verifier on written paraphrases and near-misses, from texts to scores."""
    path = Path(__file__).parents[2] / "examples" / "near_misses" / "test.jsonl"
    rows = [row for _, row in read_jsonl(path)]
    queries = [row["text"] for row in rows] * 2
    documents = [row["positive"] for row in rows] + [row["near_miss"] for row in rows]
    scores = {}
    for precision in ("fp32", "bf16"):
        reranker = reranking.registry.create(f"default:precision={precision}", device="cpu")
        scores[precision] = reranker.score_pairs(queries, documents)
        area = roc_auc(*np.split(scores[precision], 2))
        taken = seconds(partial(reranker.score_pairs, queries, documents))
        print(f"{precision}: {len(queries)} pairs in {taken:.2f} s, area {area:.5f}", flush=True)
    moved = np.abs(scores["fp32"] - scores["bf16"])
    print(f"scores differ by {moved.mean():.4f} on average, by {moved.max():.3f} at most")


def of_a_set(folder: str, encoder: str = "minilm") -> None:
    """A whole data set's stage 2, with the first 100 documents by cosine as candidates."""
    data = read_beir(folder, "test")
    loaded = encoders.registry.create(encoder, device="cpu")
    queries, documents = (
        embedded / np.linalg.norm(embedded, axis=1, keepdims=True)
        for embedded in (loaded.embed(data.queries, "query"), loaded.embed(data.documents, "document"))
    )
    best = np.argsort(-(queries @ documents.T), axis=1)[:, :100]
    pairs = [(query, data.documents[j]) for query, row in zip(data.queries, best, strict=True) for j in row]
    with tempfile.TemporaryDirectory() as cache:
        spec = f"maxsim:{encoder},precision=auto,cache={cache}"
        reranking.registry.create(spec, device="cpu").score_pairs(*zip(*pairs, strict=True))
        reranker = reranking.registry.create(spec, device="cpu")
        began = time.perf_counter()
        reranker.score_pairs(*zip(*pairs, strict=True))
        print(f"{len(pairs):,} pairs of {len(data.queries)} queries: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    print(f"{torch.get_num_threads()} threads")
    if sys.argv[1:] in (["batches"], ["precision"], ["pylate"]):
        {"batches": of_batches, "precision": of_precisions, "pylate": of_pylate}[sys.argv[1]]()
    elif len(sys.argv) > 1:
        of_a_set(*sys.argv[1:])
    else:
        of_one_query()
