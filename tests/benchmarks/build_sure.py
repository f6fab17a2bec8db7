"""Calls a second of a whole build of a SURE benchmark, 64 at once, against a server on the same machine.

    python tests/benchmarks/build_sure.py [QUERIES]

The server answers by rules, at once; it is a process of its own. Memory is the peak of the building process.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from retrokit.sure.build import build_sure
from tests.sure.pretending import write_beir_folder

SERVER = """
import asyncio
from tests.llm.server import ChatServer, Plan, prompt_of
from tests.sure.pretending import by_rules
server = ChatServer(Plan(lambda body: by_rules(prompt_of(body)), log=False))
asyncio.run(server.serve(lambda port: print(port, flush=True)))
"""


def main(queries: int = 2000) -> None:
    """Print the rate and the memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = write_beir_folder(folder / "data", queries)
        server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        try:
            assert server.stdout is not None
            llm = f"openai:m,url=http://127.0.0.1:{server.stdout.readline().strip()}/v1"
            began = time.perf_counter()
            built = build_sure(str(data), llm=llm, output=str(folder / "built"), concurrency=64)
            seconds = time.perf_counter() - began
        finally:
            server.kill()
    calls, peak = built.counts["calls"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{queries} queries, {calls} calls in {seconds:.1f} s: {calls / seconds:.0f} a second, {peak} MB")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
