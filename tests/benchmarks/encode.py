"""Documents per second: retrokit, the library's default, and what the machine's matrix products allow.

    python tests/benchmarks/encode.py data/scifact [DOCUMENTS [ROUNDS [ENCODER...]]]

All encode the same documents, in turns; the fastest round counts, for other work on the machine only makes it slower.
Each ENCODER is one more way, in the precision that it has.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import nn

import retrokit
from retrokit.data.beir import corpus_file
from retrokit.data.corpus import read_corpus
from retrokit.encoders import engine
from retrokit.encoders import precision as precisions
from retrokit.encoders.base import Encoder
from retrokit.encoders.packed import computing

ENCODER = "minilm"
PRECISIONS = ("fp32", "bf16")


def operations(encoder: Encoder, texts: list[str]) -> float:
    """Floating-point operations of all matrix products for ``texts``: two a weight and token, and attention's own."""
    features = encoder.to_train().model.preprocess(texts, task="document")
    lengths = features["attention_mask"].sum(dim=1).double()
    transformer = encoder.to_train().model[0].model
    layers = [part for part in transformer.encoder.modules() if isinstance(part, nn.Linear)]
    weights = sum(layer.weight.numel() for layer in layers)
    attention = 4 * transformer.config.hidden_size * transformer.config.num_hidden_layers
    return float((2 * weights * lengths + attention * lengths**2).sum())


@torch.inference_mode()
def product_rate(precision: str) -> float:
    """Operations a second of a packed linear layer as the encoder's largest: the fastest of 30."""
    dtype = precisions.PRECISIONS[precision]
    layer = computing(nn.Sequential(nn.Linear(384, 1536)), dtype)
    states = torch.randn(engine.CPU_TOKENS, 384).to(dtype)
    seconds = []
    for _ in range(30):
        began = time.perf_counter()
        layer(states)
        seconds.append(time.perf_counter() - began)
    return 2 * 384 * 1536 * engine.CPU_TOKENS / min(seconds)


def _cosines(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(some, axis=1) * np.linalg.norm(others, axis=1)
    return np.asarray((some * others).sum(axis=1) / lengths)


def main(folder: str, count: int = 1000, rounds: int = 3, others: Sequence[str] = ()) -> None:
    """Print a row per way of encoding."""
    os.environ["RETROKIT_CACHE"] = "off"
    documents = list(read_corpus(corpus_file(folder)))
    step = max(1, len(documents) // count)  # all lengths, in the file's order
    texts = [document.full_text for document in documents[::step]][:count]
    encoder = retrokit.encoder(ENCODER, device="cpu")
    library = SentenceTransformer(modules=list(encoder.to_train().model), device="cpu")
    ways: dict[str, Callable[[list[str]], np.ndarray]] = {
        "library, batch 32, fp32": lambda texts: library.encode(texts, batch_size=32),
        "retrokit, fp32": lambda texts: encoder.embed(texts, "document", "fp32"),
        "retrokit, bf16": lambda texts: encoder.embed(texts, "document", "bf16"),
    }
    for spec in others:
        ways[spec] = partial(retrokit.encoder(spec, device="cpu").embed, role="document")
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    made: dict[str, np.ndarray] = {}
    rates: dict[str, float] = dict.fromkeys(PRECISIONS, 0.0)
    for way in ways.values():
        way(texts[:8])
    for _ in range(rounds):
        rates = {precision: max(rate, product_rate(precision)) for precision, rate in rates.items()}
        for name, way in ways.items():
            began = time.perf_counter()
            made[name] = way(texts)
            seconds[name].append(time.perf_counter() - began)
    first, work = next(iter(ways)), operations(encoder, texts)
    print(f"{len(texts)} documents, {work / len(texts) / 1e9:.2f} GFLOP each, {torch.get_num_threads()} threads")
    for name in ways:
        rate, ratio = len(texts) / min(seconds[name]), min(seconds[first]) / min(seconds[name])
        difference = np.abs(made[name] - made[first]).max()
        bound = len(texts) * rates.get(name.rpartition(" ")[2], float("nan")) / work
        print(
            f"{name:24} {rate:6.1f} documents/s  {ratio:5.2f} x the library  {rate / bound:4.0%} of the bound  "
            f"largest difference {difference:.1e}  least cosine {_cosines(made[name], made[first]).min():.4f}"
        )
    for precision, rate in rates.items():
        bound = len(texts) * rate / work
        print(f"{precision}: matrix products {rate / 1e9:.0f} GFLOP/s, so {bound:.1f} documents/s at most")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]), others=sys.argv[4:])
