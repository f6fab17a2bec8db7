"""Two processes under torchrun against one: the same result, once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit.data.jsonl import write_jsonl
from tests.close import assert_rounded
from tests.models import make_bert, sentences

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "RETROKIT_CACHE": "off",
    "PYTHONPATH": str(Path(__file__).parents[2]),  # for the texts of tests.models
}

EMBED = """
import os, sys
import numpy as np
import retrokit
from retrokit.encoders import engine
from retrokit.encoders.processes import help_first, helped
from retrokit.notices import listening
from tests.models import sentences

class Noting:
    def notice(self, message):
        open(output + ".notes", "a").write(message + "\\n")

    def progress(self, label, total, unit):
        from contextlib import nullcontext

        return nullcontext(lambda count: None)

spec, output = sys.argv[1:]
engine.CHUNK = 8
rank = os.environ["RANK"]
real, encoded = engine.unchecked, []
def counted(model, texts, *rest, **options):
    encoded.extend(texts)
    return real(model, texts, *rest, **options)
engine.unchecked = counted
if rank == "0":
    with listening(Noting()), helped():
        encoder = retrokit.encoder(spec, device="cpu")
        made = [encoder.embed(sentences(50), role, "fp32") for role in ("document", "query")]
        few = encoder.embed(["cat"], "document", "fp32")
        np.save(output, np.concatenate([*made, few]))
else:
    help_first()
open(f"{output}.{rank}", "w").write("\\n".join(encoded))
os._exit(0)
"""


def run(words: list[object], expected: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in words], env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == expected, done.stderr
    return done


def embed(tmp_path: Path, spec: str, program: str = EMBED) -> tuple[np.ndarray, list[list[str]], str]:
    """Embeddings, which texts each process has encoded, and what was said."""
    script, output = tmp_path / "embed.py", tmp_path / "made.npy"
    script.write_text(program)
    run([*TORCHRUN, script, spec, output], HF_HUB_OFFLINE="1")
    notes = tmp_path / "made.npy.notes"
    encoded = [(tmp_path / f"made.npy.{rank}").read_text().splitlines() for rank in (0, 1)]
    return np.load(output), encoded, notes.read_text() if notes.exists() else ""


def test_each_process_encodes_its_share(tiny_bert, tmp_path):
    spec = f'{tiny_bert},document_prompt="find ",pooling=cls'
    found, encoded, notes = embed(tmp_path, spec)
    texts, alone = sentences(50), retrokit.encoder(spec, device="cpu")
    expected = [alone.embed(texts, "document", "fp32"), alone.embed(texts, "query", "fp32")]
    expected.append(alone.embed(["cat"], "document", "fp32"))
    assert_rounded(found, np.concatenate(expected))
    assert [len(share) for share in encoded] == [51, 50]
    assert sorted(encoded[0] + encoded[1]) == sorted([*texts, *texts, "cat"])
    assert notes == ""


def test_an_encoder_that_the_others_have_not_is_used_alone(tiny_bert, tmp_path):
    model = make_bert(tmp_path / "only")
    moved = f"{model}.away"  # as a folder on one machine only: it is gone when the other process looks for it
    loading = 'encoder = retrokit.encoder(spec, device="cpu")'
    assert loading in EMBED
    found, encoded, notes = embed(
        tmp_path, str(model), EMBED.replace(loading, f"{loading}; os.rename(spec, {moved!r})")
    )
    expected = retrokit.encoder(moved, device="cpu").embed(sentences(50), "document", "fp32")
    assert_rounded(found[:50], expected)
    assert [len(share) for share in encoded] == [101, 0]
    assert len(notes.splitlines()) == 1
    assert notes.startswith(f"{model}: one process encodes alone, for another one cannot help: ")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    texts = sentences(60, seed=4)
    write_jsonl(folder / "corpus.jsonl", [{"_id": f"d{i}", "text": text} for i, text in enumerate(texts)])
    write_jsonl(folder / "queries.jsonl", [{"_id": f"q{i}", "text": text[:12]} for i, text in enumerate(texts[:20])])
    rows = "".join(f"q{i}\td{i}\t1\n" for i in range(20))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def test_a_command_prints_one_result_that_is_a_single_processs(tiny_bert, corpus, tmp_path):
    words = ["-m", "retrokit", "eval", tiny_bert, "--on", f"beir:{corpus}", "--precision", "fp32", "--device", "cpu"]
    kept = {"RETROKIT_CACHE": str(tmp_path / "cache")}
    one = json.loads(run([sys.executable, *words, "--json"]).stdout)
    two = json.loads(run([*TORCHRUN, *words, "--json"], **kept).stdout)
    again = json.loads(run([sys.executable, *words, "--json"], **kept).stdout)
    assert metrics(two) == pytest.approx(metrics(one), abs=1e-6)
    assert metrics(again) == metrics(two)
    assert metrics(one)["ndcg@10"] > 0


def metrics(printed: dict) -> dict[str, float]:
    return printed["results"][0]["metrics"]


def test_a_mistake_is_said_once_and_ends_all(tiny_bert):
    done = run([*TORCHRUN, "-m", "retrokit", "eval", tiny_bert, "--on", "beir:/nowhere", "--device", "cpu"], expected=1)
    assert done.stderr.count("retrokit: ") == 1
    assert "exitcode  : 2" in done.stderr
