"""The copy that computes: the same values as the model itself, made anew when the model changes."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers.activations import ACT2FN

import retrokit
from retrokit.encoders import packed
from retrokit.encoders.packed import PackedLinear, computing
from tests.close import assert_rounded
from tests.models import sentences

TEXTS = ["cat", *sentences(5, seed=3)]
BF16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this processor packs no bf16 layers"
)
DTYPES = [torch.float32, pytest.param(torch.bfloat16, marks=BF16)]
BF16_UNIT = 2**16  # a unit in the last place of bf16, in those of float32


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
    # both are roundings of the same: neither may be farther from it than bf16 is
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


class Intermediate(nn.Module):
    """As BERT's, or with something else between."""

    def __init__(self, activation: str, factor: float = 1.0) -> None:
        super().__init__()
        self.dense, self.intermediate_act_fn, self.factor = nn.Linear(8, 12), ACT2FN[activation], factor

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.intermediate_act_fn(self.factor * self.dense(states))


@pytest.mark.parametrize(
    ("activation", "factor", "kind"),
    [("gelu", 1, "none"), ("gelu_pytorch_tanh", 1, "tanh"), ("relu", 1, ""), ("silu", 1, ""), ("gelu", 2, "")],
)
def test_only_a_gelu_right_behind_the_layer_is_joined_to_it(activation, factor, kind):
    part = Intermediate(activation, factor)
    states = torch.randn(5, 8)
    with torch.inference_mode():
        assert packed._gelu_behind(part) == kind
        assert_rounded(made(part, torch.float32)(states), part(states))


def test_hooks_and_derived_kinds_stay(tiny_bert):
    class Doubling(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    parts = nn.Sequential(nn.Linear(4, 4), Doubling(4, 4), nn.Linear(4, 4))
    parts[2].register_forward_hook(lambda module, inputs, output: output + 1)
    copied = made(parts, torch.float32)
    assert [type(part) for part in copied] == [PackedLinear, Doubling, nn.Linear]
    texts = torch.randn(2, 4)
    torch.testing.assert_close(copied(texts), parts(texts))


def test_it_is_kept_until_weights_or_settings_change(tiny_bert):
    model = retrokit.encoder(str(tiny_bert), device="cpu").to_train().model.eval()
    for dtype in (torch.float32, torch.bfloat16):
        first = made(model[0], dtype)
        assert made(model[0], dtype) is first
        with torch.no_grad():
            model[0].model.encoder.layer[1].output.dense.weight.data[0, 0] += 1
        second = made(model[0], dtype)
        assert second is not first
        model[0].model.config.output_hidden_states = not model[0].model.config.output_hidden_states
        assert made(model[0], dtype) is not second


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


def test_what_has_nothing_to_pack_is_itself(tiny_bert):
    table = retrokit.encoder(f"static:dim=8,tokenizer={tiny_bert}", device="cpu").to_train().model[0]
    assert made(table, torch.float32) is table
    assert next(made(table, torch.bfloat16).parameters()).dtype == torch.bfloat16


def test_fp16_is_not_packed(tiny_bert):
    copied = made(retrokit.encoder(str(tiny_bert), device="cpu").to_train().model[0], torch.float16)
    assert next(copied.parameters()).dtype == torch.float16
    assert PackedLinear not in {type(part) for part in copied.modules()}


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
    found, _ = packed._short_attention(nn.Module(), query, key, value, mask, scaling=0.3)
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
    causal, _ = packed._short_attention(nn.Module(), states, states, states, None, is_causal=True)
    expected = functional.scaled_dot_product_attention(states, states, states, is_causal=True).transpose(1, 2)
    torch.testing.assert_close(causal, expected)
    grouped = nn.Module()
    grouped.num_key_value_groups, grouped.is_causal = 2, False
    found, _ = packed._short_attention(grouped, states, states[:, :2], states[:, :2], None)
    expected = functional.scaled_dot_product_attention(states, states[:, :2], states[:, :2], enable_gqa=True)
    torch.testing.assert_close(found, expected.transpose(1, 2))


@BF16
def test_bf16_uses_the_short_attention(tiny_bert, monkeypatch):
    calls = []
    real = packed.AttentionInterface()[packed._SHORT_ATTENTION]
    monkeypatch.setitem(
        packed.AttentionInterface._global_mapping,
        packed._SHORT_ATTENTION,
        lambda *arguments, **options: calls.append(options) or real(*arguments, **options),
    )
    monkeypatch.setattr(packed, "sdpa_attention_forward", lambda *arguments, **options: pytest.fail("PyTorch's"))
    model = retrokit.encoder(str(tiny_bert), device="cpu").to_train().model.eval()
    outputs(made(model[0], torch.bfloat16), model)
    assert len(calls) == 2
    assert model[0].model.config._attn_implementation == "sdpa"
