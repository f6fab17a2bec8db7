"""Encoding, search, training, evaluation and reranking on a GPU, against the CPU: ``python -m pytest -m cuda``."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import retrokit
from retrokit import cli
from retrokit.data.images import open_image
from retrokit.data.jsonl import write_jsonl
from retrokit.data.trec import read_run
from retrokit.ranking.reranking import registry as rerankers
from retrokit.ranking.retrieval.exact import top_k
from tests.evaluation.fakes import write_folder
from tests.models import sentences
from tests.pictures import make_picture

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that CUDA knows"),
]
DEVICE = "cuda"
TEXTS = [*sentences(60), "cat", "a dog runs over the far river " * 8]
Command = Callable[..., dict[str, object]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command that ends well; its JSON, if it prints any."""

    def command(*words: object) -> dict[str, object]:
        capsys.readouterr()
        code = cli.run([*map(str, words)])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return json.loads(shown.out) if "--json" in words else {}

    return command


@pytest.fixture
def data(tmp_path: Path) -> str:
    documents = {f"d{place}": text for place, text in enumerate(TEXTS[:40])}
    queries = {f"q{place}": text.split(" ", 1)[-1] for place, text in enumerate(TEXTS[:20])}
    return f"beir:{write_folder(tmp_path / 'data', documents, queries, {q: {'d' + q[1:]: 1} for q in queries})}"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    rows = ({"anchor": text.split(" ", 1)[-1], "positive": text} for text in sentences(64, seed=5))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(("precision", "least"), [("fp32", 0.99999), ("bf16", 0.995), ("fp16", 0.999)])
def test_embeddings_are_those_of_the_cpu(tiny_bert: Path, tiny_llama: Path, precision: str, least: float) -> None:
    for spec in (str(tiny_bert), f"{tiny_llama},pooling=last", "static:16"):
        here, there = (retrokit.encoder(spec, device=device) for device in ("cpu", DEVICE))
        assert there.device.type == DEVICE
        a, b = here.embed(TEXTS, "query", "fp32"), there.embed(TEXTS, "query", precision)
        cosines = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        assert cosines.min() > least, spec


