"""What an addition touches: one new file and one entry in a table, for each kind of thing that is registered.

Each is made as a patch in a copy of the package, and is then used there by its name. Searchers, rerankers and tasks
from elsewhere have tests of their own.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import retrokit

PACKAGE = Path(retrokit.__file__).parent


class Addition(NamedTuple):
    """A file with its code; the table and the line in it behind which the entry goes; a use, and what it gives."""

    file: str
    code: str
    table: str
    behind: str
    entry: str
    use: str
    gives: object


ADDITIONS = {
    "similarity": Addition(
        "similarities/half.py",
        """
from retrokit.similarities.base import Similarity
class Half(Similarity):
    def prepare(self, embeddings, role):
        return embeddings if role == "query" else embeddings / 2
""",
        "similarities/__init__.py",
        '    "retrokit.similarities",\n    [\n',
        'Entry("half", "half the inner product", "retrokit.similarities.half:Half"),',
        'retrokit.similarity("half").score(torch.tensor([[2.0, 1.0]]), torch.tensor([[3.0, 4.0]])).item()',
        5.0,
    ),
    "encoder": Addition(
        "encoders/letters.py",
        """
import numpy as np, torch
from retrokit import similarities
from retrokit.encoders.base import Encoder
class Letters(Encoder):
    spec, dimension, device = "letters", 2, torch.device("cpu")
    def __init__(self, device=None):
        self.similarity = similarities.registry.create("cosine")
    def computes_in(self, precision="auto"):
        return "float32"
    def fingerprint(self):
        return "letters"
    def embed(self, items, role, precision="auto"):
        return np.array([[item.count("a"), item.count("b")] for item in items], dtype=np.float32)
""",
        "encoders/__init__.py",
        '    "retrokit.encoders",\n    [\n',
        'Entry("letters", "counts of letters", "retrokit.encoders.letters:Letters"),',
        'retrokit.encoder("letters").embed(["aab"], "query").tolist()',
        [[2.0, 1.0]],
    ),
    "probe": Addition(
        "probing/count.py",
        """
from retrokit import encoders as encoder_names
def count(encoders, **options):
    return [encoder_names.registry.create(spec).dimension for spec in encoders]
""",
        "probing/__init__.py",
        "PROBES = [\n",
        'probe_entry("count", "retrokit.probing.count", "count", "count", settings.ProbeSettings),',
        'probing.registry.create("count", encoders=["letters"])',
        [2],
    ),
    "family of edits": Addition(
        "augmentation/edits/shout.py",
        """
from retrokit.augmentation.edits.family import Rewriting, family
@family("shout", changes_meaning=False)
def shout(subject):
    yield Rewriting("mark", subject.query + "!")
""",
        "augmentation/edits/__init__.py",
        '    "retrokit.edits",\n    [\n',
        'family_entry("shout", "control: a mark", f"{_HERE}.shout"),',
        'edits.registry.create("shout").name',
        "shout",
    ),
    "augmentation": Addition(
        "augmentation/twice.py",
        """
class Twice:
    spec, needs_dropout, fraction = "", True, 0.0
    def problem(self, text):
        return None
    def pair(self, text, seed, epoch, index):
        return text, text
""",
        "augmentation/__init__.py",
        '    "retrokit.augmentations",\n    [\n',
        'Entry("twice", "the text itself", "retrokit.augmentation.twice:Twice"),',
        'augmentation.registry.create("twice").pair("a", 0, 0, 0)',
        ["a", "a"],
    ),
}
USES = f"""
import json, torch, retrokit
from retrokit import augmentation, probing
from retrokit.augmentation import edits
print(json.dumps({{{", ".join(f"{kind!r}: {addition.use}" for kind, addition in ADDITIONS.items())}}}))
"""


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the uses of all additions give, in a copy of the package."""
    copy = tmp_path_factory.mktemp("patched") / "retrokit"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.safetensors"))
    for addition in ADDITIONS.values():
        assert not (copy / addition.file).exists()
        (copy / addition.file).write_text(addition.code, encoding="utf-8")
        table = copy / addition.table
        before, behind, after = table.read_text(encoding="utf-8").partition(addition.behind)
        assert behind, addition.table
        table.write_text(f"{before}{behind}        {addition.entry}\n{after}", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(copy.parent), "RETROKIT_CACHE": "off", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", USES], capture_output=True, text=True, env=environment, cwd=copy.parent
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("kind", ADDITIONS)
def test_a_file_and_an_entry_are_enough(used: dict[str, object], kind: str) -> None:
    assert used[kind] == ADDITIONS[kind].gives
