"""How cost grows, and what the machine allows: encoding by length and batch, search by dimensions, memory bandwidth.

    python tests/benchmarks/growth.py [ENCODER]
    python tests/benchmarks/growth.py --documents 10000 100000 1000000

Texts are made of one word, so that they have as many tokens as asked for. Every figure is the fastest of three rounds.
How search grows with documents is in ``search.py --documents``.

The second runs whole commands on a corpus of random words, with a table of 64 dimensions: the processor's seconds, the
most memory that is no page of a file, and how both grow, as a power of the documents.
"""

import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn

import retrokit
from retrokit.encoders import engine
from retrokit.encoders.packed import computing
from retrokit.ranking.retrieval.exact import top_k
from tests.benchmarks.index_folder import spent

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


def corpus(folder: Path, documents: int) -> None:
    """A BEIR folder of documents of eight words, a pair of training data for every tenth, and as many texts of four
    sentences, to crop."""
    chance = random.Random(0)
    words = ["".join(chance.choices("aeiourstln", k=6)) for _ in range(20_000)]
    (folder / "qrels").mkdir(parents=True)
    names = ("corpus", "pairs", "texts")
    with ExitStack() as files:
        texts, pairs, long_texts = (files.enter_context((folder / f"{name}.jsonl").open("w")) for name in names)
        for number in range(documents):
            text = " ".join(chance.choices(words, k=8))
            texts.write(json.dumps({"_id": f"d{number}", "title": "", "text": text}) + "\n")
            sentences = [" ".join(chance.choices(words, k=16)).capitalize() for _ in range(4)]
            long_texts.write(json.dumps({"text": ". ".join(sentences)}) + "\n")
            if number % 10 == 0:
                pairs.write(json.dumps({"anchor": text[:20], "positive": text}) + "\n")
    queries = [{"_id": f"q{number}", "text": " ".join(chance.choices(words, k=5))} for number in range(100)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    judgements = [f"q{number}\td{number}\t1\n" for number in range(100)]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(judgements))


def commands(counts: list[int]) -> None:
    """The processor's seconds and MiB of commands on so many documents, and the exponents from one to the next."""
    taken: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        for count in counts:
            folder = Path(name) / str(count)
            corpus(folder, count)
            table, texts, output = "static:dim=64", folder / "corpus.jsonl", folder / "out"
            mine = ["augment", "mine", folder / "pairs.jsonl", "--encoder", table, "--corpus", texts]
            runs = {
                "search": ["search", table, "--corpus", texts, "--query", "one of them"],
                "eval": ["eval", table, "--on", f"beir:{folder}"],
                "export": ["export", table, "--on", texts, "-o", output / "export"],
                "augment crops": ["augment", "crops", folder / "texts.jsonl", "-o", output / "crops.jsonl"],
                "augment mine": [*mine, "-o", output / "mined.jsonl"],
            }
            for command, words in runs.items():
                output.mkdir(exist_ok=True)
                _, seconds, memory = spent(*words)
                rows = taken.setdefault(command, [])
                rows.append((seconds, memory))
                line = f"{command}, {count:,} documents: {seconds:.1f} s of the processor, {memory:.0f} MiB"
                if len(rows) > 1:
                    factor = math.log(count / counts[len(rows) - 2])
                    growth = [math.log(after / before) / factor for before, after in zip(*rows[-2:], strict=True)]
                    line += f"; exponents {growth[0]:.2f} and {growth[1]:.2f}"
                print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--documents"]:
        commands([int(count) for count in sys.argv[2:]])
        sys.exit()
    os.environ["RETROKIT_CACHE"] = "off"
    machine()
    encoding(sys.argv[1] if len(sys.argv) > 1 else "minilm")
    search()