@pytest.mark.parametrize(("precision", "least"), [("fp32", 0.99999), ("bf16", 0.99), ("fp16", 0.999)])
def test_images_are_embedded_and_trained_as_on_the_cpu(
    run: Command, tiny_clip: Path, tmp_path: Path, precision: str, least: float
) -> None:
    items = [*TEXTS[:8], *(open_image(make_picture(tmp_path / f"{i}.png", i)) for i in range(8))]
    here, there = (retrokit.encoder(f"clip:{tiny_clip}", device=device) for device in ("cpu", DEVICE))
    a, b = here.embed(items, "query", "fp32"), there.embed(items, "query", precision)
    assert ((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min() > least
    rows = [{"anchor": text, "positive": {"image": f"{i}.png"}} for i, text in enumerate(TEXTS[:8])]
    write_jsonl(tmp_path / "pairs.jsonl", rows)
    made = ["finetune", f"clip:{tiny_clip}", "--data", tmp_path / "pairs.jsonl", "--device", DEVICE, "--steps", 6]
    run(*made, "--batch-size", 8, "--precision", precision, "--lr", "1e-3", "-o", tmp_path / "run")
    after = retrokit.load(str(tmp_path / "run"), device="cpu").embed(items, "query", "fp32")
    assert np.isfinite(after).all()
    assert (np.abs(after - a).max(axis=1) > 1e-3).all()


@pytest.mark.parametrize("spec", ["cosine", "dot", "qnorm", "dnorm", "sfs:4", "l2", "l1", "sfs:size=4,base=l2"])
def test_search_finds_what_the_cpu_finds(spec: str) -> None:
    generator = np.random.default_rng(0)
    queries, documents = (generator.normal(size=(count, 16)).astype(np.float32) for count in (30, 500))
    similarity = retrokit.similarity(spec)
    here, there = (top_k(similarity, queries, documents, 10, device) for device in ("cpu", DEVICE))
    np.testing.assert_allclose(there[0], here[0], rtol=2**10 * np.finfo(np.float32).eps, atol=1e-5)
    assert np.mean(np.asarray(there[1]) == np.asarray(here[1])) > 0.99


@pytest.mark.parametrize("dtype", ["float16", "int8", "binary"])
def test_an_export_is_made_and_searched_as_on_the_cpu(
    run: Command, data: str, tiny_bert: Path, tmp_path: Path, dtype: str
) -> None:
    runs = []
    for device in ("cpu", DEVICE):
        where = ["--precision", "fp32", "--device", device]
        run("export", tiny_bert, "--on", data, "-o", tmp_path / device, "--dtype", dtype, *where, "--overwrite")
        words = ["--queries", data, "-k", 5, "-o", tmp_path / "run.trec", *where]
        run("search", "--index-folder", tmp_path / device, *words)
        runs.append(read_run(tmp_path / "run.trec"))
    step = {"float16": 2e-3, "int8": 2e-2, "binary": 2}[dtype]  # a number of the export may round to its neighbour
    for here, there in zip(*(made.values() for made in runs), strict=True):
        assert sorted(there.values()) == pytest.approx(sorted(here.values()), abs=step)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_learns_and_goes_on(
    run: Command, pairs: Path, tiny_bert: Path, tmp_path: Path, precision: str
) -> None:
    made = ["finetune", tiny_bert, "--data", pairs, "--device", DEVICE, "--precision", precision, "--batch-size", 8]
    made += ["--steps", 12, "--save-every", 6, "--lr", "1e-3"]
    run(*made, "-o", tmp_path / "whole")
    losses = [json.loads(line) for line in (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()]
    found = [row["loss"] for row in losses if "loss" in row]
    assert np.isfinite(found).all()
    assert found[-1] < found[0]
    before, after = retrokit.encoder(str(tiny_bert), device="cpu"), retrokit.load(str(tmp_path / "whole"), device="cpu")
    assert np.abs(before.embed(TEXTS, "query") - after.embed(TEXTS, "query")).max() > 1e-3


def test_an_adapter_is_loaded_with_its_base(run: Command, pairs: Path, tiny_bert: Path, tmp_path: Path) -> None:
    made = ["finetune", tiny_bert, "--data", pairs, "--device", DEVICE, "--batch-size", 8, "--steps", 4]
    made.append("--deterministic")
    found = []
    for name, lora in {"adapter": "2", "whole": "2,merge=true"}.items():
        run(*made, "--precision", "fp32", "--lr", "1e-2", "--dropout", "0", "--lora", lora, "-o", tmp_path / name)
        found.append(retrokit.load(str(tmp_path / name), device="cpu").embed(TEXTS, "query", "fp32"))
    np.testing.assert_allclose(found[0], found[1], rtol=2**10 * np.finfo(np.float32).eps, atol=1e-5)


@pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="needs the extra bits")
@pytest.mark.parametrize("bits", [4, 8])
def test_a_base_of_few_bits_takes_an_adapter(
    run: Command, pairs: Path, tiny_llama: Path, tmp_path: Path, bits: int
) -> None:
    made = ["finetune", f"model:{tiny_llama},bits={bits}", "--data", pairs, "--device", DEVICE, "--batch-size", 8]
    run(*made, "--steps", 4, "--lora", 2, "--lr", "1e-2", "-o", tmp_path / "run")
    found = [retrokit.load(str(tmp_path / "run"), device="cpu"), retrokit.encoder(str(tiny_llama), device="cpu")]
    embeddings = [one.embed(TEXTS, "query", "fp32") for one in found]
    assert np.isfinite(embeddings[0]).all()
    assert np.abs(embeddings[0] - embeddings[1]).max() > 1e-3


def test_evaluation_is_that_of_the_cpu(run: Command, data: str, tiny_bert: Path) -> None:
    words = ("eval", tiny_bert, "--on", data, "--precision", "fp32", "--json")
    here, there = (run(*words, "--device", device)["results"] for device in ("cpu", DEVICE))
    for a, b in zip(here, there, strict=True):  # type: ignore[call-overload]
        assert a["metrics"] == pytest.approx(b["metrics"], abs=1e-6)


@pytest.mark.parametrize("reranker", ["mean", "maxsim", "soft"])
def test_reranking_is_that_of_the_cpu(tiny_bert: Path, reranker: str) -> None:
    queries, documents = TEXTS[:20], TEXTS[20:40]
    made = [rerankers.create(f"{reranker}:encoder={tiny_bert}", device=device) for device in ("cpu", DEVICE)]
    here, there = (one.score_pairs(queries, documents) for one in made)
    np.testing.assert_allclose(there, here, rtol=2**10 * np.finfo(np.float32).eps, atol=1e-5)


def test_a_verifier_trains(run: Command, pairs: Path, tiny_bert: Path, tmp_path: Path) -> None:
    words = ("rerank", "train", "cnn", tiny_bert, "--data", pairs, "--device", DEVICE, "--steps", 4)
    run(*words, "--batch-size", 8, "-o", tmp_path / "verifier")
    scores = rerankers.create(f"cnn:{tmp_path / 'verifier'}", device=DEVICE).score_pairs(TEXTS[:4], TEXTS[4:8])
    assert np.isfinite(scores).all()
