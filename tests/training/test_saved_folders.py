"""What other software reads of the folders that are saved: prompts, pooling, modules and length."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

import retrokit
from retrokit.cli.entry import run as cli
from retrokit.core.notices import listening
from retrokit.data.jsonl import write_jsonl
from retrokit.encoders.saving import save_model
from tests.close import assert_rounded
from tests.evaluation.fakes import Notices
from tests.models import sentences
from tests.test_docs import ROOT

QUERIES, DOCUMENTS = sentences(5, seed=21), sentences(7, seed=22)
PAIR = {"query": "who sees ", "passage": "the mountain is "}
DEFAULT = {"prompts": PAIR, "default_prompt_name": "passage"}
PROMPTED: dict[str, tuple[dict[str, Any], str, tuple[str, str]]] = {
    "passage": ({"prompts": PAIR}, "", ("who sees ", "the mountain is ")),
    "corpus": ({"prompts": {"query": "who sees ", "corpus": "a tree "}}, "", ("who sees ", "a tree ")),
    "s2p_query": ({"prompts": {"s2p_query": "who sees ", "s2s_query": "four "}}, "", ("who sees ", "")),
    "document": ({"prompts": {"query": "who sees ", "document": "a tree "}}, "", ("who sees ", "a tree ")),
    "default": ({"prompts": {"sts": "one ", **PAIR}, "default_prompt_name": "sts"}, "", tuple(PAIR.values())),
    "none": ({}, "", ("", "")),
    "of the user": (DEFAULT, ",document_prompt=near", ("who sees ", "near")),
    "none of the user's": (DEFAULT, ",document_prompt=", ("who sees ", "")),
}
"""Settings of a base, the options with which it is opened, and the prompts before queries and documents."""


def prompted(folder: Path, bert: Path, settings: dict[str, Any]) -> Path:
    SentenceTransformer(str(bert), device="cpu", **settings).save(str(folder), create_model_card=False)
    return folder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pairs.jsonl"
    texts = zip(sentences(16, seed=1), sentences(16, seed=2), strict=True)
    write_jsonl(path, [{"anchor": query, "positive": document} for query, document in texts])
    return path


def finetuned(base: str, pairs: Path, output: Path, *more: str) -> Path:
    options = ("--batch-size", "8", "--epochs", "1", "--lr", "0.01", "--device", "cpu", "--precision", "fp32")
    assert cli(["finetune", base, "--data", str(pairs), "-o", str(output), *options, *more]) == 0
    return output


def scores_of_readme(folder: Path) -> np.ndarray:
    """What the snippet of the README computes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    snippet = next(block for block in text.split("```python\n") if "SentenceTransformer(" in block).partition("```")[0]
    for shown, own in (
        ('"runs/mine"', f"{str(folder)!r}, device='cpu'"),
        ('["a question"]', repr(QUERIES)),
        ('["its answer"]', repr(DOCUMENTS)),
    ):
        assert snippet.count(shown) == 1
        snippet = snippet.replace(shown, own)
    names: dict[str, Any] = {}
    exec(snippet, names)
    return np.asarray(names["scores"])


def scores_of_retrokit(folder: Path) -> np.ndarray:
    encoder = retrokit.encoder(str(folder), device="cpu")
    rows = [
        torch.from_numpy(encoder.embed(texts, role, "fp32"))
        for texts, role in ((QUERIES, "query"), (DOCUMENTS, "document"))
    ]
    return np.asarray(encoder.similarity.score(*rows))


def assert_read_alike(folder: Path, prompts: tuple[str, str]) -> None:
    """Check a saved folder's prompts, and that the library and retrokit score alike."""
    saved = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))["prompts"]
    assert (saved["query"], saved["document"]) == prompts
    encoder = retrokit.encoder(str(folder), device="cpu")
    assert encoder.prompts == {"query": prompts[0] or None, "document": prompts[1] or None}
    assert_rounded(scores_of_readme(folder), scores_of_retrokit(folder), size=1)


@pytest.mark.parametrize("name", PROMPTED)
def test_the_readmes_snippet_embeds_as_retrokit_does(name: str, tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    settings, options, prompts = PROMPTED[name]
    base = prompted(tmp_path / "base", tiny_bert, settings)
    folder = finetuned(f"{base}{options}", pairs, tmp_path / "run", "--save-every", "1")
    checkpoints = sorted((folder / "checkpoints").iterdir())
    assert checkpoints
    for saved in (folder, checkpoints[-1]):
        with listening(notices := Notices()):
            assert_read_alike(saved, prompts)
        assert notices.messages == []
    others = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))["prompts"]
    assert {*settings.get("prompts", ())} <= {*others}


# --- servers


def pooling_of_vllm(folder: Path) -> tuple[str | None, bool]:
    """The switch that vLLM 0.9 (2025) takes from a folder, and whether it normalises."""
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    types = {module["type"]: module["path"] for module in modules}
    path = types.get("sentence_transformers.models.Pooling")
    settings = {} if path is None else json.loads((folder / path / "config.json").read_text(encoding="utf-8"))
    switch = next((name for name, value in settings.items() if value is True), None)
    return switch, "sentence_transformers.models.Normalize" in types


