"""Exact search under each similarity against faiss's flat index, and distances against PyTorch's broadcast.

    python tests/benchmarks/search.py [--documents 100000] [--queries 1000] [--dimension 384] [--k 100] [--threads 2]

Every figure is the best of ``--rounds``, in the processor's seconds too: those hold on a busy machine. Memory is the
largest amount above that of the data, measured in a process of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np
import torch

import retrokit
from retrokit.search import top_k

FACTORABLE = ("cosine", "dot", "qnorm", "dnorm", "learn", "sfs:16")
DISTANCES = ("l2", "l1", "sfs:size=16,base=l2")
QUERIES_AT_ONCE, DOCUMENTS_AT_ONCE = 64, 1000  # of the broadcast, whose differences would not fit otherwise


def data(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Random queries and documents, float32."""
    generator = np.random.default_rng(0)
    return tuple(
        generator.standard_normal((count, options.dimension), dtype=np.float32)
        for count in (options.queries, options.documents)
    )


def by_faiss(queries: np.ndarray, documents: np.ndarray, k: int) -> None:
    """Inner product by faiss, its index made as well."""
    import faiss

    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    index.search(queries, k)


def by_broadcast(queries: np.ndarray, documents: np.ndarray, k: int) -> None:
    """``sfs:size=16,base=l2`` straight from its definition, a part of the queries and documents at a time."""
    q, d = (torch.from_numpy(side).unflatten(-1, (-1, 16)) for side in (queries, documents))
    scores = torch.empty(len(q), len(d))
    for i in range(0, len(q), QUERIES_AT_ONCE):
        for j in range(0, len(d), DOCUMENTS_AT_ONCE):
            difference = q[i : i + QUERIES_AT_ONCE, None] - d[None, j : j + DOCUMENTS_AT_ONCE]
            scores[i : i + QUERIES_AT_ONCE, j : j + DOCUMENTS_AT_ONCE] = -difference.norm(dim=-1).mean(-1)
    scores.topk(k, dim=1)


def ways(options: argparse.Namespace) -> dict[str, Callable[[np.ndarray, np.ndarray], object]]:
    """What is measured, by name."""
    found: dict[str, Callable[[np.ndarray, np.ndarray], object]] = {
        "faiss IndexFlatIP": lambda q, d: by_faiss(q, d, options.k),
        "broadcast sfs:size=16,base=l2": lambda q, d: by_broadcast(q, d, options.k),
    }
    for spec in (*FACTORABLE, *DISTANCES):
        found[spec] = lambda q, d, spec=spec: top_k(retrokit.similarity(spec), q, d, options.k)
    return found


def measure(
    name: str, options: argparse.Namespace, answer: multiprocessing.SimpleQueue[tuple[float, float, float]]
) -> None:
    """Best wall-clock and processor seconds, and MiB above the data."""
    torch.set_num_threads(options.threads)
    queries, documents = data(options)
    way = ways(options)[name]
    way(queries[:10], documents[:1000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best = [float("inf"), float("inf")]
    for _ in range(options.rounds):
        start = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            way(queries, documents)
        best = [min(a, b - c) for a, b, c in zip(best, (time.perf_counter(), time.process_time()), start, strict=True)]
    answer.put((best[0], best[1], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))


def main() -> None:
    """Measure each way in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("documents", 100_000), ("queries", 1000), ("dimension", 384), ("k", 100), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    print("| way | seconds | processor seconds | MiB above the data |\n|---|---:|---:|---:|")
    for name in ways(options):
        answer = context.SimpleQueue()
        process = context.Process(target=measure, args=(name, options, answer))
        process.start()
        process.join()
        print("| {} | {:.2f} | {:.2f} | {:.0f} |".format(name, *answer.get()), flush=True)


if __name__ == "__main__":
    main()
