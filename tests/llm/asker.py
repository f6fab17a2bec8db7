"""A process that asks many prompts through a store, and writes down each answer as soon as it may be used.

python -m tests.llm.asker URL STORE OUT COUNT [--reverse]
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterable

from retrokit.llm import registry
from retrokit.llm.session import Session
from retrokit.llm.store import ResponseStore

CONCURRENCY = 8


async def ask_all(url: str, store: ResponseStore, out: str, prompts: Iterable[str]) -> None:
    """Append a JSON line of prompt and answer to ``out`` for each prompt."""
    stream = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async with Session(registry.create(f"openai:m,url={url}"), store, concurrency=CONCURRENCY) as session:

        async def one(prompt: str) -> None:
            answer = await session.ask(prompt)
            os.write(stream, (json.dumps([prompt, answer.text]) + "\n").encode())

        await asyncio.gather(*map(one, prompts))


if __name__ == "__main__":
    address, path, target, count = sys.argv[1:5]
    every = [f"prompt {number}" for number in range(int(count))]
    with ResponseStore(path) as opened:
        asyncio.run(ask_all(address, opened, target, every[::-1] if "--reverse" in sys.argv else every))
