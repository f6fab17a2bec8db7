"""What operating systems do differently: locks of open files, timers, users and processes.

Windows has no locks of this kind, no timers that interrupt and no groups of processes: what needs them does without.
"""

import importlib
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

fcntl: ModuleType | None = None
with suppress(ModuleNotFoundError):
    fcntl = importlib.import_module("fcntl")
HAS_TIMERS = hasattr(signal, "setitimer")


def lock(file: BinaryIO) -> bool:
    """Lock ``file`` until it is closed or the process ends. ``False``: another has it locked, or locks do not work."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def set_alarm(seconds: float) -> None:
    """Send this process ``SIGALRM`` after ``seconds``. Without timers nothing happens."""
    if HAS_TIMERS:
        signal.setitimer(signal.ITIMER_REAL, seconds)


def ignore_alarms() -> None:
    """From now on ``SIGALRM`` has no effect, also while Python ends, which puts back the default of other signals."""
    if HAS_TIMERS:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


def usable_processors() -> int:
    """The cores of this process's affinity; where there is none, those of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def belongs_to_another(path: Path) -> bool:
    """Whether ``path`` belongs neither to this user nor to the owner of its folder; ``False`` where files have none."""
    if not hasattr(os, "geteuid"):
        return False
    return path.lstat().st_uid not in (os.geteuid(), path.parent.stat().st_uid)


def is_running(process: int) -> bool:
    """Whether a process of this machine has not ended; ``True`` where asking would end it, as on Windows."""
    if not hasattr(os, "killpg"):
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def stop(process: subprocess.Popen[bytes], at_once: bool) -> None:
    """Ask a process that leads a group to stop, and all others of the group; ``at_once``: end them."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL if at_once else signal.SIGTERM)
    elif at_once:
        process.kill()
    else:
        process.terminate()
