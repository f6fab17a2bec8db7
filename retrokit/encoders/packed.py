"""The copy of a model that computes: in the precision asked for, and on a CPU with packed weights.

oneDNN multiplies fastest by weights that lie in its own blocks, and adds the bias, or applies a GELU behind it, while
the product is still in the processor's cache; PyTorch's own ``linear`` passes over the memory for each of these. In
bf16 a short text's attention is fastest as two matrix products. What does not apply to a model stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from sentence_transformers.base.modules import Transformer
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from retrokit.encoders.fingerprint import stamp

SHORT = 512  # tokens; the scores of longer texts leave the processor's cache, and the fused kernel wins
_SHORT_ATTENTION = "retrokit_short"

_kept: WeakKeyDictionary[nn.Module, tuple[Any, nn.Module]] = WeakKeyDictionary()


def computing(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """What computes as ``module`` does, in ``dtype``; on a CPU it is kept, and made anew when weights or settings have
    changed. Elsewhere making it costs little, and memory is scarce. Call it in inference mode."""
    parameter = next(module.parameters(), None)
    packs = _packs(module, dtype)
    if parameter is None or (parameter.dtype == dtype and not packs):
        return module
    if parameter.device.type != "cpu":
        return _copy(module, dtype)
    state = (dtype, stamp(module.state_dict()), [config.to_dict() for config in _configs(module)])
    kept = _kept.get(module)
    if kept is None or kept[0] != state:
        made = _copy(module, dtype)
        if packs:
            _pack(made, dtype)
        _kept[module] = kept = state, made
    return kept[1]


def _copy(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy in ``dtype``. It shares what is large and only read: tokenizers, and weights that have the type."""
    shared = [vars(module)[name] for name in ("tokenizer", "processor") if name in vars(module)]
    shared += [tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.dtype == dtype]
    copied: nn.Module = copy.deepcopy(module, {id(one): one for one in shared})
    return copied.to(dtype)


def _configs(module: nn.Module) -> Iterator[Any]:
    """The settings of the transformer models within."""
    if isinstance(module, Transformer):
        yield module.model.config


# --- linear layers


class PackedLinear(nn.Linear):
    """A linear layer whose weights lie in oneDNN's blocks as well, with the GELU behind it, if any."""

    def __init__(self, linear: nn.Linear, gelu: str = "") -> None:
        """``gelu`` is ``none`` (exact) or ``tanh``, as PyTorch calls them."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias  # other code may look at them
        self.gelu = gelu
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)

    def forward(self, input: Tensor) -> Tensor:
        """``[..., in_features]`` → ``[..., out_features]``."""
        operation = "gelu" if self.gelu else "none"
        made: Tensor = torch.ops.mkldnn._linear_pointwise(input, self._packed, self.bias, operation, [], self.gelu)
        return made


def _packs(module: nn.Module, dtype: torch.dtype) -> bool:
    """Whether linear layers of ``module`` can be packed in ``dtype`` on this machine."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False
    return dtype in (torch.float32, torch.bfloat16) and any(_is_plain(part) for part in module.modules())


def _is_plain(part: nn.Module) -> bool:
    """A linear layer, and none of the kinds derived from it, which may compute otherwise."""
    is_watched = bool(part._forward_hooks or part._forward_pre_hooks)
    return type(part) is nn.Linear and part.weight.device.type == "cpu" and not is_watched


def _pack(module: nn.Module, dtype: torch.dtype) -> None:
    """Replace what can be replaced in ``module``."""
    for part in module.modules():
        gelu = _gelu_behind(part)
        if gelu:
            part.dense = PackedLinear(part.dense, gelu)  # type: ignore[arg-type] # _gelu_behind has looked
            part.intermediate_act_fn = nn.Identity()
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if _is_plain(child) and child.weight.dtype == dtype:
                setattr(part, name, PackedLinear(child))  # type: ignore[arg-type] # _is_plain has looked
    for config in _configs(module):
        if dtype == torch.bfloat16 and getattr(config, "_attn_implementation", None) == "sdpa":
            config._attn_implementation = _SHORT_ATTENTION


def _gelu_behind(part: nn.Module) -> str:
    """Which GELU ``part`` applies to its linear layer ``dense``, as BERT and all models made after it do; "" if it does
    anything else."""
    dense, activation = getattr(part, "dense", None), getattr(part, "intermediate_act_fn", None)
    if not isinstance(dense, nn.Linear) or not _is_plain(dense) or not callable(activation):
        return ""
    sample = torch.linspace(-6, 6, 4 * dense.in_features, dtype=dense.weight.dtype).view(4, -1)
    inner = dense(sample)
    if not torch.equal(part(sample), activation(inner)):
        return ""
    wide = torch.linspace(-6, 6, 1001)
    fits = [kind for kind in ("none", "tanh") if torch.equal(activation(wide), functional.gelu(wide, approximate=kind))]
    return fits[0] if fits else ""


# --- attention


def _short_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **more: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention of all tokens to all: ``[n, heads, t, d]`` → ``[n, t, heads, d]``. Anything else goes to PyTorch's."""
    is_two_way = not (getattr(module, "is_causal", False) if is_causal is None else is_causal)
    is_plain = query.shape == key.shape == value.shape and all(option is None for option in more.values())
    has_plain_mask = attention_mask is None or attention_mask.dtype == torch.bool
    if not (is_two_way and is_plain and has_plain_mask and dropout == 0 and query.shape[2] <= SHORT):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **more
        )
    scores = torch.matmul(query * (query.shape[-1] ** -0.5 if scaling is None else scaling), key.transpose(2, 3))
    if attention_mask is not None:
        scores.masked_fill_(~attention_mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1, out=scores)  # in place: memory that is new is slow
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), None


AttentionInterface.register(_SHORT_ATTENTION, _short_attention)
AttentionMaskInterface.register(_SHORT_ATTENTION, sdpa_mask)
