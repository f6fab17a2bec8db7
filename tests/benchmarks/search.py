"""Exact search under each similarity against faiss's flat index, and distances against PyTorch's broadcast.

    python tests/benchmarks/search.py [--documents 100000 ...] [--queries 1000] [--dimension 384] [--k 100]
    python tests/benchmarks/search.py --queries 100 --only "faiss IndexFlatL2" cosine l2 --turns
    python tests/benchmarks/search.py --documents 125000 250000 500000 1000000 --only cosine
    python tests/benchmarks/search.py --documents 8800000 --file /tmp/documents.npy --only cosine --rounds 1

Every figure is the best of ``--rounds`` (of the broadcast, one round), in the processor's seconds too: those hold on a
busy machine. Memory is the largest amount of a process of its own above that of the data, pages of files left out. With
``--turns`` all ways run in one process, by turns. With ``--file`` the documents are float16 in that file, which is made
where it is missing, and mapped into memory.
"""

import argparse
import multiprocessing
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

import retrokit
from retrokit.ranking.retrieval.exact import top_k

FACTORABLE = ("cosine", "dot", "qnorm", "dnorm", "learn", "sfs:16")
DISTANCES = ("l2", "l1", "sfs:size=16,base=l2")
FAISS, FAISS_L2 = "faiss IndexFlatIP", "faiss IndexFlatL2"
BROADCAST, PRODUCT = "broadcast sfs:size=16,base=l2", "matrix product alone"
QUERIES_AT_ONCE, DOCUMENTS_AT_ONCE = 64, 1000  # of the broadcast, whose differences would not fit otherwise


def data(options: argparse.Namespace, documents: int) -> tuple[np.ndarray, np.ndarray]:
    """Random queries and documents, float32, or float16 in a file."""
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((options.queries, options.dimension), dtype=np.float32)
    if options.file is None:
        return queries, generator.standard_normal((documents, options.dimension), dtype=np.float32)
    if not options.file.exists():
        stored = np.lib.format.open_memmap(options.file, "w+", np.float16, (documents, options.dimension))
        for start in range(0, documents, 100_000):
            part = stored[start : start + 100_000]
            part[:] = torch.randn(part.shape, generator=torch.Generator().manual_seed(start)).half().numpy()
        stored.flush()
    return queries, np.load(options.file, mmap_mode="r")


@contextmanager
def measured_memory() -> Iterator[list[float]]:
    """MiB of memory that is no page of a file: at the start, and the most since, as it was every few milliseconds."""
    status = Path("/proc/self/status")

    def now() -> float:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read_text())[1]) / 1024

    found, done = [now(), 0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            found[1] = max(found[1], now())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


def by_faiss(queries: np.ndarray, documents: np.ndarray, k: int, kind: str) -> None:
    """By faiss's flat index of this kind, which is made as well."""
    import faiss

    index = getattr(faiss, kind)(documents.shape[1])
    index.add(documents)
    index.search(queries, k)


def by_product(queries: np.ndarray, documents: np.ndarray) -> None:
    """The matrix product alone, into memory that is there: what no exact search goes below."""
    q, d = torch.from_numpy(queries), torch.from_numpy(documents)
    scores = torch.empty(len(q), 16_384)
    for part in d.split(scores.shape[1]):
        torch.mm(q, part.T, out=scores[:, : len(part)])


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
        FAISS: lambda q, d: by_faiss(q, d, options.k, "IndexFlatIP"),
        FAISS_L2: lambda q, d: by_faiss(q, d, options.k, "IndexFlatL2"),
        BROADCAST: lambda q, d: by_broadcast(q, d, options.k),
        PRODUCT: by_product,
    }
    for spec in (*FACTORABLE, *DISTANCES):
        found[spec] = lambda q, d, spec=spec: top_k(retrokit.similarity(spec), q, d, options.k)
    return {name: way for name, way in found.items() if not options.only or name in options.only}


def measure(
    name: str,
    documents: int,
    options: argparse.Namespace,
    answer: "multiprocessing.SimpleQueue[tuple[float, float, float]]",
) -> None:
    """Best wall-clock and processor seconds, and MiB above the data."""
    torch.set_num_threads(options.threads)
    queries, stored = data(options, documents)
    way = ways(options)[name]
    with torch.inference_mode():
        way(queries[:10], stored[:1000])
        best = [float("inf"), float("inf")]
        with measured_memory() as memory:
            for _ in range(1 if name == BROADCAST else options.rounds):
                start = time.perf_counter(), time.process_time()
                way(queries, stored)
                taken = time.perf_counter() - start[0], time.process_time() - start[1]
                best = [min(a, b) for a, b in zip(best, taken, strict=True)]
    answer.put((best[0], best[1], memory[1] - memory[0]))


def by_turns(documents: int, options: argparse.Namespace) -> None:
    """Print the best seconds of each way, in one process."""
    torch.set_num_threads(options.threads)
    queries, stored = data(options, documents)
    best = {name: [float("inf"), float("inf")] for name in ways(options)}
    for _ in range(options.rounds):
        for name, way in ways(options).items():
            start = time.perf_counter(), time.process_time()
            way(queries, stored)
            taken = time.perf_counter() - start[0], time.process_time() - start[1]
            best[name] = [min(a, b) for a, b in zip(best[name], taken, strict=True)]
    for name, seconds in best.items():
        print("| {} | {:,} | {:.2f} | {:.2f} | |".format(name, documents, *seconds), flush=True)


def main() -> None:
    """Measure each way in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000])
    for name, default in (("queries", 1000), ("dimension", 384), ("k", 100), ("threads", 2), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", nargs="+", help="of the ways, those")
    parser.add_argument("--turns", action="store_true", help="all in one process, by turns; no memory is measured")
    parser.add_argument("--file", type=Path, help="the documents, float16")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    print("| way | documents | seconds | processor seconds | MiB above the data |\n|---|---:|---:|---:|---:|")
    if options.turns:
        for documents in options.documents:
            by_turns(documents, options)
        return
    for name in ways(options):
        for documents in options.documents:
            answer = context.SimpleQueue()
            process = context.Process(target=measure, args=(name, documents, options, answer))
            process.start()
            process.join()
            print("| {} | {:,} | {:.2f} | {:.2f} | {:.0f} |".format(name, documents, *answer.get()), flush=True)


if __name__ == "__main__":
    main()
