"""`finetune` from end to end on a tiny model: run folders, resuming, options, bad input."""

import io
import json
import os
import shutil
import signal
from itertools import product
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from rich.console import Console
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from transformers import GPT2Config, GPT2Model

import retrokit
from retrokit.core.errors import DataError, Interrupted, UsageError
from retrokit.data.jsonl import write_jsonl
from retrokit.evaluation.evaluate import evaluate
from retrokit.report.sheets import TerminalTable
from retrokit.report.tables import outcome_sheet
from retrokit.training.config import FinetuneConfig
from retrokit.training.finetune import finetune, plan
from retrokit.training.history import History
from retrokit.training.model import has_dropout, restrict
from retrokit.training.trainer import FinetuneTrainer, Options
from tests.close import assert_rounded
from tests.models import sentences
from tests.processes import retrokit_in
from tests.runs import assert_same_weights, history_of, killed_after, stopping

SPECS = ["cosine", "dot", "qnorm", "dnorm", "learn", "sfs:4", "sfs:4,base=l2", "l2", "l1"]


@pytest.fixture(autouse=True)
def notices(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "retrokit")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    texts = sentences(64)
    rows = [{"anchor": a, "positive": b} for a, b in zip(texts[:32], texts[32:], strict=True)]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    return tmp_path / "pairs.jsonl"


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    """A BEIR folder whose queries are the pairs' anchors and whose documents are their positives."""
    folder = tmp_path / "benchmark"
    texts = sentences(64)
    write_jsonl(folder_file(folder, "corpus.jsonl"), [{"_id": f"d{i}", "text": t} for i, t in enumerate(texts[32:])])
    write_jsonl(folder_file(folder, "queries.jsonl"), [{"_id": f"q{i}", "text": t} for i, t in enumerate(texts[:32])])
    qrels = folder_file(folder, "qrels/test.tsv")
    qrels.write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{i}\t1\n" for i in range(32)))
    return folder


