"""How many answers a second the client of language models stores, and in how much memory.

    python tests/benchmarks/llm.py [--queries 2000] [--calls 10] [--concurrency 64]

Against a server on the same machine, in a process of its own, that answers at once; the aim is 300 calls a second on
two cores, in memory that does not grow with the number of queries. Then once more, when every answer is in the store.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from retrokit.llm import registry
from retrokit.llm.session import Session, run_all
from retrokit.llm.store import ResponseStore

PASSAGE = "The cat sleeps under the house near the river, and the dog sees what the bird finds. " * 12


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def asked(url: str, store: ResponseStore, queries: int, calls: int, concurrency: int) -> dict[str, int]:
    """Ask ``calls`` questions one after another about each of ``queries``, and print the memory at each tenth."""
    async with Session(registry.create(f"openai:m,url={url}"), store, concurrency=concurrency) as session:

        async def one(query: int) -> int:
            length = 0
            for call in range(calls):
                length += len((await session.ask(f"Query {query}, question {call}.\n{PASSAGE}")).text)
            return length

        done = 0
        async for _ in run_all(one, range(queries), 2 * concurrency):
            done += 1
            if done % max(1, queries // 5) == 0:
                print(f"  {done * calls:>7,} calls: {megabytes():.0f} MB")
        return session.counts


def measure(url: str, store: ResponseStore, given: argparse.Namespace) -> None:
    """One pass over all queries."""
    start, processor = time.perf_counter(), time.process_time()
    counts = asyncio.run(asked(url, store, given.queries, given.calls, given.concurrency))
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    answers = counts["calls"] + counts["from_store"]
    print(
        f"{counts['calls']:,} calls, {counts['from_store']:,} from the store, {counts['retries']:,} retries: "
        f"{seconds:.1f} s, {answers / seconds:.0f} a second, {1000 * processor / answers:.2f} ms of processor each"
    )


def main() -> None:
    """Start the server, and measure twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=64)
    given = parser.parse_args()
    command = [sys.executable, "-m", "tests.llm.server", "--forget"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
            with ResponseStore(Path(folder) / "answers.db") as store:
                measure(url, store, given)
                measure(url, store, given)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
