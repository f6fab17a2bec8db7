"""The copy that computes: the same values as the model itself, made anew when the model changes."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import nn
from torch.nn import functional
from transformers import (
    AutoModel,
    AutoTokenizer,
    Gemma3TextConfig,
    LlamaConfig,
    ModernBertConfig,
    PreTrainedConfig,
    Qwen3Config,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import retrokit
from retrokit.encoders import packed, precision
from retrokit.encoders.packed import PackedLinear, computing
from retrokit.encoders.precision import choose_precision
from tests.close import BF16_UNIT, assert_rounded
from tests.models import sentences

TEXTS = ["cat", *sentences(5, seed=3)]
BF16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this processor packs no bf16 layers"
)
SHORT_ATTENTION = ALL_ATTENTION_FUNCTIONS["retrokit_short"]
DTYPES = [torch.float32, pytest.param(torch.bfloat16, marks=BF16)]


def outputs(module: nn.Module, model, texts=TEXTS):
    with torch.inference_mode():
        return module(dict(model.preprocess(list(texts), task="document")))["token_embeddings"].float()


def made(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    with torch.inference_mode():
        return computing(module, dtype)


@pytest.fixture(params=["{bert}", "{llama}"])
def model(request, tiny_bert, tiny_llama):
    encoder = retrokit.encoder(request.param.format(bert=tiny_bert, llama=tiny_llama), device="cpu")
    return encoder.to_train().model.eval()


def test_it_computes_what_the_model_computes(model):
    plain, mask = outputs(model[0], model), model.preprocess(TEXTS)["attention_mask"].bool()
    assert_rounded(outputs(made(model[0], torch.float32), model)[mask], plain[mask])
    rough = outputs(made(model[0], torch.bfloat16), model)
    stock = outputs(copy.deepcopy(model[0]).to(torch.bfloat16), model)
    # both are roundings of the same: neither may be farther from it than bf16 is; over 20 seeds 0.9 times as far,
    # with an SD of 0.2
    assert (rough - plain)[mask].abs().max() < 2 * (stock - plain)[mask].abs().max() + 1e-3
    assert (rough - plain)[mask].abs().max() > 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gelu", ["", "none", "tanh"])
@pytest.mark.parametrize(("inner", "outer", "bias"), [(16, 32, True), (7, 5, True), (33, 1, False)])
def test_a_packed_layer_is_the_layer(dtype, gelu, inner, outer, bias):
    layer = nn.Linear(inner, outer, bias=bias)
    texts = torch.randn(3, 11, inner)
    with torch.inference_mode():
        expected = layer(texts)
        expected = functional.gelu(expected, approximate=gelu) if gelu else expected
        found = PackedLinear(layer.to(dtype), gelu)(texts.to(dtype))
    assert found.dtype == dtype
    assert_rounded(found.float(), expected, {torch.float32: 16, torch.bfloat16: 4 * BF16_UNIT}[dtype])


def test_linear_layers_and_gelu_are_packed_and_the_model_is_left_alone(tiny_bert):
    model = retrokit.encoder(str(tiny_bert), device="cpu").to_train().model.eval()
    copied = made(model[0], torch.float32)
    kinds = {type(part) for part in copied.modules()}
    assert PackedLinear in kinds
    assert nn.Linear not in kinds
    assert [layer.intermediate.dense.gelu for layer in copied.model.encoder.layer] == ["none", "none"]
    assert PackedLinear not in {type(part) for part in model[0].modules()}
    weights = dict(model[0].named_parameters())
    assert all(weights[name].data_ptr() == weight.data_ptr() for name, weight in copied.named_parameters())


@pytest.mark.parametrize("dtype", DTYPES)
def test_changed_weights_show(tiny_bert, dtype):
    model = retrokit.encoder(str(tiny_bert), device="cpu").to_train().model.eval()
    before = outputs(made(model[0], dtype), model)
    with torch.no_grad():
        model[0].model.encoder.layer[0].attention.self.value.weight.data[:] *= 2
    after = outputs(made(model[0], dtype), model)
    assert (after - before).abs().max() > 1e-2
    mask = model.preprocess(TEXTS)["attention_mask"].bool()
    units = {torch.float32: 64, torch.bfloat16: 8 * BF16_UNIT}[dtype]
    assert_rounded(after[mask], outputs(model[0], model)[mask], units)


def padded(expanded):
    mask = torch.ones(5, 1, 1, 6, dtype=torch.bool)
    mask[0, ..., 4:] = False
    mask[3, ..., 5:] = False
    return mask.expand(5, 1, 6, 6) if expanded else mask


def near(each_head):
    """Each token sees its neighbours alone, as in attention by windows."""
    places = torch.arange(6)
    mask = (places[:, None] - places).abs() <= 1
    return mask.expand(5, 2 if each_head else 1, 6, 6).contiguous()


MASKS = [None, padded(False), padded(True), padded(True).contiguous(), near(False), near(True)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scores", [1, 2 * 2 * 36, 2**21])  # one text at a time, two (and one is left), all
def test_short_attention_is_softmax_of_products(monkeypatch, mask, scores):
    monkeypatch.setattr(packed, "sdpa_attention_forward", lambda *arguments, **options: pytest.fail("not used"))
    monkeypatch.setattr(packed, "SCORES", scores)
    query, key, value = torch.randn(3, 5, 2, 6, 8)
    found, _ = SHORT_ATTENTION(nn.Module(), query, key, value, mask, scaling=0.3, is_causal=False)
    expected = functional.scaled_dot_product_attention(query, key, value, mask, scale=0.3).transpose(1, 2)
    torch.testing.assert_close(found, expected)


class End(nn.Module):
    """How a block of BERT ends, or almost."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.dense, self.LayerNorm = kind, nn.Linear(6, 4), nn.LayerNorm(4)

    def forward(self, hidden_states, input_tensor):
        factor = 2 if self.kind == "other" else 1
        return self.LayerNorm(self.dense(hidden_states) + factor * input_tensor)


