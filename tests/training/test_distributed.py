"""Several processes against one with the joint batch: the same weights come out, saved once, and a failure in one ends
all."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import retrokit
from retrokit.core.errors import UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from retrokit.training.processes import is_first, leave, own_device
from retrokit.training.trainer import FinetuneTrainer, RunTrainer
from tests.close import assert_rounded
from tests.models import sentences
from tests.processes import Ended, in_processes, retrokit_in, torchrun


def gradients(encoder: Path, data: Path, batch: int, **options: Any) -> Any:
    """The loss and all gradients of a first batch, the mean over the processes."""
    options["batch_size"] = batch
    if options.pop("guide", False):
        options["loss"] = f"infonce:directions=both,guide={encoder},margin=0.001"
    made = plan(
        FinetuneConfig(str(encoder), [str(data)], **options, steps=1, precision="fp32", dropout=0.0, device="cpu")
    )
    loss = made.loss()
    made.model.train()
    joint = torch.distributed.is_initialized()
    if joint:
        loss.model = DistributedDataParallel(made.model)
    features = next(iter(made.loader))
    value = loss([features["query"], features["document"]], features.get("label"))
    value.backward()
    values = value.detach().clone()
    if joint:
        torch.distributed.all_reduce(values)
        values /= torch.distributed.get_world_size()
    return {"loss": values, **{name: p.grad for name, p in made.model.named_parameters() if p.requires_grad}}


CASES: dict[str, dict[str, Any]] = {
    f"{name}-{'cached' if mini_batch else 'whole'}": {**options, "mini_batch": mini_batch}
    for name, options in {
        "learn": {"sim": "learn"},
        "both": {"sim": "cosine", "loss": "infonce:directions=both"},
        "taught": {"sim": "qnorm", "loss": "infonce+kl:0.5+margin-mse:2"},
        "guided": {"sim": "dnorm", "guide": True},
    }.items()
    for mini_batch in (None, 3)
}


def save_gradients(encoder: Path, data: Path) -> None:
    """What :func:`gradients` gives in every case, in a file that the first process writes."""
    found = {name: gradients(encoder, data, 4, **case) for name, case in CASES.items()}
    if is_first():
        torch.save(found, "gradients.pt")
    leave()


@pytest.fixture(scope="module")
def joint_gradients(tiny_bert, triplets, tmp_path_factory) -> Any:
    """Those of two processes, of every case."""
    folder = tmp_path_factory.mktemp("gradients")
    ended = in_processes(2, folder, save_gradients, (tiny_bert, triplets))
    assert [process.code for process in ended] == [0, 0], said(ended)
    return torch.load(folder / "gradients.pt", weights_only=True)


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_those_of_the_joint_batch(tiny_bert, triplets, joint_gradients, case):
    one, two = gradients(tiny_bert, triplets, 8, **CASES[case]), joint_gradients[case]
    assert one.keys() == two.keys()
    assert ("2.similarity.query_gamma_logit" in one) == ("learn" in case)
    largest = max(float(value.abs().max()) for name, value in one.items() if name != "loss")
    for name, value in one.items():
        assert_rounded(two[name], value, size=largest)  # gradients of which nothing is left but rounding, too
        assert value.abs().max() > 0 or "key.bias" in name


@pytest.fixture(scope="module")
def by_torchrun(tiny_bert, triplets, tmp_path_factory) -> Path:
    """A run that two processes of torchrun have made."""
    folder = tmp_path_factory.mktemp("torchrun")
    ended = torchrun(2, folder, finetune_words(tiny_bert, triplets, folder / "run", *SHORT))
    assert ended[0].code == 0, said(ended)
    assert "Traceback" not in said(ended)
    return folder / "run"


def test_torchrun_equals_one_process_with_the_joint_batch(tiny_bert, triplets, by_torchrun, tmp_path):
    one, two = tmp_path / "one", by_torchrun
    finetune(FinetuneConfig(str(tiny_bert), [str(triplets)], str(one), **JOINT | {"batch_size": 8, "steps": 5}))
    ours, theirs = (retrokit.load(str(run)) for run in (one, two))
    texts = sentences(20, seed=5)
    start = retrokit.encoder(str(tiny_bert)).embed(texts, "query", "fp32")
    # Weights themselves differ where a gradient is nothing but rounding: Adam makes full steps of that.
    assert np.abs(ours.embed(texts, "query", "fp32") - theirs.embed(texts, "query", "fp32")).max() < 1e-4
    assert np.abs(ours.embed(texts, "query", "fp32") - start).max() > 1e-3
    assert theirs.similarity.statistics() == pytest.approx(ours.similarity.statistics(), abs=1e-5)
    lines = [len((run / "metrics.jsonl").read_text().splitlines()) for run in (one, two)]
    assert lines[0] == lines[1]


def test_under_torchrun_too_one_line_says_why_all_end(tiny_bert, triplets, tmp_path):
    """Torchrun kills the others once one has ended: that one is to be the one that speaks."""
    ended = torchrun(2, tmp_path, finetune_words(tiny_bert, triplets, tmp_path / "run", "--batch-size", 40))
    assert ended[0].code == 1
    lines = [line for line in said(ended).splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1, said(ended)
    assert "a batch of 40 × 2 processes is larger than its 32 records" in lines[0]


OPTIONS = ["--batch-size", 4, "--lr", 1e-3, "--precision", "fp32", "--max-grad-norm", 1000, "--device", "cpu"]
SHORT = ["--steps", 5, "--sim", "learn", "--dropout", 0]
JOINT = {"sim": "learn", "lr": 1e-3, "dropout": 0.0, "max_grad_norm": 1000, "precision": "fp32", "device": "cpu"}


def finetune_words(encoder: Path, data: object, folder: Path, *options: object) -> list[object]:
    return ["finetune", encoder, "--data", data, "-o", folder, *OPTIONS, *options]


def said(ended: list[Ended]) -> str:
    return "".join(one.err for one in ended)


@pytest.fixture
def benchmark(tmp_path: Path, triplets: Path) -> Path:
    """A BEIR folder of the pairs."""
    rows = [json.loads(line) for line in triplets.read_text().splitlines()]
    folder = tmp_path / "benchmark"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(folder / "corpus.jsonl", [{"_id": f"d{i}", "text": row["positive"]} for i, row in enumerate(rows)])
    write_jsonl(folder / "queries.jsonl", [{"_id": f"q{i}", "text": row["anchor"]} for i, row in enumerate(rows)])
    lines = "".join(f"q{i}\td{i}\t1\n" for i in range(len(rows)))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return folder


def stop_after_three(rank: int) -> None:
    """Every process gets Ctrl-C in its third step, as torchrun passes it on."""
    real = RunTrainer.training_step

    def step(self, *arguments):
        if self.state.global_step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return real(self, *arguments)

    RunTrainer.training_step = step


def test_processes_save_resume_and_evaluate(tiny_bert, triplets, benchmark, tmp_path):
    """Saving at every step, stopped and gone on with, they end where one process with the joint batch does."""
    count = 3
    folder, one = tmp_path / "run", tmp_path / "one"
    options = ["--steps", 4, "--save-every", 1, "--keep-checkpoints", 9, "--sim", "learn", "--dropout", 0]
    options += ["--eval", f"beir:{benchmark}", "--eval-every", 2, "--holdout", 0.3]
    words = finetune_words(tiny_bert, triplets, folder, *options)
    for prepare, more, code in ((stop_after_three, [], 130), (None, ["--resume"], 0)):
        ended = retrokit_in(count, tmp_path, [*words, *more], prepare)
        assert {process.code for process in ended} == {code}, said(ended)
        assert "Traceback" not in said(ended)
    same = JOINT | {"batch_size": 4 * count, "steps": 4, "eval": f"beir:{benchmark}", "eval_every": 2, "holdout": 0.3}
    outcome = finetune(FinetuneConfig(str(tiny_bert), [str(triplets)], str(one), **same))
    logs = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in (folder, one)]
    evaluated = [[row for row in log if "evaluation" in row] for log in logs]
    for metric in ("benchmark:ndcg@10", "holdout:ndcg@10", "holdout:loss"):
        evaluations = [{row["step"]: row["evaluation"][metric] for row in rows} for rows in evaluated]
        assert evaluations[0] == pytest.approx(evaluations[1], abs=1e-3)
        assert list(evaluations[0]) == [0, 2, 4]
    assert json.loads((folder / "retrokit.json").read_text())["outcome"]["best_step"] == outcome.best_step
    texts = sentences(20, seed=5)
    made = [retrokit.load(str(run)).embed(texts, "query", "fp32") for run in (folder, one)]
    assert np.abs(made[0] - made[1]).max() < 1e-4


def writers(rank: int) -> None:
    """Note who writes a checkpoint's model."""
    from retrokit.training import trainer

    real = trainer.export

    def export(model, folder):
        print(f"process {rank} writes", file=sys.stderr)
        real(model, folder)

    trainer.export = export


