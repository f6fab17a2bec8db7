"""How cost grows, and what the machine allows: encoding by length and batch, search by dimensions, memory bandwidth.

    python tests/benchmarks/growth.py [ENCODER]

Texts are made of one word, so that they have as many tokens as asked for. Every figure is the fastest of three rounds.
How search grows with documents is in ``search.py --documents``.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np
import torch
from torch import nn

import retrokit
from retrokit.encoders import engine
from retrokit.encoders.packed import computing
from retrokit.ranking.retrieval.exact import top_k

TOKENS = 32_768  # encoded for every length and batch
LENGTHS = (16, 32, 64, 128, 256)
BATCHES = (256, 512, 1024, 2048, 4096, 8192, 16_384)  # padded tokens
DIMENSIONS = (96, 192, 384, 768, 1536)
ROUNDS = 3


def seconds(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Of the fastest of some rounds, after one that warms up."""
    run()
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return min(taken)


@torch.inference_mode()
def machine() -> None:
    """Rates of matrix products as an encoder's and a search's, and of reading and writing memory."""
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for inner, outer in ((384, 384), (384, 1536), (1536, 384)):
            layer = computing(nn.Sequential(nn.Linear(inner, outer)), dtype)
            states = torch.randn(engine.CPU_TOKENS, inner).to(dtype)
            rate = 2 * inner * outer * len(states) / seconds(partial(layer, states), 20)
            print(f"packed linear layer {inner} x {outer}, {name}: {rate / 1e9:.0f} GFLOP/s")
    queries, documents, scores = torch.randn(1024, 384), torch.randn(16_384, 384), torch.empty(1024, 16_384)
    taken = seconds(partial(torch.mm, queries, documents.T, out=scores), 20)
    print(f"a search's product 1,024 x 384 x 16,384, fp32: {2 * 1024 * 384 * 16_384 / taken / 1e9:.0f} GFLOP/s")
    large, other = torch.zeros(2**26), torch.zeros(2**26)  # 256 MiB each
    size = large.nbytes / 2**30
    print(f"memory, read: {size / seconds(large.sum):.1f} GiB/s")
    print(f"memory, copied: {2 * size / seconds(lambda: other.copy_(large)):.1f} GiB/s, both ways counted")
    print(f"memory, fresh: {size / seconds(lambda: torch.ones(2**26)):.1f} GiB/s")


def encoding(name: str) -> None:
    """Tokens per second by the length of texts, and by padded tokens of a batch."""
    encoder = retrokit.encoder(name, device="cpu")
    for precision in ("fp32", "bf16"):
        for length in LENGTHS:
            texts = [" ".join(["word"] * (length - 2))] * (TOKENS // length)  # and two special tokens
            rate = len(texts) / seconds(partial(encoder.embed, texts, "document", precision))
            print(f"encode, {precision}, {length} tokens: {rate:.1f} texts/s, {rate * length:.0f} tokens/s")
    texts = [" ".join(["word"] * 126)] * (TOKENS // 128)
    for batch in BATCHES:
        with mock.patch.object(engine, "CPU_TOKENS", batch):
            rate = TOKENS / seconds(partial(encoder.embed, texts, "document", "bf16"))
        print(f"encode, bf16, 128 tokens, batches of {batch:,} tokens: {rate:.0f} tokens/s")


def search() -> None:
    """Seconds by dimensions: 100,000 documents, 1,000 queries, the best 100."""
    random = np.random.default_rng(0)
    for dimension in DIMENSIONS:
        queries = random.standard_normal((1000, dimension), dtype=np.float32)
        documents = random.standard_normal((100_000, dimension), dtype=np.float32)
        cosine = retrokit.similarity("cosine")
        taken = seconds(partial(top_k, cosine, queries, documents, 100))
        print(f"search, {dimension} dimensions: {taken:.2f} s")


if __name__ == "__main__":
    os.environ["RETROKIT_CACHE"] = "off"
    machine()
    encoding(sys.argv[1] if len(sys.argv) > 1 else "minilm")
    search()