def folder_file(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def configure(encoder: Path, data: Path, output: Path | None, **options) -> FinetuneConfig:
    defaults = {"steps": 6, "batch_size": 8, "precision": "fp32", "lr": 1e-3, "device": "cpu", "log_every": 2}
    return FinetuneConfig(str(encoder), [str(data)], None if output is None else str(output), **(defaults | options))


def test_other_positives_of_an_anchor_are_masked_or_count_as_negatives(tiny_bert, tmp_path):
    anchor, first, second = sentences(3)
    write_jsonl(tmp_path / "pairs.jsonl", [{"anchor": anchor, "positive": text} for text in (first, second)])
    losses = {}
    for unmasked in (False, True):
        made = plan(
            configure(tiny_bert, tmp_path / "pairs.jsonl", None, batch_size=2, loss=f"infonce:unmasked={unmasked}")
        )
        batch = next(iter(made.loader))
        made.model.eval()
        with torch.no_grad():
            losses[unmasked] = made.loss()([batch["query"], batch["document"]]).item()
    query, *documents = torch.from_numpy(made.encoder.embed([anchor, first, second], "query", "fp32"))
    scores = 20 * torch.cosine_similarity(query, torch.stack(documents))
    assert losses[False] == 0
    assert losses[True] == pytest.approx((scores.logsumexp(0) - scores.mean()).item(), abs=1e-3)


@pytest.mark.parametrize("spec", SPECS)
def test_a_run_loads_as_it_was_trained(tiny_bert, pairs, tmp_path, spec):
    finetune(configure(tiny_bert, pairs, tmp_path / "run", sim=spec))
    run = retrokit.load(str(tmp_path / "run"))
    assert run.similarity.spec == spec
    assert json.loads((tmp_path / "run" / "retrokit.json").read_text())["status"] == "finished"
    texts = sentences(5, seed=7)
    raw = {role: torch.from_numpy(run.embed(texts, role, "fp32")) for role in ("query", "document")}
    plain = SentenceTransformer(str(tmp_path / "run"), trust_remote_code=run.similarity.export == "prepared")
    given = {
        "query": plain.encode_query(texts, convert_to_tensor=True),
        "document": plain.encode_document(texts, convert_to_tensor=True),
    }
    for role in ("query", "document"):
        expected = raw[role] if run.similarity.export == "raw" else run.similarity.prepare(raw[role], role).detach()
        torch.testing.assert_close(given[role], expected, atol=1e-5 * expected.abs().max().item(), rtol=1e-5)
    if run.similarity.library_exact:
        ours = run.similarity.score(raw["query"], raw["document"]).argsort(dim=1)
        assert torch.equal(ours, plain.similarity(given["query"], given["document"]).argsort(dim=1))
    if spec == "learn":
        assert run.similarity.statistics()["gamma_query"] != pytest.approx(0.5, abs=1e-6)
    before = retrokit.encoder(str(tiny_bert)).embed(texts, "query", "fp32")
    assert np.abs(before - raw["query"].numpy()).max() > 1e-3


def test_training_learns_the_pairs(tiny_bert, pairs, benchmark, tmp_path):
    task = f"beir:{benchmark}"
    options = {"steps": 120, "lr": 5e-3, "dropout": 0.0, "eval": task, "eval_every": 40}
    outcome = finetune(configure(tiny_bert, pairs, tmp_path / "run", **options))
    values = [row["evaluation"]["benchmark:ndcg@10"] for row in outcome.evaluations]
    assert [row["step"] for row in outcome.evaluations] == [0, 40, 80, 120]
    assert max(values) > values[0] + 0.5  # over 20 seeds 0.85 more, with an SD of 0.003
    lines = history_of(tmp_path / "run")
    norms = next(line["norms"] for line in lines if "norms" in line)
    assert {
        f"benchmark:{name}" for name in ("query_norm_mean", "document_norm_mean", "document_norm_cv")
    } <= norms.keys()
    losses = [line["loss"] for line in lines if "loss" in line]
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 1  # over 20 seeds 1.8 less, with an SD of 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"sim": "learn"},
        {"sim": "sfs:4", "mini_batch": 3, "schedule": "cosine"},
        {"lora": 2, "epochs": 2, "steps": None},
        {"matryoshka": (8,), "sim": "qnorm"},
        {"gradient_checkpointing": True},
        {"loss": "infonce:guide=GUIDE,margin=0.001,margin_type=relative"},
        {"accumulate": 3, "save_every": 3, "no_duplicates": True},
    ],
    ids=["learn", "cached", "lora", "matryoshka", "checkpointed", "guided", "accumulated"],
)
def test_a_resumed_run_ends_at_the_same_weights(tiny_bert, pairs, tmp_path, options):
    if "loss" in options:
        options = {"loss": options["loss"].replace("GUIDE", str(tiny_bert))}
    common = {"steps": 12, "save_every": 5} | options
    finetune(configure(tiny_bert, pairs, tmp_path / "whole", **common))
    with killed_after(7):
        finetune(configure(tiny_bert, pairs, tmp_path / "run", **common))
    (tmp_path / "run" / "checkpoints" / "checkpoint-7").mkdir()  # a checkpoint that a kill left incomplete
    finetune(configure(tiny_bert, pairs, tmp_path / "run", **common, resume=True))
    assert_same_weights(tmp_path / "whole", tmp_path / "run")
    assert history_of(tmp_path / "whole") == history_of(tmp_path / "run")


def in_step(number: int, signals: int) -> None:
    """The process gets a signal in that step."""
    real = FinetuneTrainer.training_step

    def step(self, *arguments):
        if self.state.global_step == number - 1:
            os.kill(os.getpid(), signals)
        return real(self, *arguments)

    FinetuneTrainer.training_step = step


def terminated(rank: int) -> None:
    in_step(3, signal.SIGTERM)


def interrupted(rank: int) -> None:
    in_step(3, signal.SIGINT)


def words_of(encoder: Path, data: Path, folder: str, *options: object) -> list[object]:
    return ["finetune", encoder, "--data", data, "-o", folder, "--batch-size", 8, "--precision", "fp32", *options]


def test_the_identity_of_a_run_has_every_option_that_decides(tiny_bert, pairs, tmp_path):
    plain, other = (
        plan(configure(tiny_bert, pairs, tmp_path / "run", loss=loss)).identity
        for loss in ("infonce", "infonce:unmasked=true")
    )
    assert plain["loss"] == "infonce"
    assert other == {**plain, "loss": "infonce:unmasked=true"}