def slow_evaluation(rank: int) -> None:
    """Note who writes, and let an evaluation take longer than the library lets processes wait for each other: half an
    hour, counted 3,600 times as fast."""
    join, evaluate = torch.distributed.init_process_group, FinetuneTrainer.measure

    def evaluated(self):
        time.sleep(1)
        return evaluate(self)

    def joined(*arguments, timeout, **options):
        return join(*arguments, timeout=timeout / 3600, **options)

    FinetuneTrainer.measure = evaluated
    torch.distributed.init_process_group = joined
    writers(rank)


def test_only_the_first_writes_and_the_others_wait_for_it(tiny_bert, triplets, benchmark, tmp_path):
    words = finetune_words(tiny_bert, triplets, tmp_path / "run", "--steps", 1, "--eval", f"beir:{benchmark}")
    ended = retrokit_in(2, tmp_path, words, slow_evaluation)
    assert [one.code for one in ended] == [0, 0], said(ended)
    assert ["writes" in one.err for one in ended] == [True, False]


def fails_in_a_step(rank: int) -> None:
    """The second process meets an error while the first one waits for its gradients."""
    from retrokit.core.errors import DataError

    real = FinetuneTrainer.training_step

    def step(self, *arguments):
        if rank == 1 and self.state.global_step == 1:
            raise DataError("gradients", "went away")
        return real(self, *arguments)

    FinetuneTrainer.training_step = step


