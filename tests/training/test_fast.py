"""Training's own dropout and attention: PyTorch's values and gradients, and masks of the requested share."""

import math

import pytest
import torch
from scipy.stats import binomtest
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaModel,
    ModernBertConfig,
    ModernBertModel,
)

import retrokit
from retrokit.encoders.fingerprint import attention_of
from retrokit.training import fast
from retrokit.training.fast import FastDropout, _Attention, dropout_mask, fast_attention, replace_dropout
from retrokit.training.loss import InfoNCE
from retrokit.training.model import build
from tests.close import LEAST_P
from tests.training.test_loss import assert_near, make, triplets, value_and_gradients

SHAPE = 3, 2, 5, 4  # texts, heads, tokens, width


def keep_of(lengths: list[int]) -> torch.Tensor:
    return (torch.arange(SHAPE[2]) < torch.tensor(lengths)[:, None])[:, None, None, :].expand(-1, 1, SHAPE[2], -1)


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("keep", [None, keep_of([5, 3, 1])], ids=["whole", "masked"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("together", [fast.TOGETHER, 1], ids=["at once", "by text"])
def test_attention_is_pytorchs(keep, dtype, together, monkeypatch):
    monkeypatch.setattr(fast, "TOGETHER", together)
    bound = 3 * torch.finfo(dtype).eps  # over 20 seeds 0.6 in bf16 and 1.2 in float32, with SDs of 0.1 and 0.3
    torch.manual_seed(0)
    sides = [torch.randn(SHAPE, dtype=dtype, requires_grad=True) for _ in range(3)]
    exact = [side.detach().double().requires_grad_() for side in sides]
    output = _Attention.apply(*sides, keep, 0.3, 0.0)
    expected = scaled_dot_product_attention(*exact, attn_mask=keep, scale=0.3).transpose(1, 2)
    assert output.dtype == dtype
    assert relative(output, expected) < bound
    weight = torch.randn(output.shape)
    (output.float() * weight).sum().backward()
    (expected * weight.double()).sum().backward()
    for side, right in zip(sides, exact, strict=True):
        assert relative(side.grad, right.grad) < bound


@pytest.mark.parametrize("keep", [None, keep_of([5, 3, 1])], ids=["whole", "masked"])
@pytest.mark.parametrize(("together", "texts"), [(fast.TOGETHER, [3]), (2 * 2 * 5 * 5 * 8, [2, 1])])
def test_gradients_under_dropout_are_those_of_differences(keep, together, texts, monkeypatch):
    monkeypatch.setattr(fast, "TOGETHER", together)
    torch.manual_seed(0)
    sides = [torch.randn(SHAPE, dtype=torch.float64, requires_grad=True) for _ in range(3)]

    def attended(*given):
        torch.manual_seed(7)  # the same mask
        return _Attention.apply(*given, keep, 0.5, 0.3)

    assert torch.autograd.gradcheck(attended, sides)
    torch.manual_seed(7)
    masks, factors = zip(*(dropout_mask(torch.Size((2 * count, 5, 5)), 0.3) for count in texts), strict=True)
    scores = 0.5 * sides[0] @ sides[1].transpose(2, 3)
    weights = (scores if keep is None else scores.masked_fill(~keep, -torch.inf)).softmax(-1)
    expected = (weights * torch.cat(masks).view(3, 2, 5, 5) * factors[0]) @ sides[2]
    torch.testing.assert_close(attended(*sides), expected.transpose(1, 2))


def test_no_dropout_is_the_identity_and_all_of_it_leaves_nothing():
    values = torch.randn(64, 1024)
    assert torch.equal(FastDropout(0.0).train()(values), values)
    assert not FastDropout(1.0).train()(values).any()


@pytest.mark.parametrize("p", [0.1, 0.5, 1e-9, 1 - 1e-9])
def test_a_mask_has_the_share_and_the_mean_stays(p):
    torch.manual_seed(0)
    shape = torch.Size((3, 33_333))  # no multiple of four
    mask, factor = dropout_mask(shape, p)
    share = min(max(1, round(p * 65536)), 65535) / 65536
    assert math.isclose(factor * (1 - share), 1)
    assert mask.shape == shape
    assert set(mask.unique().tolist()) <= {0, 1}
    dropped = int((mask == 0).sum())
    assert binomtest(dropped, mask.numel(), share).pvalue > LEAST_P
    again, _ = dropout_mask(shape, p)
    torch.manual_seed(0)
    same, _ = dropout_mask(shape, p)
    assert torch.equal(mask, same)
    if p == 0.5:  # masks, and neighbours in one, are independent
        assert binomtest(int((mask != again).sum()), mask.numel(), 0.5).pvalue > LEAST_P
        pairs = mask.view(-1)[:-1] != mask.view(-1)[1:]
        assert binomtest(int(pairs.sum()), len(pairs), 0.5).pvalue > LEAST_P


SIZE = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def network(kind: str, p: float) -> nn.Module:
    torch.manual_seed(1)
    if kind == "bert":
        return BertModel(BertConfig(**SIZE, hidden_dropout_prob=p, attention_probs_dropout_prob=p)).train()
    if kind == "modernbert":  # turned positions, and layers that see their neighbours alone
        tokens = {f"{name}_token_id": 0 for name in ("pad", "bos", "eos", "cls", "sep")}
        dropouts = {"attention_dropout": p, "mlp_dropout": p, "embedding_dropout": p}
        return ModernBertModel(ModernBertConfig(**SIZE, **tokens, **dropouts, local_attention=4)).train()
    return LlamaModel(LlamaConfig(**SIZE, attention_dropout=p)).train()


def gradients(model: nn.Module, bf16: bool) -> torch.Tensor:
    torch.manual_seed(2)
    ids, lengths = torch.randint(1, 50, (4, 9)), torch.tensor([9, 7, 4, 2])
    mask = (torch.arange(9) < lengths[:, None]).long()
    with fast_attention(model), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    (states.float() * mask[..., None]).square().sin().sum().backward()
    return torch.cat([value.grad.flatten() for value in model.parameters() if value.grad is not None])


@pytest.mark.parametrize("kind", ["bert", "modernbert", "llama"])
def test_a_networks_gradients_are_the_librarys(kind, monkeypatch):
    model = network(kind, 0.0)
    expected = gradients(model, bf16=False)
    model.zero_grad()
    library = relative(gradients(model, bf16=True), expected)
    ones = []

    def nothing_dropped(shape, p):
        ones.append(shape)
        return torch.ones(shape, dtype=torch.uint8), 1.0

    monkeypatch.setattr(fast, "dropout_mask", nothing_dropped)
    for bf16, bound in ((False, 1e-6), (True, 2 * library)):
        quick = network(kind, 0.1)
        replace_dropout(quick)
        assert relative(gradients(quick, bf16), expected) < bound
    attended = [shape for shape in ones if len(shape) == 3 and shape[1:] == (9, 9)]
    assert len(attended) == 4  # two layers, twice
    assert attention_of(quick.config) == "sdpa"


def test_cached_parts_drop_the_same_twice(tiny_bert):
    found = []
    for mini_batch in (None, 16):
        loss, batch = make(tiny_bert, "cosine", triplets(), scale=2.0, mini_batch=mini_batch)
        loss.model, _ = build(retrokit.encoder(str(tiny_bert)), "cosine", dropout=0.2)
        replace_dropout(loss.model.train())
        assert any(isinstance(part, FastDropout) for part in loss.model.modules())
        torch.manual_seed(3)
        with fast_attention(loss.model):
            found.append(value_and_gradients(loss, batch))
    (value, expected), (cached, of_cached) = found
    assert isinstance(loss, InfoNCE)
    assert cached == pytest.approx(value, rel=1e-6)
    assert_near(of_cached, expected)
