"""Training in several processes, as ``torchrun`` and ``accelerate launch`` start them.

Each computes on a device of its own; the first one alone looks into the run folder, evaluates and writes. Whatever goes
wrong in one of them ends all, and is said once: a process that fails leaves a word in a store that the others watch,
for whoever waits in a collective operation would wait for ever.
"""

import functools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist

from retrokit.core.errors import Interrupted, MissingExtra, RetrokitError, UsageError

PATIENCE = timedelta(days=30)  # the others wait while the first one evaluates and writes
LOOK_EVERY = 0.2  # seconds
LINGER = 10 * LOOK_EVERY  # in which all see that one has failed
CHUNK = 2**24  # bytes of standard input that are shared at once
_FAILED = "failed"
_WHOLE = "every process holds the whole model: start with torchrun, or `accelerate launch --multi_gpu`"

_P = ParamSpec("_P")
_T = TypeVar("_T")


def place() -> tuple[int, int]:
    """Rank and number of processes, as torchrun and accelerate set them."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return place()[0] == 0


def own_device(device: str | None) -> str | None:
    """The device of this process: the one asked for, or its own one of several GPUs."""
    _, world = place()
    if world == 1:
        return device
    kind = torch.device(device if device is not None else "cuda" if torch.cuda.is_available() else "cpu")
    if kind.type != "cuda":
        return str(kind)
    if kind.index is not None:
        raise UsageError(f"`device=` {device} is one GPU for {world} processes; `device=` cuda gives each one its own")
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise UsageError(f"process {number} of this machine has no GPU: there are {count}; start {count} processes")
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def is_sharded() -> bool:
    """Whether the processes share a model's weights among them, by FSDP."""
    return place()[1] > 1 and _is_asked("FSDP")


def _is_asked(engine: str) -> bool:
    return os.environ.get(f"ACCELERATE_USE_{engine}", "false").lower() in ("true", "1")


def shares_states() -> bool:
    """Whether the processes share gradients and the optimizer's states among them, by DeepSpeed."""
    return place()[1] > 1 and _is_asked("DEEPSPEED")


def join(shares: bool = False) -> None:
    """Meet the other processes, if there are any and this one has not yet. Raises :class:`UsageError` where they are to
    share a model's weights or states among them by what cannot do it here; ``shares``: by FSDP and DeepSpeed they
    may."""
    for name in ("MEGATRON_LM", *([] if shares else ["FSDP", "DEEPSPEED"])):
        if _is_asked(name):
            other = "FSDP does, with `accelerate launch --use_fsdp --fsdp_version 2`" if shares else _WHOLE
            raise UsageError(f"{name} is not supported: {other}; `lora=`, `gradient_checkpointing=` take less memory")
    if _is_asked("DEEPSPEED"):
        if place()[1] == 1:
            raise UsageError("DeepSpeed shares states among several processes, and there is one; start without it")
        if find_spec("deepspeed") is None:
            raise MissingExtra("DeepSpeed", "deepspeed")
    if shares and _is_asked("FSDP") and os.environ.get("FSDP_VERSION", "1") != "2":
        raise UsageError("FSDP is supported as FSDP2: `accelerate launch --use_fsdp --fsdp_version 2`")
    if place()[1] == 1 or dist.is_initialized():
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)
    _Watch().start()


def leave() -> None:
    """Part from the others, once all have come here."""
    if place()[1] > 1 and dist.is_initialized():
        first_says(lambda: None)
        _Watch.stop()
        dist.destroy_process_group()


def first_says(make: Callable[[], _T]) -> _T:
    """What ``make`` gives in the first process, in all of them; the others wait for it as long as it takes."""
    if place()[1] == 1:
        return make()
    box: list[Any] = [make() if is_first() else None]
    dist.broadcast_object_list(box, src=0)
    value: _T = box[0]
    return value


def all_say(value: _T) -> list[_T]:
    """The ``value`` of every process, by rank, in all of them."""
    _, world = place()
    if world == 1:
        return [value]
    said: list[Any] = [None] * world
    dist.all_gather_object(said, value)
    return said


@contextmanager
def shared_stdin() -> Iterator[None]:
    """Within it, every process reads from standard input what the first one was given there."""
    before = sys.stdin
    with tempfile.TemporaryFile("w+b") as file:
        while chunk := first_says(lambda: before.buffer.read(CHUNK)):
            file.write(chunk)
        file.seek(0)
        with open(file.fileno(), encoding="utf-8", closefd=False) as sys.stdin:
            try:
                yield
            finally:
                sys.stdin = before


def ends_all(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorates what all processes call: if it fails in one, all end, and one message says why."""

    @functools.wraps(function)
    def wrapper(*arguments: _P.args, **options: _P.kwargs) -> _T:
        try:
            return function(*arguments, **options)
        except Interrupted:  # all have agreed on it
            raise
        except BaseException as error:
            if place()[1] > 1 and dist.is_initialized():
                _end_all(error)
            raise

    return wrapper


def _end_all(error: BaseException) -> None:
    """Tell the others that this process ends with ``error``, and see to it that one of them says why."""
    rank, _ = place()
    if _Watch.ending:  # what it has met is that another one is gone
        time.sleep(LINGER)
    _Watch.stop()
    store = _store()
    ends = time.monotonic() + LINGER / 2
    while rank and time.monotonic() < ends and not store.check([_FAILED]):
        time.sleep(LOOK_EVERY)  # the first one may have met the same, and is the one to speak
    code = error.exit_code if isinstance(error, RetrokitError) else 1
    speaks = store.compare_set(_FAILED, "", f"{rank} {code}").decode() == f"{rank} {code}"
    if not speaks or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        # torchrun ends all once one has ended, which is to be the one that speaks; elsewhere the store ends with it
        time.sleep(LINGER)
    if isinstance(error, RetrokitError):
        error.heard = speaks
        if rank:
            error.args = (f"process {rank}: {error}",)
    elif not speaks:
        _exit(code)


def _store() -> dist.Store:
    """A connection of its own to what all processes can read."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False)
    return dist.PrefixStore(f"retrokit/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def _exit(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Watch(threading.Thread):
    """Ends this process when another one has failed, wherever it waits."""

    _stopped = threading.Event()
    ending = False

    def __init__(self) -> None:
        super().__init__(name="watch", daemon=True)
        _Watch._stopped = self._stop_asked = threading.Event()

    @classmethod
    def stop(cls) -> None:
        """Watch no longer."""
        cls._stopped.set()

    def run(self) -> None:
        """Look now and then."""
        store = _store()
        while not self._stop_asked.wait(LOOK_EVERY):
            if store.check([_FAILED]) and not self._stop_asked.is_set():
                _Watch.ending = True
                code = int(store.get(_FAILED).split()[1])
                time.sleep(LINGER / 2)  # the one that failed speaks first
                _exit(code)