def lacks_a_file(rank: int) -> None:
    """The second process looks elsewhere."""
    if rank == 1:
        os.chdir("elsewhere")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("data", "the processes differ: the content of data.jsonl differs"),
        (
            "options",
            "the processes differ: steps in the first process 2, in process 1 3; lr in the first process 0.001, ",
        ),
        ("missing", "process 1: data.jsonl: "),
        ("failure", "process 1: gradients: went away"),
        ("both", "a batch of 40 × 2 processes is larger than its 32 records"),
        ("piped", "--data -: only one process can read standard input; give a file"),
    ],
)
def test_what_goes_wrong_in_one_ends_all_with_one_line(tiny_bert, triplets, tmp_path, case, message):
    rows = triplets.read_text().splitlines(keepends=True)
    (tmp_path / "data.jsonl").write_text("".join(rows))
    (tmp_path / "elsewhere").mkdir()
    if case == "data":
        (tmp_path / "elsewhere" / "data.jsonl").write_text("".join(reversed(rows)))

    def words(rank):
        steps = 3 if case == "options" and rank else 2
        more = ["--lr", 2e-3] if case == "options" and rank else ["--batch-size", 40] if case == "both" else []
        data = "-" if case == "piped" else "data.jsonl"
        return finetune_words(tiny_bert, data, tmp_path / "run", "--steps", steps, *more)

    prepare = {"data": lacks_a_file, "missing": lacks_a_file, "failure": fails_in_a_step}.get(case)
    ended = retrokit_in(2, tmp_path, words, prepare)
    assert [one.code for one in ended] == [2, 2], said(ended)
    lines = [line for line in said(ended).splitlines() if line.startswith("retrokit: ")]
    assert len(lines) == 1, said(ended)
    assert message.replace("_", "-") in lines[0].replace("_", "-")
    assert "Traceback" not in said(ended)


@pytest.mark.parametrize(
    ("reranker", "options", "kept"),
    [
        ("soft", ["--lr", 0.1, "--end-to-end"], ["verifier.safetensors", "model.safetensors"]),
        ("soft", ["--lr", 0.1], ["verifier.safetensors"]),
        ("cross-encoder", ["--loss", "ranknet"], ["model.safetensors"]),
    ],
    ids=["end-to-end", "frozen", "cross-encoder"],
)
def test_processes_train_a_reranker(tiny_bert, triplets, tmp_path, reranker, options, kept):
    """Stopped and gone on with, they end where they end undisturbed; the steps are those of all of them."""
    words = ["rerank", "train", reranker, tiny_bert, "--data", triplets, "--steps", 4, "--eval-every", 2]
    words += ["--batch-size", 4, "--precision", "fp32", "--device", "cpu", *options]
    for folder, prepare, more, code in (
        ("whole", None, [], 0),
        ("run", stop_after_three, [], 130),
        ("run", None, ["--resume"], 0),
    ):
        ended = retrokit_in(2, tmp_path, [*words, "-o", folder, *more], prepare)
        assert {one.code for one in ended} == {code}, said(ended)
        assert "Traceback" not in said(ended)
        assert code or ended[1].err == ended[1].out == ""
    files = [name for name in ("verifier.safetensors", "model.safetensors") if (tmp_path / "run" / name).exists()]
    assert files == kept
    assert all((tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes() for name in files)
    described = json.loads((tmp_path / "run" / "retrokit.json").read_text())
    assert (described["status"], described["identity"]["processes"]) == ("finished", 2)
    assert not (tmp_path / "run" / "tokens").exists()


@pytest.mark.parametrize(
    ("asked", "rank", "expected"),
    [(None, "2", "cuda:2"), ("cuda", "0", "cuda:0"), ("cpu", "2", "cpu"), ("cuda:3", "0", None), ("cuda", "4", None)],
)
def test_each_process_has_a_device_of_its_own(monkeypatch, asked, rank, expected):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    if expected is None:
        with pytest.raises(UsageError, match="3 processes"):
            own_device(asked)
    else:
        assert own_device(asked) == expected
