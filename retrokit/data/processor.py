"""The processor at hand, as its system describes it."""

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
INSTRUCTIONS = ("sse4_2", "avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16")
"""Sets by which the speed of processors differs, as Linux calls them."""


def first_processor() -> dict[str, str]:
    """What ``/proc/cpuinfo`` says of the first processor, by its own names; nothing where there is no such file."""
    first = CPUINFO.read_text(encoding="utf-8").split("\n\n")[0] if CPUINFO.is_file() else ""
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def processor_in_words() -> str:
    """Model, cores that this process may use, and instruction sets, such as ``AMD EPYC, family 25, model 1; 2 cores;
    sse4_2, avx2``."""
    processor = first_processor()
    numbers = [f"{key.removeprefix('cpu ')} {processor[key]}" for key in ("cpu family", "model") if key in processor]
    name = ", ".join([processor.get("model name") or platform.processor() or platform.machine(), *numbers])
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    flags = f"{processor.get('flags', '')} {processor.get('Features', '')}".split()
    sets = ", ".join(instruction for instruction in INSTRUCTIONS if instruction in flags)
    return "; ".join(filter(None, [name, f"{cores} core{'s' * (cores > 1)}", sets]))
