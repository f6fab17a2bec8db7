"""Which type a model computes in, and what ``auto`` makes of the device: encoding and training ask here.

A processor that has bf16 instructions may still be slower with them. ``auto`` uses them where they are known to be
faster: with AMX, and with AMD's AVX512-BF16.
"""

from functools import cache

import torch
from torch import nn

from retrokit.core.errors import UsageError
from retrokit.core.processor import first_processor

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def choose_precision(name: str, device: torch.device, multiplies: bool = True) -> torch.dtype:
    """The dtype of ``fp32``, ``bf16``, ``fp16``; ``auto`` is bf16 where ``device`` computes faster in it, else fp32, as
    it is for a model that does not :func:`multiply <multiplies>`."""
    if name != "auto":
        if name not in PRECISIONS:
            raise UsageError(f"precision {name!r} is none of auto, {', '.join(PRECISIONS)}")
        return PRECISIONS[name]
    if not multiplies:
        return torch.float32
    if device.type == "cuda":
        with torch.cuda.device(device):
            takes_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        takes_bf16 = device.type == "cpu" and _gains()
    return torch.bfloat16 if takes_bf16 else torch.float32


def multiplies(model: nn.Module) -> bool:
    """Whether a model has matrices to multiply by; to a table of embeddings bf16 gives no speed, and only rounds."""
    for module in model.modules():
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
            continue
        if any(weight.ndim > 1 for weight in module.parameters(recurse=False)):
            return True
    return False


def name_of(dtype: torch.dtype) -> str:
    """``float32``, ``bfloat16`` or ``float16``."""
    return str(dtype).removeprefix("torch.")


@cache
def _gains() -> bool:
    """Whether this processor is faster in bf16: with AMX, and AMD's with AVX512-BF16."""
    info = first_processor()
    flags = info.get("flags", "").split()
    return "amx_bf16" in flags or ("avx512_bf16" in flags and info.get("vendor_id") == "AuthenticAMD")
