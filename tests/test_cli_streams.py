"""Standard streams that are closed or full: one line where a stream is left for it, exit code 2, no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = "retrokit: standard output: could not be written: No space left on device\n"
CLOSED = "retrokit: standard output: is closed; send it to a file, or to /dev/null\n"
NO_INPUT = "retrokit: standard input: could not be read: it is closed\n"


@pytest.mark.parametrize(
    ("words", "streams", "code", "said"),
    [
        ("--version", ">/dev/full", 2, FULL),
        ("finetune --help", ">/dev/full", 2, FULL),
        ("cache", ">/dev/full", 2, FULL),
        ("augment crops texts.jsonl", ">/dev/full", 2, FULL),
        ("--version", ">&-", 2, CLOSED),
        ("cache", ">&-", 2, CLOSED),
        ("augment crops texts.jsonl", ">&-", 2, CLOSED),
        ("augment crops -", "<&-", 2, NO_INPUT),
        ("augment crops texts.jsonl -o out.jsonl", "<&-", 0, "1 text: 1 gave pairs\n"),
        ("augment crops texts.jsonl -o out.jsonl", "2>&-", 0, ""),
        ("augment crops texts.jsonl -o out.jsonl", "2>/dev/full", 0, ""),
        ("augment crops gone.jsonl", "2>/dev/full", 2, ""),
        ("augment crops gone.jsonl", "2>&-", 2, ""),
        ("augment crops gone.jsonl", "<&- >&- 2>&-", 2, ""),
        ("--version", "| true", 0, ""),
    ],
)
def test_closed_and_full_streams(tmp_path: Path, words: str, streams: str, code: int, said: str) -> None:
    long = "This is a sentence of more than a hundred letters, which is as long as it has to be to be kept as a part"
    text = ". ".join([f"{long}, the {number}" for number in ("first", "second", "third", "fourth")])
    (tmp_path / "texts.jsonl").write_text(f'{{"text": "{text}"}}\n')
    line = f'"{sys.executable}" -m retrokit {words} {streams}'
    environment = {**os.environ, "RETROKIT_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, said)
