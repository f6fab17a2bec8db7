"""`retrokit finetune` as typed: pipes, the plan, exit codes and messages."""

import json
import os
import sys
from pathlib import Path

import pytest

import retrokit
from retrokit.core.errors import DataError
from retrokit.data.jsonl import write_jsonl
from retrokit.report import plots
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune
from tests.models import sentences


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    texts = sentences(32)
    rows = [{"anchor": a, "positive": b} for a, b in zip(texts[:16], texts[16:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


QUICK = ("--steps", 2, "--batch-size", 4, "--precision", "fp32", "--device", "cpu")


def test_a_run_prints_its_plan_and_leaves_a_folder(typed, tiny_bert, pairs, tmp_path, undrawn, monkeypatch):
    monkeypatch.setattr(plots, "training_plots", undrawn)
    code, out, err = typed("finetune", tiny_bert, "--data", "pairs.jsonl", "--sim", "qnorm", "-o", "run", *QUICK)
    assert code == 0, err
    assert "starts as sharp as cosine at" in err
    plan = {line.split("│")[1].strip() for line in err.partition("plan")[2].splitlines() if line.count("│") == 3}
    always = {"steps", "trainable parameters", "memory of a step", "scale", "encoder", "sim", "loss", "batch size"}
    assert plan == {*always, "lr", "precision", "device"}, "nothing that is as it always is"
    assert "16" in err
    assert "run" in out
    assert (tmp_path / "run" / "plots" / "loss.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "plots" / "loss.svg").exists()
    assert retrokit.load(str(tmp_path / "run")).similarity.spec == "qnorm"


def test_a_folder_that_no_model_can_be_saved_in_is_refused_before_the_work(typed, tiny_bert, pairs):
    code, out, err = typed("finetune", tiny_bert, "--data", pairs, *QUICK, "-o", os.fsdecode(b"runs/caf\xe9"))
    line = "retrokit: runs/caf\\udce9: could not be written: a model's folder needs a name in UTF-8\n"
    assert (code, out, err) == (2, "", line)
    assert not Path("runs").exists()


def test_a_dry_run_is_json_and_writes_nothing(typed, tiny_bert, pairs, tmp_path):
    words = ("--data", "pairs.jsonl,weight=0.5", "--sim", "dot", "--scale", "auto", "--dry-run", "--json")
    code, out, err = typed("finetune", tiny_bert, *words, *QUICK)
    assert code == 0, err
    plan = json.loads(out, parse_constant=pytest.fail)
    assert plan["scale"]["effective_scale"] == pytest.approx(20)
    assert plan["sources"][0]["records"] == 16
    assert plan["sources"][0]["weight"] == 0.5
    assert plan["lengths"]["query"]["limit"] == 64
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.jsonl"]


def test_all_wrong_names_are_said_at_once(typed, pairs):
    code, out, err = typed(
        "finetune", "minlim", "--data", "beir:x,splt=train", "--sim", "cosin", "--eval", "bier:x", "-o", "run"
    )
    assert (code, out) == (2, "")
    lines = err.strip().splitlines()
    assert len(lines) == 4
    assert all(line.startswith("retrokit: ") for line in lines)
    assert "did you mean minilm?" in lines[0]
    assert "did you mean split?" in lines[1]
    assert "did you mean beir?" in lines[2]
    assert "did you mean cosine?" in lines[3]


@pytest.mark.parametrize(
    ("module", "extra", "words"),
    [
        ("peft", "lora", "finetune no/model --data DATA --lora 2 -o run"),
        ("peft", "lora", "rerank train cnn no/model --data DATA --lora 2 --end-to-end -o run"),
        ("bitsandbytes", "bits", "finetune no/model --data DATA --lora 2,load=4bit -o run"),
        ("bitsandbytes", "bits", "rerank train cnn no/model,bits=4 --data DATA -o run"),
        ("tensorboard", "tensorboard", "rerank train cnn no/model --data DATA --track tensorboard -o run"),
        ("bm25s", "bm25", "eval no/model bm25 --on beir:none"),
        ("faiss", "faiss", "eval no/model --on beir:none --index HNSW32"),
        ("faiss", "faiss", "eval no/model dense:no/model,index=HNSW32 --on beir:none"),
        ("faiss", "faiss", "search no/model --corpus DATA --query cat --index HNSW32"),
        ("openai", "llm", "augment near-misses DATA --llm openai:m,url=http://127.0.0.1:9 -o out"),
        ("mteb", "mteb", "finetune no/model --data DATA --eval mteb:SciFact -o run"),
    ],
)
def test_a_missing_package_is_known_before_anything_is_read(typed, monkeypatch, module, extra, words):
    """There is neither the model nor the data."""
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = typed(*words.replace("DATA", "none.jsonl").split())
    assert (code, out) == (3, ""), err
    (line,) = err.splitlines()
    assert line.endswith(f"needs an optional package: python -m pip install 'retrokit-ir[{extra}]'")


@pytest.mark.parametrize(("steps", "complaint"), [(1, "weights are not finite"), (4, "; lower `lr=`")])
def test_a_training_that_diverges_is_a_data_error(tiny_bert, pairs, tmp_path, steps, complaint):
    options = {"warmup": 0, "steps": steps, "batch_size": 4, "device": "cpu"}
    output = tmp_path / "run"
    config = FinetuneConfig(encoder=str(tiny_bert), data=(str(pairs),), output=str(output), **options)
    object.__setattr__(config, "lr", 1e39)  # a rate within its bounds takes many steps to diverge
    with pytest.raises(DataError, match=complaint):
        finetune(config)
    assert not (output / "model.safetensors").exists()


def test_options_may_have_the_names_of_other_tools(typed, tiny_bert, pairs):
    ours = ("--steps", 2, "--batch-size", 4, "--lr", 0.001, "--max-length", 9, "--precision", "fp32")
    theirs = ("--max-steps=2", "--per-device-train-batch-size", 4, "--learning-rate", 0.001)
    theirs += ("--max-seq-length=9", "--compute-dtype=fp32")
    plans = [
        json.loads(typed("finetune", tiny_bert, "--data", pairs, "--dry-run", "--json", "--device", "cpu", *words)[1])
        for words in (ours, theirs)
    ]
    assert plans[0] == plans[1]
    code, _, err = typed("finetune", tiny_bert, "--data", pairs, "--dry-run", "--truncate-dim", 8)
    assert (code, "No such option: --truncate-dim" in err) == (2, True)
