"""Which type a model computes in, and what ``auto`` makes of the device: encoding and training ask here.

A processor that has bf16 instructions may still compute slower with them. AMX, and AMD's AVX512-BF16, are known to be
faster; any other kind is timed once, and the finding is kept beside the embedding cache.
"""

import platform
import time
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.data.processor import first_processor
from retrokit.encoders.store import open_cache

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

WORTH_IT = 1.2  # how many times as fast as fp32 bf16 must be for its rounding

_NAMED_BY = ("vendor_id", "model name", "cpu family", "model", "stepping", "CPU implementer", "CPU variant", "CPU part")
_BF16 = frozenset({"avx512_bf16", "amx_bf16", "bf16", "svebf16", "sve_bf16"})  # instructions that multiply it


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
        takes_bf16 = device.type == "cpu" and _gains(describe_processor())
    return torch.bfloat16 if takes_bf16 else torch.float32


def multiplies(model: nn.Module) -> bool:
    """Whether a model has matrices to multiply by; to a table of embeddings bf16 gives no speed, and only rounds."""
    parts = (part for part in model.modules() if not isinstance(part, (nn.Embedding, nn.EmbeddingBag)))
    return any(weight.ndim > 1 for part in parts for weight in part.parameters(recurse=False))


def name_of(dtype: torch.dtype) -> str:
    """``float32``, ``bfloat16`` or ``float16``."""
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Processor:
    """A processor's vendor and model in one line, and its instruction sets as Linux and PyTorch call them."""

    name: str
    flags: frozenset[str]


@cache
def describe_processor() -> Processor:
    """The one at hand."""
    info = first_processor()
    name = ", ".join(f"{key} {info[key]}" for key in _NAMED_BY if key in info) or platform.processor()
    flags = set(f"{info.get('flags', '')} {info.get('Features', '')}".split())
    if hasattr(torch.cpu, "get_capabilities"):  # also where the system tells nothing; since PyTorch 2.10
        flags |= {flag for flag, has in torch.cpu.get_capabilities().items() if has is True}
    return Processor(name or platform.machine(), frozenset(flags & _BF16))


@cache
def _gains(processor: Processor) -> bool:
    if not processor.flags:
        return False
    if "amx_bf16" in processor.flags or ("avx512_bf16" in processor.flags and "AuthenticAMD" in processor.name):
        return True
    return known_gain(processor) >= WORTH_IT


def known_gain(processor: Processor) -> float:
    """How many times as fast as fp32 bf16 is on such a processor, measured (:func:`measure_gain`) now or before."""

    def measured() -> float:
        gain = round(measure_gain(), 3)
        taken = "bf16" if gain >= WORTH_IT else "fp32"
        notice(f"precision auto is {taken} here: bf16 computes at {gain:.2f} × the speed of fp32 ({processor.name})")
        return gain

    embedding_cache = open_cache()
    key = f"bf16 gain: {processor.name}; torch {torch.__version__}"
    return measured() if embedding_cache is None else float(embedding_cache.agreed(key, measured))


def measure_gain(tokens: int = 1024) -> float:
    """The processor time of a linear layer, packed as a model's are, in fp32 by that in bf16."""
    from retrokit.encoders.packed import computing

    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        layer, states = nn.Sequential(nn.Linear(384, 1536)), torch.randn(tokens, 384)
        ways = {dtype: (computing(layer, dtype), states.to(dtype)) for dtype in (torch.float32, torch.bfloat16)}
        seconds = dict.fromkeys(ways, float("inf"))
        for _ in range(7):  # in turns, so that other work on the machine falls on both
            for dtype, (model, given) in ways.items():
                began = time.process_time()
                model(given)
                seconds[dtype] = min(seconds[dtype], time.process_time() - began)
    return seconds[torch.float32] / max(seconds[torch.bfloat16], 1e-9)
