"""What a GPU does: steps of training, encoding and exact search beside the library's own.

    python tests/benchmarks/gpu.py data/ml-abstracts/abstracts.jsonl [MODEL]

Training is that of training.py, in one process, in turns; its share is of the rate of large matrix products of the
same precision. Rates are medians.
"""

import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from encode import operations
from sentence_transformers import SentenceTransformer, util
from training import library, ours, write_pairs

import retrokit
from retrokit.data.jsonl import read_jsonl
from retrokit.encoders.precision import PRECISIONS
from retrokit.ranking.retrieval.exact import top_k

SHAPES = ((32, 128), (256, 128))
STEPS, TURNS = 40, 3
DOCUMENTS, QUERIES = 1_000_000, 1_000


def seconds(work: Callable[[], object]) -> float:
    """By the clock, the GPU waited for; the median of three after one."""
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def product_rate(precision: str) -> float:
    """Operations a second of matrix products of 8,192 by 8,192."""
    some, other = (torch.randn(8192, 8192, device="cuda").to(PRECISIONS[precision]) for _ in range(2))
    return 2 * 8192**3 * 10 / seconds(lambda: [some @ other for _ in range(10)])


def train(source: str, model: str) -> None:
    """A row for each precision and shape."""
    for precision, (batch, length) in product(("fp32", "bf16"), SHAPES):
        shape = {"batch": batch, "length": length, "mini_batch": 0, "steps": STEPS, "source": source}
        options = Namespace(**shape, model=model, precision=precision, device="cuda", what="retriever")
        found: dict[str, list[dict[str, float]]] = {"ours": [], "library": []}
        with tempfile.TemporaryDirectory() as name:
            pairs = write_pairs(options, Path(name))
            for turn, (way, run) in product(range(TURNS), (("ours", ours), ("library", library))):
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                found[way].append(run(pairs, Path(name, f"{way}-{turn}"), options))
            texts = [str(text) for _, row in read_jsonl(pairs) for text in row.values()]
        encoder = retrokit.encoder(f"{model}{',' if ':' in model else ':'}max_length={length}", device="cpu")
        per_pair = 3 * operations(encoder, texts) * 2 / len(texts)  # backward is twice forward
        rates = {way: statistics.median(one["pairs/s"] for one in kept) for way, kept in found.items()}
        memory = {way: max(one["above"] for one in kept) for way, kept in found.items()}
        for way, rate in rates.items():
            share = rate * per_pair / product_rate(precision)
            turns = ", ".join(f"{one['pairs/s'] / batch:.1f}" for one in found[way])
            print(
                f"{precision}, {batch} pairs of {length} tokens, {way}: {turns} steps/s, {share:.1%} of matrix "
                f"products, {memory[way]:,.0f} MiB; {rate / rates['library']:.2f} × the library",
                flush=True,
            )


def encode(source: str, model: str) -> None:
    """Abstracts a second."""
    texts = [str(row["text"]) for _, row in read_jsonl(source)][:4096]
    encoder = retrokit.encoder(model, device="cuda")
    for precision in ("fp32", "bf16"):
        theirs = SentenceTransformer(modules=list(retrokit.encoder(model, device="cuda").to_train().model))
        theirs.to("cuda", PRECISIONS[precision]).eval()
        ways: dict[str, Callable[[], np.ndarray]] = {"ours": partial(encoder.embed, texts, "document", precision)}
        for size in (32, 256):
            ways[f"library, batches of {size}"] = partial(theirs.encode, texts, batch_size=size)
        base = len(texts) / seconds(ways["library, batches of 32"])
        for name, way in ways.items():
            rate = len(texts) / seconds(way)
            print(f"encoding, {precision}, {name}: {rate:,.0f} texts/s, {rate / base:.2f} ×", flush=True)


def search() -> None:
    """The best ten, from vectors in the machine's memory."""
    random = np.random.default_rng(0)
    queries, documents = (random.normal(size=(n, 384)).astype(np.float32) for n in (QUERIES, DOCUMENTS))
    cosine = retrokit.similarity("cosine")
    found = top_k(cosine, queries, documents, 10, "cuda")
    on_gpu = [torch.from_numpy(vectors).cuda() for vectors in (queries, documents)]
    theirs = util.semantic_search(*on_gpu, top_k=10)
    same = np.mean([[hit["corpus_id"] for hit in hits] for hits in theirs] == np.asarray(found[1]))
    took = seconds(lambda: top_k(cosine, queries, documents, 10, "cuda"))
    theirs_took = seconds(lambda: util.semantic_search(*(torch.from_numpy(v).cuda() for v in (queries, documents))))
    print(f"search: ours {took:.2f} s, library {theirs_took:.2f} s, the same {same:.2%}")


def main(source: str, model: str = "minilm") -> None:
    for precision in ("fp32", "bf16"):
        print(f"{torch.cuda.get_device_name()}, {precision}: {product_rate(precision) / 1e12:.0f} TFLOP/s", flush=True)
    encode(source, model)
    search()
    train(source, model)


if __name__ == "__main__":
    main(*sys.argv[1:])
