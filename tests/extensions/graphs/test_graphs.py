"""Transformers computed by OpenVINO and by ONNX Runtime: the same embeddings as PyTorch's, or nearly, in 8 bits."""

import json
from pathlib import Path

import numpy as np
import pytest

import retrokit
from retrokit.core.errors import DataError, ServiceError, UsageError
from retrokit.core.notices import listening
from retrokit.core.registry import Spec
from retrokit.encoders.kept import clear_kept, kept_in
from tests.evaluation.fakes import Notices, write_folder
from tests.models import make_bert, make_llama, sentences
from tests.test_private_members import test_a_minor_version_that_was_not_tried_is_not_taken as check_bound

BACKENDS = ("openvino", "onnx")
TEXTS = [*sentences(20), "cat", "a dog runs over the far river and the bird sleeps " * 20, ""]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("bert"), dimension=32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def around(backend: str, encoder: object, **params: str) -> str:
    """The spec of an encoder whose transformer the engine computes."""
    return str(Spec(backend, {"encoder": str(encoder), **params}, positional="encoder"))


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found: np.ndarray = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_fp32_is_the_models(backend: str, pooling: str, bert: Path, tmp_path: Path) -> None:
    folder = bert if pooling == "mean" else make_llama(tmp_path / "llama")
    prompts = 'query_prompt="who ",max_length=40'
    plain = retrokit.encoder(f"{folder},{prompts},pooling={pooling}")
    made = retrokit.encoder(around(backend, f"{folder},{prompts},pooling={pooling}"))
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
    spec = around(backend, bert, dtype="int8")
    made = retrokit.encoder(spec)
    embeddings = made.embed(TEXTS, "document")
    assert cosines(embeddings, retrokit.encoder(str(bert)).embed(TEXTS, "document", "fp32")).min() > 0.9
    assert made.computes_in() == "int8"
    assert "cosine to fp32 at least" in caplog.text
    (about,) = cache.glob("graphs/*/kept.json")
    assert json.loads(about.read_text())["said"] in caplog.text

    assert capfd.readouterr().out == "", "standard output is the command's"
    (folder,) = kept_in(cache)
    assert (folder.area, folder.name) == ("graphs", f"{backend}:{bert},dtype=int8")
    assert made.spec == folder.name

    caplog.clear()
    again = retrokit.encoder(spec)
    assert again.fingerprint() == made.fingerprint()
    np.testing.assert_array_equal(again.embed([*TEXTS, "new"], "document")[:-1], embeddings)
    assert "converted" not in caplog.text
    clear_kept(cache)
    assert kept_in(cache) == []


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("onnx:BERT,dtype=bf16", "dtype=bf16 is none of fp32, int8"),
        ("BERT,backend=onnx", "no parameter 'backend'"),
        ("BERT,dtype=int8", "dtype=int8 is none of auto, fp32"),
        ("onnx:BERT,pooling=cls", "onnx has no parameter 'pooling'"),
        ("onnx:model:BERT,pooling=cls", 'options of .* need quotes: onnx:"model:.*,pooling=cls"'),
        ("onnx", "onnx needs encoder"),
        ("onnx:static:8", "computes a transformer of texts, and static:8 has none"),
        ('onnx:"BERT,chunks=16"', "onnx:.*: chunks join embeddings"),
        ("onnx:openvino:BERT", "cannot be trained"),
        ("onnx:mnilm", "did you mean minilm"),
    ],
)
def test_what_does_not_fit(spec: str, problem: str, bert: Path) -> None:
    with pytest.raises((UsageError, DataError, ServiceError), match=problem):
        retrokit.encoder(spec.replace("BERT", str(bert)))


@pytest.mark.parametrize("place", ["cache", "off"])
def test_another_precision_is_refused_before_the_conversion(
    place: str, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / place) if place == "cache" else place)
    task = write_folder(tmp_path / "data", {"d1": "a cat"}, {"q1": "cat"}, {"q1": {"d1": 1}})
    made = retrokit.encoder(around("onnx", bert))
    refusal = "computes in fp32; leave `precision=` bf16 out"
    with listening(said := Notices()):
        with pytest.raises(UsageError, match=refusal):
            made.embed(["a"], "query", "bf16")
        with pytest.raises(UsageError, match=refusal):
            made.with_tokens().token_embeddings(["a"], "query", "bf16")
        with pytest.raises(UsageError, match=refusal):
            retrokit.evaluate([around("onnx", bert)], [f"beir:{task}"], precision="bf16")
    assert not [message for message in said.messages if "converting" in message]


@pytest.mark.parametrize("library", ["openvino", "nncf"])
def test_a_minor_version_that_was_not_tried_is_not_taken(library: str) -> None:
    """One has broken the package before."""
    check_bound(library)


def test_a_graph_that_computes_otherwise_is_refused(bert: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrokit.extensions.graphs import onnx

    read = onnx.read

    def wrong(folder: Path, threads: int) -> object:
        compute = read(folder, threads)
        return lambda inputs: compute(inputs)[:, ::-1].copy() - 3

    monkeypatch.setattr(onnx, "read", wrong)
    with pytest.raises(DataError, match="the median cosine to the model"):
        retrokit.encoder(around("onnx", bert)).embed(["a"], "query")
    assert not list(cache.glob("graphs/*/kept.json"))
