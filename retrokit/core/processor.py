"""The processor at hand, as its system describes it."""

import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from retrokit.core.system import usable_processors

CPUINFO = Path("/proc/cpuinfo")
OWN_GROUPS = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
SPINS = 10_000
"""Of a waiting thread before it sleeps: some ten microseconds. On an idle machine this is as fast as the default of
300,000; while six other processes compute, a training step takes half the time."""
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
    cores = usable_cores()
    flags = f"{processor.get('flags', '')} {processor.get('Features', '')}".split()
    sets = ", ".join(instruction for instruction in INSTRUCTIONS if instruction in flags)
    return "; ".join(filter(None, [name, f"{cores} core{'s' * (cores > 1)}", sets]))


def usable_cores() -> int:
    """The cores that this process may compute on: those of its affinity, and no more than its container's CPU quota
    (control groups, versions 1 and 2), rounded up."""
    return min([usable_processors(), *(math.ceil(quota) for quota in _quotas())])


def limit_threads() -> None:
    """Have numerical libraries start no more threads than :func:`usable_cores`, and their waiting threads sleep soon;
    call it before they are imported.

    They know the affinity, but not the quota. Where there is none, they choose best themselves: one thread for each
    physical core. A thread that waits without sleeping takes a core that another process needs. What the user has set
    stays.
    """
    cores = usable_cores()
    if cores < usable_processors():
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


def _quotas() -> Iterator[float]:
    """The CPU quotas that hold for this process, in cores: of its control groups and of all above them."""
    lines = OWN_GROUPS.read_text(encoding="utf-8").splitlines() if OWN_GROUPS.is_file() else []
    for line in lines:
        number, controllers, group = line.split(":", 2)
        if number == "0":
            root = GROUPS
        elif "cpu" in controllers.split(","):
            root = GROUPS / controllers
        else:
            continue
        lowest = root / group.lstrip("/")
        for folder in (lowest, *lowest.parents):
            if folder.is_relative_to(root):
                yield from _quota_of(folder)


def _quota_of(folder: Path) -> Iterator[float]:
    """The quota of one control group in cores, if it has one."""
    try:
        if (folder / "cpu.max").is_file():  # version 2
            quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="utf-8")
            period = (folder / "cpu.cfs_period_us").read_text(encoding="utf-8")
    except OSError:
        return
    if quota != "max" and int(quota) > 0:
        yield int(quota) / int(period)
