"""What a cast leaves in float32: the buffers that the library itself keeps there when it loads a model in the type."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    Gemma3TextConfig,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedConfig,
    Qwen3Config,
)

import retrokit
from retrokit.encoders.packed import computing
from retrokit.ranking.reranking.library import cross_encoder
from tests.models import sentences

SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
DECODER = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 300, "max_position_embeddings": 4096}
CONFIGURATIONS = {
    "qwen3": Qwen3Config(**DECODER, initializer_range=0.2),
    "llama": LlamaConfig(**DECODER),
    "gemma3": Gemma3TextConfig(**DECODER, query_pre_attn_scalar=16),
    "modernbert": ModernBertConfig(**SIZES, vocab_size=300, pad_token_id=0, cls_token_id=1, sep_token_id=2),
}
TYPES = [torch.bfloat16, torch.float16]


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def checkpoint(request, tmp_path_factory, tiny_llama) -> Path:
    return saved(CONFIGURATIONS[request.param], tmp_path_factory.mktemp(request.param), tiny_llama)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory, tiny_llama) -> Path:
    return saved(CONFIGURATIONS["qwen3"], tmp_path_factory.mktemp("qwen"), tiny_llama)


def saved(config: PreTrainedConfig, folder: Path, tiny_llama: Path, kind: type = AutoModel) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kind.from_config(config).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama, model_max_length=4096, pad_token="</s>")
    tokenizer.save_pretrained(folder)
    return folder


def buffers(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer for name, buffer in module.named_buffers() if buffer.is_floating_point()}


def assert_as_loaded(module: nn.Module, checkpoint: Path, dtype: torch.dtype) -> None:
    """Buffers and weights are those that the library loads in ``dtype``."""
    expected = AutoModel.from_pretrained(checkpoint, dtype=dtype)
    assert any(buffer.dtype == torch.float32 for buffer in buffers(expected).values())
    for part in (buffers, lambda model: dict(model.named_parameters())):
        found, wanted = part(module), part(expected)
        assert found.keys() == wanted.keys()
        for name, tensor in wanted.items():
            assert found[name].dtype == tensor.dtype, name
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_what_computes_is_as_the_library_loads_it(checkpoint, dtype):
    exact = retrokit.encoder(str(checkpoint), device="cpu")
    with torch.inference_mode():
        copied = computing(exact.to_train().model[0], dtype)
    # packed layers hold the same weights
    assert_as_loaded(copied.model, checkpoint, dtype)
    assert {tensor.dtype for tensor in exact.to_train().model.parameters()} == {torch.float32}


@pytest.mark.parametrize("dtype", TYPES)
def test_a_model_is_loaded_in_a_type_as_the_library_does(checkpoint, dtype):
    name = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    loaded = retrokit.encoder(f"{checkpoint},dtype={name}", device="cpu")
    assert_as_loaded(loaded.to_train().model[0].model, checkpoint, dtype)
    fresh = retrokit.encoder(f"scratch:architecture={checkpoint},dtype={name}", device="cpu")
    for name, tensor in buffers(loaded.to_train().model).items():
        torch.testing.assert_close(buffers(fresh.model)[name], tensor, rtol=0, atol=0)


def test_a_checkpoint_stored_in_bf16_computes_in_float32_exactly(checkpoint, tmp_path):
    AutoModel.from_pretrained(checkpoint, dtype=torch.bfloat16).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path)
    own, exact = (retrokit.encoder(f"{tmp_path}{options}", device="cpu") for options in ("", ",dtype=fp32"))
    expected = AutoModel.from_pretrained(checkpoint, dtype=torch.float32)
    # the library rounds a scale that Gemma 3 multiplies its embeddings by
    rounding = 2**-8 if checkpoint.name.startswith("gemma3") else 0
    for encoder, dtype, error in ((own, torch.bfloat16, rounding), (exact, torch.float32, 0)):
        model = encoder.to_train().model
        assert {parameter.dtype for parameter in model.parameters()} == {dtype}
        for name, tensor in buffers(expected).items():
            torch.testing.assert_close(
                buffers(model[0].model)[name], tensor, rtol=error, atol=0, check_dtype=not rounding
            )
    found, wanted = (encoder.embed(sentences(6), "query", "fp32") for encoder in (own, exact))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_cross_encoder_keeps_its_rotary_frequencies(tmp_path, tiny_llama, dtype):
    config = copy.deepcopy(CONFIGURATIONS["qwen3"])
    config.num_labels, config.pad_token_id = 1, 2
    folder = saved(config, tmp_path, tiny_llama, AutoModelForSequenceClassification)
    loaded = cross_encoder(str(folder), None, dtype, "cpu").model[0].model
    exact = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    assert {tensor.dtype for tensor in loaded.parameters()} == {torch.bfloat16 if dtype == "bf16" else torch.float16}
    for name, tensor in buffers(exact).items():
        torch.testing.assert_close(buffers(loaded)[name], tensor, rtol=0, atol=0)


def test_far_tokens_lose_no_more_than_the_library_does(qwen):
    """A decoder's last token at 2,048 tokens, and every token's embedding."""
    texts = [" ".join(sentences(600))]
    encoder = retrokit.encoder(f"{qwen},pooling=last,max_length=2048", device="cpu")
    expected = retrokit.encoder(f"{qwen},pooling=last,max_length=2048", device="cpu")
    expected.model[0].model = AutoModel.from_pretrained(qwen, dtype=torch.bfloat16)
    exact = encoder.embed(texts, "document", "fp32")
    ours, theirs = (one.embed(texts, "document", "bf16") for one in (encoder, expected))
    assert deviation(ours, exact) <= 4 * deviation(theirs, exact)  # of one vector, whose roundings chance has a say in
    exact = np.concatenate(encoder.token_embeddings(texts, "document", "fp32"))
    ours, theirs = (np.concatenate(one.token_embeddings(texts, "document", "bf16")) for one in (encoder, expected))
    assert deviation(ours, exact) <= 1.5 * deviation(theirs, exact)


def deviation(some: np.ndarray, others: np.ndarray) -> float:
    """Mean of 1 − cos of the rows."""
    lengths = np.linalg.norm(some, axis=1) * np.linalg.norm(others, axis=1)
    return float((1 - (some * others).sum(1) / lengths).mean())


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_what_follows_the_transformer_stays_in_float32(tmp_path, tiny_bert, dtype):
    modules = [Transformer(str(tiny_bert)), Pooling(16, "mean"), Dense(16, 8)]
    SentenceTransformer(modules=modules, device="cpu").save(str(tmp_path))
    exact = retrokit.encoder(str(tmp_path), device="cpu").embed(["a cat"], "query", "fp32")
    rough = retrokit.encoder(f"{tmp_path},dtype={dtype}", device="cpu")
    assert {tensor.dtype for tensor in rough.model[2].parameters()} == {torch.float32}
    assert deviation(rough.embed(["a cat"], "query", "fp32"), exact) < 1e-3