@pytest.mark.parametrize(("prepare", "code"), [(interrupted, 130), (terminated, 143)])
def test_a_signal_saves_and_prints_the_line_to_resume(tiny_bert, pairs, tmp_path, prepare, code):
    words = [*words_of(tiny_bert, pairs, "run"), "--steps", 100000, "--overwrite"]
    (stopped,) = retrokit_in(1, tmp_path, words, prepare)
    assert stopped.code == code
    assert "the state is in run/checkpoints" in stopped.err
    line = stopped.err.strip().splitlines()[-1]
    assert line.startswith("retrokit: ")
    assert "; resume with: retrokit finetune " in line
    assert line.endswith("--resume")
    assert "--overwrite" not in line
    assert "Traceback" not in stopped.err
    assert list((tmp_path / "run" / "checkpoints").glob("checkpoint-3/state.pt"))


@pytest.mark.parametrize("encoder", ["tiny_bert", "static:32"])
def test_an_interrupted_run_resumes_to_the_same_weights(tiny_bert, encoder, pairs, benchmark, tmp_path):
    options = {"steps": 10, "lr": 0.01, "eval": f"beir:{benchmark}", "eval_every": 3}
    encoder = Path(encoder) if encoder != "tiny_bert" else tiny_bert
    finetune(configure(encoder, pairs, tmp_path / "whole", **options))
    with stopping(3, signal.SIGINT), pytest.raises(Interrupted, match="stopped at step 4 of 10"):
        finetune(configure(encoder, pairs, tmp_path / "run", **options))
    finetune(configure(encoder, pairs, tmp_path / "run", **options, resume=True))
    assert_same_weights(tmp_path / "whole", tmp_path / "run")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, tiny_bert) -> Path:
    """A folder with the data of a run, and the run, stopped after a checkpoint at step 2."""
    folder = tmp_path_factory.mktemp("stopped")
    texts = sentences(64)
    rows = [{"anchor": a, "positive": b} for a, b in zip(texts[:32], texts[32:], strict=True)]
    write_jsonl(folder / "pairs.jsonl", rows)
    with stopping(1, signal.SIGINT), pytest.raises(Interrupted):
        finetune(configure(tiny_bert, folder / "pairs.jsonl", folder / "run", steps=3))
    return folder


