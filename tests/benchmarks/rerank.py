"""How fast are the verifiers? Times on this machine; not part of the test suite.

    python tests/benchmarks/rerank.py                  F0 to F4 and the library's multi-vector scoring, 100 candidates,
                                                       and what each takes beyond making the token maps
    python tests/benchmarks/rerank.py data/scifact     MaxSim over 300 queries with 100 candidates each, tokens cached

The first needs no model: tokens are random. The second encodes SciFact once, which takes minutes; only the scoring from
cached tokens is timed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch
from sentence_transformers.util import mean_maxsim

from retrokit import encoders, reranking
from retrokit.data.beir import read_beir
from retrokit.reranking.maps import MapReranker, all_maps, pad_tokens

DIMENSION = 384
QUERY_TOKENS, CANDIDATES, CANDIDATE_TOKENS = 32, 100, 128
VERIFIERS = ("mean", "maxsim", "soft", "cnn", "cnn:plain", "transformer", "transformer:plain")


def unit(count: int, random: np.random.Generator) -> np.ndarray:
    """Random tokens of unit length."""
    tokens = random.normal(size=(count, DIMENSION)).astype(np.float32)
    return tokens / np.linalg.norm(tokens, axis=1, keepdims=True)


def seconds(run: Callable[[], object]) -> float:
    """Median processor time of ten runs after two that warm up: others on the machine do not count."""
    times = []
    for _ in range(12):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
    return median(times[2:])


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
    making = seconds(partial(all_maps, *blocks))
    print(f"{'the token maps alone':24} {1e3 * making:8.2f} ms")
    for spec in VERIFIERS:
        reranker = MapReranker("", encoder, reranking.verifiers.create(spec))

        def run(reranker: MapReranker = reranker) -> None:
            padded = pad_tokens(queries, encoder.device), pad_tokens(documents, encoder.device)
            reranker.score_blocks(*padded, rows, columns)

        taken, scoring = seconds(run), seconds(partial(reranker.score_blocks, *blocks, rows, columns))
        beyond = f"beyond the maps {1e3 * (scoring - making):.1f} ms"
        print(f"{spec:24} {1e3 * taken:8.2f} ms  ({taken / library:.2f} × the library's; {beyond})", flush=True)


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
    if len(sys.argv) > 1:
        of_a_set(*sys.argv[1:])
    else:
        of_one_query()
