"""Transformers computed by OpenVINO and by ONNX Runtime: the same embeddings as PyTorch's, or nearly, in 8 bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import DataError, MissingExtra, UsageError
from retrokit.core.notices import listening
from retrokit.data.jsonl import write_json
from retrokit.encoders.graphs.folders import clear_graphs, held_graphs
from tests.evaluation.fakes import Notices, write_folder
from tests.models import make_bert, make_llama, sentences

BACKENDS = ("openvino", "onnx")
TEXTS = [*sentences(20), "cat", "a dog runs over the far river and the bird sleeps " * 20, ""]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("bert"), dimension=32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found: np.ndarray = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_fp32_is_the_models(backend: str, pooling: str, bert: Path, tmp_path: Path) -> None:
    folder = bert if pooling == "mean" else make_llama(tmp_path / "llama")
    prompts = 'query_prompt="who ",max_length=40'
    plain = retrokit.encoder(f"{folder},{prompts},pooling={pooling}")
    made = retrokit.encoder(f"{folder},{prompts},pooling={pooling},backend={backend}")
    for role in ("query", "document"):
        expected = plain.embed(TEXTS, role, "fp32")
        tolerance = 2**8 * np.finfo(np.float32).eps * np.abs(expected).max()
        np.testing.assert_allclose(made.embed(TEXTS, role), expected, rtol=0, atol=tolerance)
    tokens = made.with_tokens().token_embeddings(TEXTS, "query")
    for token, known in zip(tokens, plain.with_tokens().token_embeddings(TEXTS, "query", "fp32"), strict=True):
        assert token.shape == known.shape
        np.testing.assert_allclose(token, known, rtol=0, atol=2**10 * np.finfo(np.float32).eps)
    assert made.computes_in() == "float32"
    assert made.fingerprint() != plain.fingerprint()


@pytest.mark.parametrize("backend", BACKENDS)
def test_int8_is_near_the_model_and_is_converted_once(
    backend: str,
    bert: Path,
    cache: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("INFO")
    spec = f"{bert},backend={backend},dtype=int8"
    made = retrokit.encoder(spec)
    embeddings = made.embed(TEXTS, "document")
    assert cosines(embeddings, retrokit.encoder(str(bert)).embed(TEXTS, "document", "fp32")).min() > 0.9
    assert made.computes_in() == "int8"
    assert "cosine to fp32 at least" in caplog.text
    (about,) = cache.glob("graphs/*/conversion.json")
    assert json.loads(about.read_text())["said"] in caplog.text

    assert capfd.readouterr().out == "", "standard output is the command's"
    (held,) = held_graphs(cache)
    assert (held.spec, held.backend, held.dtype) == (made.spec, backend, "int8")

    caplog.clear()
    again = retrokit.encoder(spec)
    assert again.fingerprint() == made.fingerprint()
    np.testing.assert_array_equal(again.embed([*TEXTS, "new"], "document")[:-1], embeddings)
    assert "converted" not in caplog.text
    clear_graphs(cache)
    assert held_graphs(cache) == []


def test_only_conversions_are_removed(tmp_path: Path) -> None:
    conversion = tmp_path / "graphs" / ("0123456789abcdef" * 2)
    for folder in (conversion, tmp_path / "graphs" / "mine", tmp_path / "graphs" / ("0" * 32)):
        folder.mkdir(parents=True)
        (folder / "notes.txt").write_text("years of work")
    about = {"spec": "minilm", "backend": "onnx", "dtype": "int8", "said": ""}
    write_json(conversion / "conversion.json", about, kind="conversion")
    (tmp_path / "graphs" / "mine" / "conversion.json").write_text('{"of": "a user"}')
    Path(f"{conversion}.lock").touch()
    assert [graph.spec for graph in held_graphs(tmp_path)] == ["minilm"]
    clear_graphs(tmp_path)
    assert sorted(path.name for path in (tmp_path / "graphs").iterdir()) == ["0" * 32, "mine"]
    assert held_graphs(tmp_path) == []


def test_nobody_is_told_of_a_conversion(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from openvino_telemetry.backend import backend_ga4

    told = []
    monkeypatch.setattr(backend_ga4.GA4Backend, "send", lambda *given: told.append(given))
    monkeypatch.delenv("CI", raising=False)
    retrokit.encoder(f"{bert},backend=openvino").embed(["a cat"], "query")
    assert told == []
    assert "CI" not in os.environ


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("dtype=int8", "backend=openvino or backend=onnx"),
        ("backend=onnx,dtype=bf16", "with dtype fp32 or int8"),
        ("backend=tensorrt", "openvino"),
    ],
)
def test_what_does_not_fit(options: str, problem: str, bert: Path) -> None:
    with pytest.raises((UsageError, DataError), match=problem):
        retrokit.encoder(f"{bert},{options}")


@pytest.mark.parametrize("spec", ["static:8,dtype=int8", "minilm:backend=onnx", "scratch:minilm,dtype=int8"])
def test_other_names(spec: str) -> None:
    if spec.startswith("minilm"):
        with pytest.raises(UsageError, match="on the CPU"):
            retrokit.encoder(spec, device="cuda")
    else:
        with pytest.raises(UsageError, match="int8"):
            retrokit.encoder(spec)


def test_what_a_graph_cannot_do(bert: Path) -> None:
    made = retrokit.encoder(f"{bert},backend=onnx")
    with pytest.raises(UsageError, match="shows no layers"):
        made.with_layers()
    with pytest.raises(UsageError, match="cannot be trained"):
        made.to_train()
    with pytest.raises(UsageError, match="`precision=` bf16 is for backend=torch"):
        made.embed(["a"], "query", "bf16")


def test_a_precision_of_another_backend_is_refused_before_the_first_is_computed(bert: Path, tmp_path: Path) -> None:
    systems = ["static:8", f"{bert},backend=onnx"]
    task = write_folder(tmp_path / "data", {"d1": "a cat"}, {"q1": "cat"}, {"q1": {"d1": 1}})
    with listening(said := Notices()), pytest.raises(UsageError, match="`precision=` bf16 is for backend=torch"):
        retrokit.evaluate(systems, [f"beir:{task}"], precision="bf16")
    assert not said.messages


def test_the_engine_is_an_extra(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtra, match=r"retrokit-ir\[openvino\]"):
        retrokit.encoder(f"{bert},backend=openvino")


def test_a_graph_that_computes_otherwise_is_refused(bert: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrokit.encoders.graphs import onnx

    read = onnx.read

    def wrong(folder: Path, threads: int) -> object:
        compute = read(folder, threads)
        return lambda inputs: compute(inputs)[:, ::-1].copy() - 3

    monkeypatch.setattr(onnx, "read", wrong)
    with pytest.raises(DataError, match="the median cosine to the model"):
        retrokit.encoder(f"{bert},backend=onnx").embed(["a"], "query")
    assert not list(cache.glob("graphs/*/conversion.json"))


def test_ctrl_c_is_met_after_several_models(bert: Path, cache: Path) -> None:
    code = f"""
import gc, os, signal
import retrokit
held = []
for dtype in ("fp32", "int8", "fp32"):
    held.append(retrokit.encoder(f"{bert},backend=openvino,dtype={{dtype}}"))
    held[-1].embed(["cat"], "query")
while held:
    del held[0]
    gc.collect()
signal.signal(signal.SIGINT, lambda *_: print("asked to stop"))
os.kill(os.getpid(), signal.SIGINT)
"""
    run = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "asked to stop" in run.stdout
