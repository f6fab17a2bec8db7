"""A training step on a CPU in less time: dropout and attention, where PyTorch's own are slow.

PyTorch draws a dropout mask with one thread and a generator of 40 bits a number, which is a fifth to a third of a step
of a small transformer, and computes attention with dropout, or its gradient in bf16, by a slow way. Here 64 random bits
are four numbers of a mask, and attention is a few products of matrices. Everything else stays PyTorch's. What these do
not know (a GPU, another kind of attention) goes the library's way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from retrokit.encoders.fingerprint import use_attention
from retrokit.encoders.packed import SHORT, attends_by_name, register_attention

_ATTENTION = "retrokit_training"
_VALUES = 1 << 16  # of a random number
TOGETHER = 1 << 22  # bytes of attention's weights


class FastDropout(nn.Dropout):
    """Dropout whose mask is drawn fast."""

    def forward(self, input: Tensor) -> Tensor:
        """``[...]`` → ``[...]``."""
        if not self.training or not 0 < self.p < 1 or input.device.type != "cpu":
            return super().forward(input)
        output: Tensor = _Dropout.apply(input, self.p)
        return output


def replace_dropout(model: nn.Module) -> None:
    """Put :class:`FastDropout` in place of a model's dropout."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Dropout:
                setattr(module, name, FastDropout(child.p).train(child.training))


@contextmanager
def fast_attention(model: nn.Module) -> Iterator[None]:
    """Within it, the transformers in ``model`` whose attention is PyTorch's compute it here."""
    changed = [module.config for module in model.modules() if attends_by_name(module)]
    for config in changed:
        use_attention(config, _ATTENTION)
    try:
        yield
    finally:
        for config in changed:
            use_attention(config, "sdpa")


def dropout_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """Ones, and zeros of the share ``p`` rounded to 1/65,536, as uint8; and the factor of what is not dropped. One
    number of PyTorch's generator decides the mask, so that what restores its state restores the mask."""
    count, bound = shape.numel(), min(max(1, round(p * _VALUES)), _VALUES - 1)
    seed = int(torch.randint(2**63 - 1, (1,)))
    drawn = np.random.SFC64(seed).random_raw(-(-count // 4)).view(np.int16)[:count]
    mask = torch.from_numpy(drawn >= bound - _VALUES // 2)  # NumPy compares five times as fast
    return mask.view(torch.uint8).view(shape), _VALUES / (_VALUES - bound)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, p: float) -> Tensor:
        mask, ctx.factor = dropout_mask(input.shape, p)
        ctx.save_for_backward(mask)
        return torch.mul(input, mask).mul_(ctx.factor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return torch.mul(gradients[0], mask).mul_(ctx.factor), None


class _Attention(torch.autograd.Function):
    """``dropout(softmax(scaling · Q Kᵀ)) V``: three of ``[n, heads, t, d]`` → ``[n, t, heads, d]``; ``keep``, bool
    ``[n, 1 or heads, t, t]``, names the pairs of tokens that count."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None, scaling: float, p: float
    ) -> Tensor:
        n, heads, tokens, width = query.shape
        with torch.autocast("cpu", enabled=False):
            scaled = torch.mul(query, scaling).reshape(n * heads, tokens, width)
            key, value = key.reshape(scaled.shape), value.reshape(scaled.shape)
            weights, output = scaled.new_empty(n * heads, tokens, tokens), torch.empty_like(scaled)
            ctx.parts, ctx.factor, masks = _parts(weights, heads), 1.0, []
            for rows in ctx.parts:
                scores = torch.bmm(scaled[rows], key[rows].transpose(1, 2), out=weights[rows])
                if keep is not None:
                    text_mask = keep[rows.start // heads : rows.stop // heads]
                    scores.view(-1, heads, tokens, tokens).masked_fill_(~text_mask, torch.finfo(scores.dtype).min)
                dropped = torch.softmax(scores, dim=-1, out=scores)
                if p:
                    mask, ctx.factor = dropout_mask(scores.shape, p)
                    masks.append(mask)
                    dropped = scores * mask
                torch.bmm(dropped, value[rows], out=output[rows])
            output *= ctx.factor
        ctx.save_for_backward(scaled, key, value, weights, *masks)
        ctx.scaling, ctx.shape = scaling, query.shape
        return output.view(query.shape).transpose(1, 2).contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled, key, value, weights, *masks = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            output = torch.mul(gradients[0].transpose(1, 2), ctx.factor).reshape(scaled.shape)
            query_gradient, key_gradient, value_gradient = (torch.empty_like(scaled) for _ in range(3))
            for rows, mask in zip_longest(ctx.parts, masks):
                dropped = weights[rows] if mask is None else weights[rows] * mask
                torch.bmm(dropped.transpose(1, 2), output[rows], out=value_gradient[rows])
                weight_gradient = torch.bmm(output[rows], value[rows].transpose(1, 2))
                if mask is not None:
                    weight_gradient *= mask
                score_gradient = torch.ops.aten._softmax_backward_data(
                    weight_gradient, weights[rows], -1, weights.dtype
                )
                torch.bmm(score_gradient, key[rows], out=query_gradient[rows])
                torch.bmm(score_gradient.transpose(1, 2), scaled[rows], out=key_gradient[rows])
            query_gradient *= ctx.scaling
        return *(side.view(ctx.shape) for side in (query_gradient, key_gradient, value_gradient)), None, None, None


def _parts(weights: Tensor, heads: int) -> list[slice]:
    """Rows of the weights ``[n · heads, t, t]``, whole texts, that stay in the processor's cache together."""
    text_bytes = heads * weights[0].numel() * weights.element_size()
    rows = max(1, TOGETHER // text_bytes) * heads
    return [slice(start, min(len(weights), start + rows)) for start in range(0, len(weights), rows)]


def _attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float | None
) -> Tensor | None:
    """Attention of short texts on a CPU, where PyTorch's is slow: with dropout, or not in float32."""
    if torch.is_autocast_enabled("cpu"):  # which PyTorch's attention follows, though turned positions are float32
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    is_slow = dropout > 0 or query.dtype != torch.float32
    if not is_slow or query.device.type != "cpu" or query.shape[2] > SHORT:
        return None
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    attended: Tensor = _Attention.apply(query, key, value, mask, scaling, dropout)
    return attended


register_attention(_ATTENTION, _attend)
