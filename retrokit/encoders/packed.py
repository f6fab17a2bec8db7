"""The copy of a model that computes: in the requested precision, and on a CPU with packed weights.

oneDNN multiplies fastest by weights that lie in its own blocks, and adds the bias, or applies a GELU behind it, while
the product is still in the processor's cache; PyTorch's own ``linear`` passes over the memory for each of these. In
bf16 a short text's attention is fastest as two matrix products. What does not apply to a model stays as it is.
"""

import copy
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from retrokit.encoders import onednn
from retrokit.encoders.adapters import is_quantized
from retrokit.encoders.fingerprint import attention_of, stamp, use_attention

SHORT = 512  # tokens; the scores of longer texts leave the processor's cache, and the fused kernel wins
SCORES = 2**21  # attention scores in memory at a time, so that they stay in the processor's cache
_SHORT_ATTENTION = "retrokit_short"

_packed_modules: WeakKeyDictionary[nn.Module, tuple[Any, nn.Module]] = WeakKeyDictionary()


def computing(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A module that computes as ``module`` does, in ``dtype``. On a CPU it is cached, and recreated when weights or
    settings have changed. Elsewhere creating it costs little, and memory is scarce. Call it in inference mode."""
    parameter = next(module.parameters(), None)
    if parameter is None or is_quantized(module):
        return module
    packs = any(_is_plain(child) for child in module.modules()) and onednn.works(dtype)
    if parameter.dtype == dtype and not packs:
        return module
    if parameter.device.type != "cpu":
        return _copy(module, dtype)
    config = getattr(module, "config", None)
    state = (dtype, stamp(module.state_dict()), None if config is None else config.to_dict())
    state_before, copied = _packed_modules.get(module, (None, module))
    if state_before != state:
        copied = _copy(module, dtype)
        if packs:
            _pack(copied, dtype)
        _packed_modules[module] = state, copied
    return copied


def _copy(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy in ``dtype``. It shares what is large and only read: tokenizers, and weights that have the type."""
    shared = [vars(module)[name] for name in ("tokenizer", "processor") if name in vars(module)]
    shared += [tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.dtype == dtype]
    exact = exact_buffers(module, dtype)
    copied: nn.Module = copy.deepcopy(module, {id(item): item for item in shared})
    return cast(copied, dtype, exact)


# --- linear layers


class PackedLinear(nn.Linear):
    """A linear layer whose weights lie in oneDNN's blocks as well, with the GELU behind it, if any."""

    def __init__(self, linear: nn.Linear, gelu: str = "") -> None:
        """``gelu`` is ``none`` (exact) or ``tanh``, as PyTorch calls them."""
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias  # other code may look at them
        self.gelu = gelu
        self._packed = onednn.pack(linear.weight.detach())

    def forward(self, input: Tensor) -> Tensor:
        """``[..., in_features]`` → ``[..., out_features]``."""
        return onednn.linear(input, self._packed, self.bias, self.gelu)


class PackedResidual(nn.Module):
    """A linear layer to whose output a block's input is added, and the normalisation behind: how BERT's blocks end."""

    def __init__(self, block: Any) -> None:
        """``block`` has them as ``dense`` and ``LayerNorm``."""
        super().__init__()
        self.dense, self.LayerNorm = PackedLinear(block.dense), block.LayerNorm

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        """``[..., in_features]`` and ``[..., out_features]`` → ``[..., out_features]``."""
        added = onednn.linear_and_sum(hidden_states, input_tensor, self.dense._packed, self.dense.bias)
        output: Tensor = self.LayerNorm(added)
        return output


def _is_plain(module: nn.Module) -> bool:
    """A linear layer, and none of the kinds derived from it, which may compute otherwise."""
    is_watched = bool(module._forward_hooks or module._forward_pre_hooks)
    return type(module) is nn.Linear and module.weight.device.type == "cpu" and not is_watched


def _pack(module: nn.Module, dtype: torch.dtype) -> None:
    """Replace what can be replaced in ``module``."""
    for block in module.modules():
        gelu = _gelu_behind(block)
        if gelu:
            block.dense = PackedLinear(block.dense, gelu)  # type: ignore[arg-type] # _gelu_behind has looked
            block.intermediate_act_fn = nn.Identity()
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if _is_residual(child):
                setattr(parent, name, PackedResidual(child))
            elif _is_plain(child) and child.weight.dtype == dtype:
                setattr(parent, name, PackedLinear(child))  # type: ignore[arg-type] # _is_plain has looked
    if dtype == torch.bfloat16:
        _shorten_attention(module)


def _shorten_attention(module: nn.Module) -> None:
    for model in module.modules():
        if attends_by_name(model):
            use_attention(model.config, _SHORT_ATTENTION)


def _is_residual(module: nn.Module) -> bool:
    """Whether ``module`` adds its second input to the output of its linear layer ``dense``, and normalises."""
    dense, norm = getattr(module, "dense", None), getattr(module, "LayerNorm", None)
    if not isinstance(dense, nn.Linear) or not _is_plain(dense) or type(norm) is not nn.LayerNorm:
        return False
    if list(inspect.signature(module.forward).parameters) != ["hidden_states", "input_tensor"]:
        return False
    inner = torch.linspace(-6, 6, 4 * dense.in_features, dtype=dense.weight.dtype).view(4, -1)
    other = torch.linspace(3, -3, 4 * dense.out_features, dtype=dense.weight.dtype).view(4, -1)
    return torch.equal(module(inner, other), norm(dense(inner) + other))


def _gelu_behind(module: nn.Module) -> str:
    """Which GELU ``module`` applies to its linear layer ``dense``, as BERT does; "" if it does anything else."""
    dense, activation = getattr(module, "dense", None), getattr(module, "intermediate_act_fn", None)
    if not isinstance(dense, nn.Linear) or not _is_plain(dense) or not callable(activation):
        return ""
    sample = torch.linspace(-6, 6, 4 * dense.in_features, dtype=dense.weight.dtype).view(4, -1)
    inner = dense(sample)
    if not torch.equal(module(sample), activation(inner)):
        return ""
    wide = torch.linspace(-6, 6, 1001)
    fits = [kind for kind in ("none", "tanh") if torch.equal(activation(wide), functional.gelu(wide, approximate=kind))]
    return fits[0] if fits else ""


# --- attention


def attend(query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None, scaling: float | None = None) -> Tensor:
    """Attention of all tokens to all, or to those that ``keep`` (bool ``[n, 1 or heads, t, t]``) names: three of
    ``[n, heads, t, d]`` → ``[n, t, heads, d]``. Scores are multiplied by ``scaling``; default: ``1/sqrt(d)``."""
    n, heads, tokens, width = query.shape
    scaled = torch.mul(query, width**-0.5 if scaling is None else scaling, out=query.new_empty(query.shape))
    query, key, value = (side.contiguous().view(n * heads, tokens, width) for side in (scaled, key, value))
    first = tokens
    if keep is not None:  # columns before it are left out by no row: of texts of similar length these are most
        rows_of_keep = keep[:, :, :1] if keep.stride(2) == 0 else keep
        masked = (~rows_of_keep.flatten(0, 2).all(dim=0)).nonzero()
        first = int(masked[0]) if len(masked) else tokens
    together = max(1, SCORES // (heads * tokens**2))
    memory = query.new_empty(min(n, together) * heads, tokens, tokens)
    output = torch.empty_like(query)
    for start in range(0, n, together):
        texts = slice(start, min(n, start + together))
        rows = slice(texts.start * heads, texts.stop * heads)
        scores = torch.bmm(query[rows], key[rows].transpose(1, 2), out=memory[: rows.stop - rows.start])
        if keep is not None and first < tokens:
            columns = scores.view(-1, heads, tokens, tokens)[..., first:]
            columns.masked_fill_(~keep[texts, ..., first:], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1, out=scores)
        torch.bmm(weights, value[rows], out=output[rows])
    return output.view(n, heads, tokens, width).transpose(1, 2).contiguous()


def attends_by_name(module: nn.Module) -> bool:
    """Whether a model takes PyTorch's attention by its name in the library's table, where another may stand for it;
    older ones look for the name itself, and compute something else for any that they do not know. A configuration with
    configurations in it passes a name on to them, and is not changed."""
    if not isinstance(module, PreTrainedModel) or attention_of(module.config) != "sdpa" or module.config.sub_configs:
        return False
    return hasattr(sys.modules[type(module).__module__], "ALL_ATTENTION_FUNCTIONS")


def _is_two_way(
    module: nn.Module, sides: Sequence[Tensor], mask: Tensor | None, is_causal: bool | None, more: Mapping[str, Any]
) -> bool:
    """Whether the library asks for attention of tokens to all, or to those of a boolean ``mask``, with as many heads of
    query, key and value. Of ``more`` its own function takes two options."""
    is_causal = mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal)
    is_even = len({side.shape for side in sides}) == 1
    has_options = more.get("position_bias") is not None or more.get("softcap") is not None
    return not is_causal and is_even and not has_options and (mask is None or mask.dtype == torch.bool)


def register_attention(name: str, attend: Callable[..., Tensor | None]) -> None:
    """Let models attend by ``attend(query, key, value, mask, dropout, scaling)``: ``[n, heads, t, d]`` → ``[n, t,
    heads, d]``, all tokens to all. Where it returns ``None``, and any other attention is PyTorch's."""

    def attention(
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
        attended = None
        if _is_two_way(module, (query, key, value), attention_mask, is_causal, more):
            attended = attend(query, key, value, attention_mask, dropout, scaling)
        if attended is not None:
            return attended, None
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **more
        )

    AttentionInterface.register(name, attention)
    AttentionMaskInterface.register(name, sdpa_mask)


def _attend_short(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, scaling: float | None
) -> Tensor | None:
    n, _, tokens, _ = query.shape
    if dropout or tokens > SHORT:
        return None
    keep = None if mask is None else mask.expand(n, mask.shape[1], tokens, tokens)
    return attend(query, key, value, keep, scaling)


register_attention(_SHORT_ATTENTION, _attend_short)


_exact: WeakKeyDictionary[nn.Module, dict[torch.dtype, frozenset[str]]] = WeakKeyDictionary()


def cast(module: nn.Module, dtype: torch.dtype, exact: frozenset[str] | None = None) -> nn.Module:
    """Cast ``module`` in place, but for the buffers named ``exact``; by default those of :func:`exact_buffers`."""
    names = exact_buffers(module, dtype) if exact is None else exact
    buffers = {name: module.get_buffer(name) for name in names}
    module.to(dtype)
    for name, buffer in buffers.items():
        parent, _, attribute = name.rpartition(".")
        setattr(module.get_submodule(parent), attribute, buffer)
    return module


def exact_buffers(module: nn.Module, dtype: torch.dtype) -> frozenset[str]:
    """Names of the buffers that are float32 in ``module``, and in a model of its architecture built in ``dtype``."""
    by_dtype = _exact.setdefault(module, {})
    if dtype not in by_dtype:
        by_dtype[dtype] = frozenset(_exact_buffers(module, dtype)) if dtype != torch.float32 else frozenset()
    return by_dtype[dtype]


def _exact_buffers(module: nn.Module, dtype: torch.dtype) -> Iterator[str]:
    for path, model in _models(module):
        names = _float_buffers(model)
        if names:
            for name in names & _float_buffers(_built(model, dtype)):
                yield f"{path}.{name}".lstrip(".")


def _float_buffers(model: PreTrainedModel) -> set[str]:
    return {name for name, buffer in model.named_buffers() if buffer.dtype == torch.float32}


def _models(module: nn.Module, path: str = "") -> Iterator[tuple[str, PreTrainedModel]]:
    """The outermost models of the library within ``module``, with their paths."""
    if isinstance(module, PreTrainedModel):
        yield path, module
        return
    for name, child in module.named_children():
        yield from _models(child, f"{path}.{name}".lstrip("."))


def _built(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """A model of the same architecture without memory for weights, created in ``dtype``."""
    config = copy.deepcopy(model.config)
    use_attention(config, "eager")  # another kind may look for a device
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):
            return type(model)(config)
    finally:
        torch.set_default_dtype(before)
