"""Attention of short texts: two matrix products with a softmax between, which on a CPU in bf16 is faster than PyTorch's
fused kernel."""

from __future__ import annotations

import torch
from torch import Tensor

SHORT = 512  # tokens; the scores of longer texts leave the processor's cache, and the fused kernel wins
SCORES = 2**21  # attention scores in memory at a time, so that they stay in the processor's cache


def attend(query: Tensor, key: Tensor, value: Tensor, keep: Tensor | None, scaling: float | None = None) -> Tensor:
    """Attention of all tokens to all, or to those that ``keep`` (bool ``[n, 1 or heads, t, t]``) names: three of
    ``[n, heads, t, d]`` → ``[n, t, heads, d]``. Scores are multiplied by ``scaling``; default: ``1/sqrt(d)``."""
    n, heads, tokens, width = query.shape
    scaled = torch.mul(query, width**-0.5 if scaling is None else scaling, out=query.new_empty(query.shape))
    query, key, value = (side.contiguous().view(n * heads, tokens, width) for side in (scaled, key, value))
    first = tokens if keep is None else _first_masked(keep)
    together = max(1, SCORES // (heads * tokens**2))
    memory = query.new_empty(min(n, together) * heads, tokens, tokens)
    output = torch.empty_like(query)
    for start in range(0, n, together):
        texts = slice(start, min(n, start + together))
        rows = slice(texts.start * heads, texts.stop * heads)
        scores = torch.bmm(query[rows], key[rows].transpose(1, 2), out=memory[: rows.stop - rows.start])
        if keep is not None and first < tokens:
            of_texts = scores.view(-1, heads, tokens, tokens)[..., first:]
            of_texts.masked_fill_(~keep[texts, ..., first:], torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1, out=scores)
        torch.bmm(weights, value[rows], out=output[rows])
    return output.view(n, heads, tokens, width).transpose(1, 2).contiguous()


def _first_masked(keep: Tensor) -> int:
    """The first column of ``keep [n, 1 or heads, t, t]`` that any row leaves out; t: there is none.

    Columns before it need no masking, and in a batch of texts of similar length these are most."""
    rows = keep[:, :, :1] if keep.stride(2) == 0 else keep
    out = (~rows.flatten(0, 2).all(dim=0)).nonzero()
    return int(out[0]) if len(out) else keep.shape[-1]
