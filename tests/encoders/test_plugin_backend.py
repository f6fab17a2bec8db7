"""A backend of a third party, without a module of PyTorch: evaluated, cached, sliced and refused like any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.evaluation.fakes import write_folder
from tests.plugins import install

ENTRIES = '''
"""Entries only."""

from retrokit.core.registry import Entry, Param

LETTERS = Entry(
    "letters", "counts of letters, from elsewhere", "letters_backend:letters",
    (Param("size", int, 8, minimum=2, maximum=26),), positional="size",
)
'''
BACKEND = '''
import os

import numpy as np
import torch

import retrokit
from retrokit.encoders.base import Encoder


class Letters(Encoder):
    """How often each of the first letters occurs."""

    def __init__(self, size):
        self.spec, self.similarity, self._size = f"letters:{size}", retrokit.similarity("cosine"), size

    @property
    def dimension(self):
        return self._size

    @property
    def device(self):
        return torch.device("cpu")

    def computes_in(self, precision="auto"):
        return "float32"

    def fingerprint(self):
        return f"letters of {self._size}"

    def embed(self, items, role, precision="auto"):
        with open(os.environ["LETTERS_LOG"], "a") as log:
            log.writelines(f"{item}\\n" for item in items)
        counts = [[item.count(chr(97 + letter)) + 0.5 for letter in range(self._size)] for item in items]
        return np.array(counts, dtype=np.float32).reshape(-1, self._size)


def letters(size, device=None):
    return Letters(size)
'''
USE = """
import json
import sys

import retrokit
from retrokit.encoders.store import open_cache
from retrokit.encoders.views import EncoderSlice, MemoizedEncoder
from retrokit.core.errors import UsageError

held = [[one.spec, one.kind, one.rows, one.dimension] for one in open_cache().held()]
encoder = retrokit.encoder("letters:6")
texts = ["abba", "cab", "face"]
whole = encoder.embed(texts, "query")
part = EncoderSlice(MemoizedEncoder(encoder), 1, 3, "b and c").embed(texts, "query")
refused = []
for ask in (encoder.with_tokens, encoder.with_layers, encoder.to_train):
    try:
        ask()
    except UsageError as error:
        refused.append(str(error))
loaded = [name for name in ("sentence_transformers", "transformers") if name in sys.modules]
print(json.dumps([held, whole.tolist(), part.tolist(), refused, loaded]))
"""


def test_a_backend_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    entry_points = "[retrokit.encoders]\nletters = letters_entries:LETTERS\n"
    install(site, "letters", {"letters_entries": ENTRIES, "letters_backend": BACKEND}, entry_points)
    log = tmp_path / "asked"
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    own = {"RETROKIT_CACHE": str(tmp_path / "cache"), "LETTERS_LOG": str(log), "PYTHONPATH": path}

    def python(*words: object) -> str:
        command = [sys.executable, *map(str, words)]
        environment = {**os.environ, **own, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    documents = {"d0": "abba", "d1": "deed", "d2": "face"}
    data = write_folder(tmp_path / "data", documents, {"q": "a bab"}, {"q": {"d0": 1}})
    words = ["-m", "retrokit", "eval", "letters:6", "--on", f"beir:{data}", "--device", "cpu", "--format", "csv"]
    first = python(*words)
    asked = log.read_text().splitlines()
    assert sorted(asked) == sorted(["a bab", *documents.values()])
    assert python(*words) == first
    assert "letters:6" in first
    assert log.read_text().splitlines() == asked, "the second time nothing is embedded"

    held, whole, part, refused, loaded = json.loads(python("-c", USE))
    assert held == [["letters:6", "pooled", 4, 6]]
    assert whole == [[2.5, 2.5, 0.5, 0.5, 0.5, 0.5], [1.5, 1.5, 1.5, 0.5, 0.5, 0.5], [1.5, 0.5, 1.5, 0.5, 1.5, 1.5]]
    assert part == [row[1:3] for row in whole]
    assert refused == [
        "letters:6 embeds whole texts, and no tokens",
        "letters:6 has no layers: it is not a transformer",
        "letters:6 cannot be trained: it gives embeddings, and no model",
    ]
    assert loaded == []
