"""The door to oneDNN's operators within PyTorch, which are private: any version may change or drop them.

Whoever wants one asks :func:`works` first. There each proves itself, once per process and type, by a product that
PyTorch's public operators make as well; after any failure none of them is used.
"""

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

UNITS = 64  # in the last place, of the largest number, that a product may differ by: both ways sum in their own order


@cache
def works(dtype: torch.dtype) -> bool:
    """Whether the operators compute in ``dtype`` on this machine, and rightly."""
    if dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():
        return False
    try:
        if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
            return False
        with torch.inference_mode():
            return _proves_itself(dtype)
    except Exception:  # what a private operator raises once it has changed is anything
        return False


def _proves_itself(dtype: torch.dtype) -> bool:
    def numbers(*shape: int) -> Tensor:
        count = torch.Size(shape).numel()
        return torch.sin(torch.arange(count) * 1.7).view(shape).to(dtype)

    states, weight, bias, other = numbers(5, 33), numbers(7, 33), numbers(7), numbers(5, 7)
    plain = functional.linear(states.float(), weight.float())
    biased, blocks = plain + bias.float(), pack(weight)
    pairs = [
        (linear(states, weight, None), plain),
        (linear(states, weight, bias), biased),
        (linear(states, blocks, None), plain),
        (linear(states, blocks, bias), biased),
        (linear(states, blocks, bias, "none"), functional.gelu(biased)),
        (linear(states, blocks, bias, "tanh"), functional.gelu(biased, approximate="tanh")),
        (linear_and_sum(states, other, blocks, bias), biased + other.float()),
    ]
    bound = UNITS * torch.finfo(dtype).eps * float(biased.abs().max())
    return all(
        output.dtype == dtype and float((output.float() - right).abs().max()) <= bound for output, right in pairs
    )


def pack(weight: Tensor) -> Tensor:
    """The weights ``[out, in]`` of a linear layer in oneDNN's blocks."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


def linear(states: Tensor, weight: Tensor, bias: Tensor | None, gelu: str = "") -> Tensor:
    """``states @ weight.T + bias``: ``[..., in]`` → ``[..., out]``, with a GELU behind it that is ``none`` (exact) or
    ``tanh``, as PyTorch calls them. ``weight`` is packed or not."""
    operation = "gelu" if gelu else "none"
    output: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, operation, [], gelu)
    return output


def linear_and_sum(states: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``states @ weight.T + bias + other``, ``[..., out]``, of packed weights."""
    output: Tensor = torch.ops.mkldnn._linear_pointwise.binary(states, other, weight, bias, "add")
    return output