def test_changed_data_are_named_by_their_file(stopped, tiny_bert, tmp_path):
    shutil.copytree(stopped / "run", tmp_path / "run")
    pairs = stopped / "pairs.jsonl"
    lines = pairs.read_text()
    try:
        pairs.write_text(lines.replace('"anchor": "', '"anchor": "new ', 1))
        with pytest.raises(UsageError, match=rf"run is another run: the content of {pairs} differs$"):
            finetune(configure(tiny_bert, pairs, tmp_path / "run", steps=3, resume=True))
    finally:
        pairs.write_text(lines)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *product(["trainable.pt", "state.pt", "trainer_state.json"], ["cut", "nonsense", "another"]),
        *product(["trainable.pt", "trainer_state.json"], ["missing"]),  # without state.pt it is not complete
        *product(["trainable.pt", "state.pt"], ["other byte"]),
    ],
)
def test_a_damaged_checkpoint_is_one_line(stopped, tiny_bert, tmp_path, name, damage):
    shutil.copytree(stopped / "run", tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "checkpoint-2" / name
    whole = path.read_bytes()
    other = b'{"global_step": 7}' if name.endswith("json") else b""
    path.unlink()
    if damage == "other byte":
        with ZipFile(io.BytesIO(whole)) as archive:
            largest = max(archive.infolist(), key=lambda entry: entry.file_size)
            numbers = archive.read(largest)
        path.write_bytes(whole.replace(numbers, bytes([numbers[0] ^ 1]) + numbers[1:]))
    elif damage == "another" and not other:
        torch.save({"some": torch.zeros(3)}, path)
    elif damage != "missing":
        path.write_bytes({"cut": whole[: len(whole) // 2], "nonsense": b"nonsense", "another": other}[damage])
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(DataError) as caught:
        finetune(configure(tiny_bert, stopped / "pairs.jsonl", tmp_path / "run", steps=3, resume=True))
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    assert "remove this checkpoint" in str(caught.value)
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before
    assert path.exists() == (damage != "missing")


@pytest.mark.parametrize("options", [{}, {"lora": "2,merge=true"}], ids=["all", "lora"])
def test_bf16_weights_are_trained_in_float32(tiny_bert, pairs, tmp_path, options, caplog):
    encoder = Path(f"model:{tiny_bert},dtype=bf16")
    before = retrokit.encoder(str(encoder)).model.state_dict()
    finetune(configure(encoder, pairs, tmp_path / "run", lr=2e-5, steps=3, weight_decay=0.0, **options))
    assert any("trained and saved in float32" in line for line in caplog.messages)
    after = SentenceTransformer(str(tmp_path / "run"), device="cpu").state_dict()
    assert {value.dtype for value in after.values()} == {torch.float32}
    name = next(name for name in after if "layer.0.intermediate.dense.weight" in name)
    assert not torch.equal(after[name], before[name].float())
    rounded = shutil.copytree(tiny_bert, tmp_path / "rounded")
    stored = load_file(rounded / "model.safetensors")
    save_file({name: value.bfloat16().float() for name, value in stored.items()}, rounded / "model.safetensors")
    finetune(configure(rounded, pairs, tmp_path / "exact", lr=2e-5, steps=3, weight_decay=0.0, **options))
    assert_same_weights(tmp_path / "run", tmp_path / "exact")  # in bf16 a step this small is lost in rounding


@pytest.mark.parametrize(
    ("asked", "expected"), [("cuda:3", "cuda:3"), ("cuda", "cuda"), ("cpu", "cpu")], ids=["named", "any", "cpu"]
)
def test_training_takes_one_device_and_the_one_named(monkeypatch, asked, expected):
    current = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: current.append(str(device)))
    args = Options(computes_on=asked, output_dir="unused", use_cpu=asked == "cpu", report_to="none")
    assert args.n_gpu <= 1, "more would be DataParallel"
    assert str(args.device) == str(Accelerator(cpu=asked == "cpu").device) == expected
    assert args.train_batch_size == args.per_device_train_batch_size
    assert current[-1:] == ([] if asked == "cpu" else [expected])


@pytest.mark.parametrize(
    ("spec", "other"), [("sfs:4,base=dot", "dot"), ("sfs:4,base=l1", "l1"), ("sfs:1,base=l2", "l1")]
)
def test_scale_auto_says_what_trains_the_same(tiny_bert, pairs, spec, other, caplog):
    made, same = (plan(configure(tiny_bert, pairs, None, sim=name, scale="auto")) for name in (spec, other))
    assert [line for line in caplog.messages if "both train the same" in line] == [
        f"{made.similarity.spec} is {other} divided by a number; with `scale=` auto both train the same"
    ]
    texts = torch.randn(6, 16, generator=torch.Generator().manual_seed(0))
    scores = [one.preflight.scale["scale"] * one.similarity.score(texts, texts.flip(1)) for one in (made, same)]
    assert_rounded(*scores)


def test_a_gain_is_over_the_start_under_its_own_similarity(tiny_bert, pairs, benchmark, tmp_path):
    task = f"beir:{benchmark}"
    outcome = finetune(configure(tiny_bert, pairs, tmp_path / "run", sim="qnorm", eval=task, steps=4))
    own, trained = evaluate([str(tiny_bert)], [task], ["cosine", "qnorm"], precision="fp32").results
    assert outcome.baseline["similarity"] == "cosine"
    assert outcome.baseline["evaluation"]["benchmark:ndcg@10"] == pytest.approx(own.metrics["ndcg@10"], abs=1e-6)
    assert outcome.evaluations[0]["evaluation"]["benchmark:ndcg@10"] == pytest.approx(
        trained.metrics["ndcg@10"], abs=1e-6
    )
    reached = outcome.evaluations[-1]["evaluation"]["benchmark:ndcg@10"]
    assert outcome.gain == reached - outcome.baseline["evaluation"]["benchmark:ndcg@10"]
    assert [row["step"] for row in outcome.losses] == [2, 4]
    lines = history_of(tmp_path / "run")
    assert [line["step"] for line in lines if "baseline" in line] == [0]
    shown = Console(file=io.StringIO(), width=120)
    shown.print(TerminalTable(outcome_sheet(outcome)))
    text = " ".join(shown.file.getvalue().split())
    assert f"as it came, under its own cosine │ benchmark:ndcg@10 {own.metrics['ndcg@10']:.4f}" in text
    assert f"{outcome.gain:+.4f} benchmark:ndcg@10; " in text
    assert f"{outcome.losses[-1]['loss']:.4g} (mean of steps 1–2 → 3–4)" in text
    assert text.index("gain over the start") < text.index("training loss")
    plain = finetune(configure(tiny_bert, pairs, tmp_path / "cosine", eval=task, steps=4))
    values = [row["evaluation"]["benchmark:ndcg@10"] for row in plain.evaluations]
    assert (plain.baseline, plain.gain) == (None, values[-1] - values[0])


def test_a_dry_run_and_a_failed_check_write_nothing(tiny_bert, pairs, benchmark, tmp_path):
    made = plan(configure(tiny_bert, pairs, tmp_path / "run"))
    assert made.preflight.steps == {"per_epoch": 4, "total": 6}
    assert made.preflight.sources[0]["records"] == 32
    with pytest.raises(UsageError, match="a batch of 33 is larger than its 32 records"):
        finetune(configure(tiny_bert, pairs, tmp_path / "run", batch_size=33))
    with pytest.raises(UsageError, match="unknown metric 'ndgc@10'"):
        finetune(configure(tiny_bert, pairs, tmp_path / "run", eval=f"beir:{benchmark}", best_metric="ndgc@10"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("freeze", "trained"),
    [("embeddings", {"layer.0", "layer.1"}), ("first:1", {"layer.1"}), ("all-but:1", {"layer.1"})],
)
def test_freezing_leaves_the_frozen_weights_alone(tiny_bert, pairs, tmp_path, freeze, trained):
    finetune(configure(tiny_bert, pairs, tmp_path / "run", freeze=freeze))
    before = retrokit.encoder(str(tiny_bert)).model.state_dict()
    changed = {  # the pooler has no part in the embedding
        name.split("encoder.")[1][:7] if "layer." in name else "embeddings"
        for name, value in retrokit.load(str(tmp_path / "run")).model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert changed == trained


def test_freezing_a_gpt2_keeps_its_positions_too():
    config = GPT2Config(vocab_size=20, n_positions=8, n_embd=4, n_layer=2, n_head=1)
    decoder = GPT2Model(config)
    assert restrict(decoder, "gpt2", "first:1", None)
    still = {name.split(".")[0] for name, value in decoder.named_parameters() if not value.requires_grad}
    assert still == {"wte", "wpe", "h"}
    assert {name[:3] for name, value in decoder.named_parameters() if value.requires_grad} == {"h.1", "ln_"}


def test_dropout_of_zero_is_none():
    assert not has_dropout(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.0)))
    assert has_dropout(torch.nn.Sequential(torch.nn.Dropout(0.0), torch.nn.Dropout(0.1)))
    config = GPT2Config(vocab_size=20, n_positions=8, n_embd=4, n_layer=1, n_head=1)
    assert has_dropout(GPT2Model(config))


def test_weights_decay_but_not_what_a_similarity_learns(tiny_bert, pairs, tmp_path):
    made = plan(configure(tiny_bert, pairs, None, sim="learn", weight_decay=0.5))
    trainer = made.trainer(Options(output_dir=str(tmp_path / "checkpoints"), use_cpu=True, weight_decay=0.5))
    decays = {
        id(value): group["weight_decay"]
        for group in trainer.create_optimizer().param_groups
        for value in group["params"]
    }
    of = {name: decays[id(value)] for name, value in trainer.model.named_parameters() if value.requires_grad}
    assert {value for name, value in of.items() if "gamma" in name} == {0.0}
    assert sum("gamma" in name for name in of) == 2
    assert {value for name, value in of.items() if name.endswith("dense.weight")} == {0.5}
    assert {value for name, value in of.items() if name.endswith("bias")} == {0.0}


@pytest.mark.parametrize(("schedule", "named"), [("cosine", "cosine"), ("constant", "constant_with_warmup")])
def test_what_is_set_of_the_optimizer_reaches_it(tiny_bert, pairs, tmp_path, monkeypatch, schedule, named):
    seen = []
    create = FinetuneTrainer.create_optimizer

    def noted(self, *given):
        optimizer = create(self, *given)
        rates = {group["lr"] for group in optimizer.param_groups}
        decays = {group["weight_decay"] for group in optimizer.param_groups}
        seen.append((self.args, optimizer.defaults["betas"], rates, decays))
        return optimizer

    monkeypatch.setattr(FinetuneTrainer, "create_optimizer", noted)
    rates = {"sim": "learn", "lr": 0.01, "sim_lr": 0.2, "warmup": 0.25, "schedule": schedule}
    options = {"weight_decay": 0.3, "max_grad_norm": 0.7, "adam_betas": (0.8, 0.95), "seed": 5, "accumulate": 2}
    finetune(configure(tiny_bert, pairs, tmp_path / "run", steps=1, **rates, **options))
    args, betas, learning_rates, decays = seen[0]
    assert (betas, learning_rates, decays) == ((0.8, 0.95), {0.01, 0.2}, {0.0, 0.3})
    assert (args.max_grad_norm, args.seed, args.gradient_accumulation_steps) == (0.7, 5, 2)
    assert (args.warmup_steps, args.lr_scheduler_type) == (0.25, named)


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama", "tiny_t5"])
def test_lora_is_saved_as_an_adapter_that_loads_with_its_base(request, pairs, tmp_path, monkeypatch, model):
    base = Path(shutil.copytree(request.getfixturevalue(model), tmp_path / "base"))
    monkeypatch.chdir(tmp_path)
    options = {"lr": 1e-2, "sim": "dot", "dropout": 0.0, "save_every": 4}
    finetune(configure(Path("base"), pairs, tmp_path / "merged", lora="2,merge=true", **options))
    finetune(configure(Path("base"), pairs, tmp_path / "run", lora=2, **options))
    monkeypatch.chdir(tmp_path.parent)
    merged = retrokit.load(str(tmp_path / "merged")).embed(sentences(5), "query", "fp32")
    assert np.abs(merged - retrokit.encoder(str(base)).embed(sentences(5), "query", "fp32")).max() > 1e-3
    for folder in (tmp_path / "run", tmp_path / "run" / "checkpoints" / "checkpoint-4"):
        weights_saved = {path.name: path.stat().st_size for path in folder.rglob("*.safetensors")}
        assert weights_saved.keys() == {"adapter_model.safetensors"}
    assert not (tmp_path / "merged" / "adapter_config.json").exists()
    found = retrokit.load(str(tmp_path / "run"))
    assert_rounded(found.embed(sentences(5), "query", "fp32"), merged)
    assert not any("lora" in name for name in found.to_train().model.state_dict()), "it computes as the base does"
    plain = SentenceTransformer(str(tmp_path / "run"), device="cpu")
    assert_rounded(plain.encode_query(sentences(5)), merged)


def test_the_best_weights_are_kept_and_patience_stops(tiny_bert, pairs, benchmark, tmp_path, monkeypatch):
    values = iter([0.1, 0.2, 0.9, 0.3, 0.4, 0.5])
    seen: dict[float, dict[str, torch.Tensor]] = {}

    def evaluate(self):
        value = next(values)
        seen[value] = {n: v.detach().clone() for n, v in self.model.state_dict().items()}
        return {"benchmark:ndcg@10": value}

    monkeypatch.setattr(FinetuneTrainer, "measure", evaluate)
    options = {"eval": f"beir:{benchmark}", "eval_every": 2, "patience": 2, "steps": 20}
    outcome = finetune(configure(tiny_bert, pairs, tmp_path / "run", **options))
    assert (outcome.steps, outcome.best_step) == (8, 4)
    assert outcome.stopped_because == "no better for 2 evaluations"
    for name, value in retrokit.load(str(tmp_path / "run")).model.state_dict().items():
        assert torch.equal(value, seen[0.9][name])


def test_convergence_is_mags_criterion():
    def history(values):
        rows = [{"step": 10 * i, "evaluation": {"m": v}} for i, v in enumerate(values)]
        return History(Path("nowhere"), rows, "m", writes=False)

    assert history([0.9, 0.5, 0.6, 0.6]).best == (20, 0.6), "not the start, and the earliest of equals"
    assert history([0.9]).best is None
    steady = [0.1, 0.5, 0.6, 0.601, 0.602, 0.601, 0.6, 0.599]
    assert history(steady).converged_at() == 60  # the first five that deviate by less than 0.002: steps 20 to 60
    assert history([*steady[:6]]).converged_at() is None
    assert history([*steady[:7]]).converged_at() == 60, "the latest evaluation counts"
    assert history([0.63, *steady[2:]]).converged_at() is None  # more than 0.02 below the best


def test_time_budget_sets_the_steps_by_measured_speed(tiny_bert, pairs, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("retrokit.training.callback.seconds_per_step", lambda trainer: 25.0)
    outcome = finetune(configure(tiny_bert, pairs, tmp_path / "run", steps=None, time_budget=200.0))
    assert outcome.steps == 8
    assert any("too few to learn much" in line for line in caplog.messages)
    monkeypatch.setattr("retrokit.training.callback.seconds_per_step", lambda trainer: 1e-5)
    outcome = finetune(configure(tiny_bert, pairs, tmp_path / "short", steps=None, time_budget=0.2))
    assert outcome.stopped_because == "time budget spent"
    assert 0 < outcome.steps < 2000


def test_the_card_has_facts_and_none_of_the_texts(tiny_bert, pairs, benchmark, tmp_path):
    finetune(configure(tiny_bert, pairs, tmp_path / "run", sim="sfs:4", eval=f"beir:{benchmark}"))
    card = (tmp_path / "run" / "README.md").read_text()
    assert "`sfs:4`" in card
    assert "| pairs | 32 | 32 | 32 |" in card or "pairs.jsonl | 32 | 32 | 32 |" in card
    assert "ndcg@10" in card
    assert "trust_remote_code=True" in card
    everything = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and path.suffix != ".safetensors"]
    for path in everything:
        if path.name != "tokenizer.json":
            assert not any(text in path.read_text(errors="ignore") for text in sentences(64)), path
    snippet = card.split("```python\n")[1].split("```")[0].replace('"run"', repr(str(tmp_path / "run")))
    scope: dict = {}
    exec(snippet, scope)
    assert scope["scores"].shape == (1, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "tripplet"}, "unknown loss 'tripplet'; known: infonce, kl, margin-mse, mse"),
        ({"loss": "kl+kl:2"}, "`loss=` kl+kl:2 names a loss twice"),
        ({"loss": "infonce+mse"}, "mse is for scored pairs, and no part of a sum"),
        ({"loss": "kl:temperature=0"}, "temperature=0 must be above 0"),
        ({"epochs": 1.0, "time_budget": 3.0}, "`time_budget=` and `epochs=` exclude each other"),
        ({"scale": 10.0, "temperature": 0.1}, "exclude each other"),
        ({"freeze": "half"}, "is not embeddings, first:N or all-but:K"),
        ({"freeze": "first:9"}, "has 2 layers"),
        ({"freeze": "first:2"}, "is left to train"),
        ({"freeze": "all-but:0"}, "is left to train"),
        ({"sim": "qnorm", "sim_lr": 0.1}, "has no weights to learn"),
        ({"patience": 2}, "`patience=` needs"),
        ({"precision": "fp16"}, "`precision=` fp16 needs a GPU"),
        ({"matryoshka": (32,)}, "has 16 dimensions"),
        ({"sim": "sfs:7"}, "size 7 does not divide 16; sizes that do: 1, 2, 4, 8, 16"),
        ({"lr": -1.0}, "`lr=` -1.0 must be above 0"),
        ({"eval_every": 5}, "`eval_every=` needs `eval=`"),
        ({"loss": "infonce:guide=minilmm"}, "minilmm"),
        ({"loss": "infonce:guide=static:8,margin=-1"}, "margin"),
        ({"loss": "infonce:margin=0.1+kl"}, "margin and margin_type need guide=SPEC"),
        ({"loss": "kl:guide=static:8"}, "kl has no parameter 'guide'"),
        ({"no_duplicates": True, "loss": "mse"}, "`no_duplicates=` needs `loss=` infonce"),
        ({"accumulate": 0}, "`accumulate=` 0 is out of range (at least 1)"),
        ({"scale": "many"}, "`scale=` many: expected a number or auto"),
        ({"batch_size": 0}, "`batch_size=` 0 is out of range (at least 1)"),
        (
            {"batch_size": 8, "mini_batch": 9},
            "`mini_batch=` 9 is more than the queries or the documents of a batch of 8",
        ),
        ({"max_length": 65}, "`max_length=` 65: TINY reads 64 tokens of a text; give at most that"),
        ({"loss": "infonce:guide=static:8", "augment": ("crops",)}, "with a guide and `augment=` exclude each other"),
    ],
)
def test_wrong_options_are_said(tiny_bert, pairs, options, message):
    with pytest.raises(UsageError) as caught:
        plan(configure(tiny_bert, pairs, None, **options))
    assert message.replace("TINY", str(tiny_bert)) in str(caught.value)
