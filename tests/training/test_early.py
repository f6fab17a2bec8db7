"""What files tell is checked before a model loads: its weights are damaged here, and the data are reported first."""

import shutil
from pathlib import Path

import pytest

from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from retrokit.training import finetune as training
from tests.evaluation.fakes import write_folder
from tests.models import sentences


@pytest.fixture
def folder(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inputs, among them ``damaged``, an encoder whose weights do not load."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_bert, tmp_path / "bert")
    shutil.copytree(tiny_bert, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"damaged")
    texts = sentences(40, seed=3)
    pairs = [{"anchor": one, "positive": other} for one, other in zip(texts[:20], texts[20:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", pairs)
    write_folder(tmp_path / "task", {"d": "a cat"}, {"q": "cats"}, {"q": {"d": 1}})
    return tmp_path


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--data pairs.jsonl --batch-size 64", "pairs: a batch of 64 is larger than its 20 records"),
        ("--data pairs.jsonl --holdout 8 --batch-size 16", "pairs: a batch of 16 is larger than its 14 records"),
        ("--data pairs.jsonl --batch-size 4 --mini-batch 32", "--mini-batch 32 is more than the queries"),
        ("--data pairs.jsonl --batch-size 4 --sim-lr 0.1", "--sim-lr: cosine has no weights to learn"),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_data_are_refused_before_weights_load(
    words: str, problem: str, dry_run: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--dry-run"] if dry_run else ["-o", "run"]
    assert cli.run(["finetune", "damaged", *words.split(), *more]) == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]
    assert not Path("run").exists()


def test_a_dry_run_says_last_what_it_did_and_probes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(training, "choose_similarity", lambda *given: pytest.fail("a dry run does not probe"))
    words = ["--data", "pairs.jsonl", "--batch-size", "4", "--sim", "auto", "--dry-run"]
    assert cli.run(["finetune", "bert", *words]) == 0
    lines = capsys.readouterr().err.splitlines()
    done = "read all data, loaded bert, measured samples of texts; nothing was trained, evaluated or written"
    assert lines[-1] == f"dry run: {done}"
    assert "--sim auto: training probes 1,000 pairs to choose; this plan is for learn" in lines