@pytest.mark.parametrize("kind", ["bert", "other"])
def test_only_a_plain_sum_is_joined_to_the_layer(kind):
    model = nn.Sequential(End(kind))
    packs = made(model, torch.float32)
    assert isinstance(packs[0], packed.PackedResidual) == (kind == "bert")
    inner, other = torch.randn(3, 6), torch.randn(3, 4)
    with torch.inference_mode():
        assert_rounded(packs[0](inner, other), model[0](inner, other))


def test_causal_long_and_grouped_attention_is_pytorchs():
    states = torch.randn(1, 4, 6, 8)
    causal, _ = SHORT_ATTENTION(nn.Module(), states, states, states, None, is_causal=True)
    expected = functional.scaled_dot_product_attention(states, states, states, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(causal, expected)
    grouped = nn.Module()
    grouped.num_key_value_groups, grouped.is_causal = 2, False
    found, _ = SHORT_ATTENTION(grouped, states, states[:, :2], states[:, :2], None)
    expected = functional.scaled_dot_product_attention(states, states[:, :2], states[:, :2], enable_gqa=True)
    torch.testing.assert_close(found, expected.transpose(1, 2))


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
    # over 20 seeds 1.1e-5 in bf16, with an SD of 2.1e-5
    assert deviation(rough.embed(["a cat"], "query", "fp32"), exact) < 1e-3


CPU = torch.device("cpu")
INTEL, AMD = "GenuineIntel", "AuthenticAMD"


@pytest.fixture
def machine(monkeypatch):
    """Sets the processor."""

    def use(vendor: str, flags: str) -> None:
        precision._gains.cache_clear()  # as a new process
        monkeypatch.setattr(precision, "first_processor", lambda: {"vendor_id": vendor, "flags": flags})

    yield use
    precision._gains.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "flags", "dtype"),
    [
        (INTEL, "avx2 avx512_bf16 amx_bf16", torch.bfloat16),
        (INTEL, "avx512_bf16", torch.float32),
        (AMD, "avx512_bf16", torch.bfloat16),
        (AMD, "", torch.float32),
    ],
)
def test_auto_goes_by_the_processor(machine, vendor, flags, dtype):
    machine(vendor, flags)
    assert choose_precision("auto", CPU) == dtype
