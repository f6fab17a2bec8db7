"""The commands where the modules and functions that only POSIX systems have are missing, as on Windows."""

import json
import os
import subprocess
import sys
from pathlib import Path

from retrokit.data.jsonl import write_jsonl
from tests.llm.server import ChatServer, Plan, prompt_of
from tests.models import sentences
from tests.sure.pretending import by_rules, write_beir_folder

WITHOUT_POSIX = """
import _thread, json, os, signal, sys, threading, time
from pathlib import Path

import openai, sentence_transformers, transformers
from transformers import Trainer  # libraries know their systems by name: they are imported before

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
missing = {
    os: ["fchmod", "fork", "geteuid", "getpgid", "getuid", "killpg", "sched_getaffinity", "setsid"],
    signal: ["ITIMER_REAL", "SIGALRM", "SIGHUP", "SIGKILL", "setitimer"],
}
for module, names in missing.items():
    for name in names:
        delattr(module, name)

from retrokit.cli import run
from retrokit.core import interrupts


def interrupt_soon():
    while not list(Path("run").rglob("trainer_state.json")):
        time.sleep(0.01)
    _thread.interrupt_main()


interrupts.watch()
for words, expected in json.loads(sys.argv[1]):
    if expected == 130:
        threading.Thread(target=interrupt_soon, daemon=True).start()
    code = run(words)
    if code != expected:
        sys.exit(f"{words} ended with {code}")
    interrupts.watch()
interrupts.end(0)
"""
TRAINING = ["--steps", "40", "--batch-size", "4", "--precision", "fp32", "--device", "cpu", "--save-every", "10"]


def run_without_posix(folder: Path, *commands: tuple[list[str], int]) -> None:
    """Run commands one after the other in one process, and expect their exit codes; 130: it is interrupted."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POSIX, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, "RETROKIT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_commands_the_cache_and_locks_need_no_posix(tiny_bert: Path, tmp_path: Path) -> None:
    texts = sentences(32)
    pairs = [{"anchor": anchor, "positive": positive} for anchor, positive in zip(texts[:16], texts[16:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", pairs)
    write_beir_folder(tmp_path / "law")
    left_by_a_killed_writer = tmp_path / ".crops.jsonl.1.retrokit-tmp"
    left_by_a_killed_writer.write_text("half")
    with ChatServer(Plan(lambda body: by_rules(prompt_of(body)))) as server:
        run_without_posix(
            tmp_path,
            (["augment", "crops", "law", "--keep-short", "-o", "crops.jsonl"], 0),
            (["finetune", str(tiny_bert), "--data", "pairs.jsonl", "-o", "run", *TRAINING], 130),
            (["finetune", str(tiny_bert), "--data", "pairs.jsonl", "-o", "run", *TRAINING, "--resume"], 0),
            (["eval", "./run", "--on", "beir:law", "--results", "results"], 0),
            (["eval", "./run", "--on", "beir:law"], 0),
            (["probe", "magnitude", "./run", "--on", "beir:law"], 0),
            (["rerank", "./run", "--on", "beir:law", "--with", "maxsim", "--save-run", "run.trec"], 0),
            (["build-sure", "law", "--llm", f"openai:m,url={server.url}", "-o", "sure"], 0),
        )
    assert {"crops.jsonl", "run", "results", "run.trec", "sure"} <= {path.name for path in tmp_path.iterdir()}