def settings_of_tei(folder: Path) -> tuple[list[str], int, dict[str, str]]:
    """What Text Embeddings Inference 1.9 takes from a folder: switches of the pooling, length and prompts."""
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
    switches = ["pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_lasttoken"]
    assert all(type(pooling[switch]) is bool for switch in switches)
    length = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))["max_seq_length"]
    assert type(length) is int
    prompts = json.loads((folder / "config_sentence_transformers.json").read_text(encoding="utf-8"))["prompts"]
    assert all(type(prompt) is str for prompt in prompts.values())
    return [switch for switch in switches if pooling[switch]], length, prompts


@pytest.mark.parametrize(
    ("pooling", "switch"),
    [("mean", "pooling_mode_mean_tokens"), ("cls", "pooling_mode_cls_token"), ("last", "pooling_mode_lasttoken")],
)
@pytest.mark.parametrize(("similarity", "normalises"), [("cosine", True), ("dot", False)])
def test_servers_read_pooling_normalisation_and_length(
    pooling: str, switch: str, similarity: str, normalises: bool, tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    base = f"{tiny_bert},pooling={pooling},max_length=40,query_prompt=who"
    folder = finetuned(base, pairs, tmp_path / "run", "--sim", similarity)
    assert pooling_of_vllm(folder) == (switch, normalises)
    assert settings_of_tei(folder) == ([switch], 40, {"query": "who", "document": ""})
    library = SentenceTransformer(str(folder), device="cpu")
    assert library.max_seq_length == 40
    (layer,) = (module for module in library if isinstance(module, Pooling))
    assert layer.pooling_mode == {"last": "lasttoken"}.get(pooling, pooling)
    assert_rounded(scores_of_readme(folder), scores_of_retrokit(folder), size=float(scores_of_retrokit(folder).max()))


@pytest.mark.parametrize("base", ["bert", "static"])
def test_releases_before_5_4_know_all_settings(base: str, tiny_bert: Path, pairs: Path, tmp_path: Path) -> None:
    """Those of the transformer are arguments of its class there, and an unknown one raises TypeError."""
    name, classes = {
        "bert": (str(tiny_bert), ["Transformer", "Pooling", "Normalize"]),
        "static": ("static:8", ["StaticEmbedding", "Normalize"]),
    }[base]
    folder = finetuned(name, pairs, tmp_path / "run")
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    assert [module["type"] for module in modules] == [f"sentence_transformers.models.{name}" for name in classes]
    if base == "bert":
        settings = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
        assert settings == {"max_seq_length": 64, "do_lower_case": False}


def test_settings_of_a_transformer_that_are_not_assumed_are_saved(tiny_bert: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(str(tiny_bert), device="cpu")
    modalities = {"text": {"method": "forward", "method_output_name": "hidden_states"}}
    model[0].modality_config = modalities
    save_model(model, tmp_path / "saved")
    settings = json.loads((tmp_path / "saved" / "sentence_bert_config.json").read_text(encoding="utf-8"))
    assert settings["modality_config"] == modalities
    assert settings["module_output_name"] == "token_embeddings"


def pooled(folder: Path, token_embeddings: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The vectors that a server without the library makes of token embeddings ``[n, tokens, d]``: by the first switch
    of the pooling, and normalised if ``modules.json`` says so."""
    switch, normalises = pooling_of_vllm(folder)
    if switch == "pooling_mode_cls_token":
        vectors = token_embeddings[:, 0]
    else:
        assert switch == "pooling_mode_mean_tokens"
        vectors = (token_embeddings * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalises else vectors


@pytest.mark.parametrize("server", ["transformers", "onnx"])
@pytest.mark.parametrize(("similarity", "pooling"), [("cosine", "mean"), ("dot", "cls"), ("qnorm", "mean")])
def test_another_library_gives_the_vectors_of_the_folder(
    server: str, similarity: str, pooling: str, tiny_bert: Path, pairs: Path, tmp_path: Path
) -> None:
    folder = finetuned(f"{tiny_bert},pooling={pooling}", pairs, tmp_path / "run", "--sim", similarity)
    model = AutoModel.from_pretrained(folder).eval()
    if server == "transformers":
        inputs = AutoTokenizer.from_pretrained(folder)(DOCUMENTS, padding=True, return_tensors="pt")
        with torch.inference_mode():
            tokens = model(**inputs).last_hidden_state.numpy()
        mask = inputs["attention_mask"].numpy()
    else:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.enable_padding()
        encodings = tokenizer.encode_batch(DOCUMENTS)
        ids = np.array([encoding.ids for encoding in encodings])
        mask = np.array([encoding.attention_mask for encoding in encodings])
        tokens = token_embeddings_in_onnx(model, ids, mask, tmp_path / "model.onnx")
    expected = SentenceTransformer(str(folder), device="cpu").encode_document(DOCUMENTS)
    np.testing.assert_allclose(pooled(folder, tokens, mask), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


class TokenEmbeddings(torch.nn.Module):
    """A model with tensors in and a tensor out, as a graph has them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


def token_embeddings_in_onnx(model: Any, ids: np.ndarray, mask: np.ndarray, file: Path) -> np.ndarray:
    """The token embeddings ``[n, tokens, d]`` of a graph that PyTorch writes, computed by ONNX Runtime."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="an extra")
    names = ["input_ids", "attention_mask"]
    arrays = (torch.from_numpy(ids), torch.from_numpy(mask))
    torch.onnx.export(TokenEmbeddings(model), arrays, file, input_names=names, dynamo=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(names, (ids, mask), strict=True)))[0])
