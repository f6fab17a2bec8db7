"""Training in several processes, as ``torchrun`` and ``accelerate launch`` start them.

Each computes on a device of its own; the first one alone looks into the run folder, evaluates and writes. Whatever goes
wrong in one of them ends all, and is said once: a process that fails leaves a word in a store that the others watch,
for whoever waits in a collective operation would wait for ever.
"""

import copy
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
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import TrainingArguments

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


_SHARED = "`accelerate launch --use_fsdp --fsdp_version 2` shares the weights too"


def set_up(accelerator: Accelerator, model: nn.Module, args: TrainingArguments) -> None:
    """Complete the configuration of what shares ``model``, if anything does: shard each layer by itself, unless
    accelerate's configuration says otherwise, and compute as unsharded training does: in float32 weights, under
    autocast.

    Raises:
        UsageError: it asks for what is not supported.
    """
    if shares_states():
        _set_up_deepspeed(accelerator, args)
    if not is_sharded():
        return
    plugin = accelerator.state.fsdp_plugin
    plugin.mixed_precision_policy = None
    plugin.cpu_ram_efficient_loading = False  # every process has the weights already
    plugin.auto_wrap_policy = plugin.auto_wrap_policy or transformer_auto_wrap_policy
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and part]
    nested = {id(part) for stack in stacks for part in stack.modules() if part is not stack}
    layers = sorted({type(stack[0]).__name__ for stack in stacks if id(stack) not in nested})
    if plugin.transformer_cls_names_to_wrap is None:
        plugin.transformer_cls_names_to_wrap = layers
    if missing := sorted({*plugin.transformer_cls_names_to_wrap} - {type(part).__name__ for part in model.modules()}):
        raise UsageError(
            f"FSDP is to shard layers called {', '.join(missing)}, and the model's are {', '.join(layers)}"
        )


def _set_up_deepspeed(accelerator: Accelerator, args: TrainingArguments) -> None:
    """Leave of the configuration what it says of ZeRO; all else is as ``args`` have it."""
    plugin = accelerator.state.deepspeed_plugin
    settings = plugin.deepspeed_config
    zero = settings.get("zero_optimization", {})
    if zero.get("stage") not in (1, 2):
        raise UsageError(f"DeepSpeed is supported with ZeRO's stages 1 and 2, not {zero.get('stage')}; {_SHARED}")
    for name in ("offload_optimizer", "offload_param"):
        if zero.get(name, {}).get("device", "none") != "none":
            raise UsageError(f"DeepSpeed's `{name}` is not supported; {_SHARED}")
    if own := [name for name in ("optimizer", "scheduler") if name in settings]:
        raise UsageError(f"DeepSpeed's own `{own[0]}` is not supported: `lr=`, `schedule=` and `adam_betas=` say it")
    if args.fp16:
        raise UsageError("DeepSpeed in fp16 is not supported; `precision=` bf16 and fp32 are")
    settings.clear()
    settings |= {
        "zero_optimization": {key: value for key, value in zero.items() if value != "auto"},  # else its own value
        "train_micro_batch_size_per_gpu": args.per_device_train_batch_size,
        "gradient_accumulation_steps": args.gradient_accumulation_steps,
        "gradient_clipping": args.max_grad_norm,
        "communication_data_type": "fp32",
        "steps_per_print": sys.maxsize,
    }
    if args.bf16:  # under autocast, as without DeepSpeed
        settings["torch_autocast"] = {"enabled": True, "dtype": "bfloat16"}
    plugin.hf_ds_config.mismatches.clear()


class WholeCopy:
    """A whole copy of ``model``, which is about to be sharded, in the first process; the others have none."""

    def __init__(self, model: nn.Module) -> None:
        self.whole = whole(model).to("cpu") if is_first() else None

    def gather(self, model: nn.Module) -> None:
        """Bring the copy up to date; in every process."""
        copies = dict(self.whole.named_parameters()) if self.whole is not None else {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:  # all else is as it was
                value = full(parameter.detach())
                if copies:
                    copies[name].data.copy_(value)

    @contextmanager
    def in_place_of(self, model: nn.Module, device: torch.device) -> Iterator[nn.Module]:
        """Within it, the copy on ``device``, up to date; in other processes than the first, the sharded model."""
        self.gather(model)
        if self.whole is None:
            yield model
            return
        try:
            yield self.whole.to(device)
        finally:
            self.whole.to("cpu")


def full(value: Tensor) -> Tensor:
    """All of a tensor of which each process has a part; itself if it is whole."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def part_of(value: Tensor, like: Tensor) -> Tensor:
    """The part of a tensor that this process has of one of the same shape; the first process's is taken."""
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)


def whole(module: nn.Module) -> Any:
    """A copy of a module, with all of the tensors of which this process has a part."""
    copies = {id(part): nn.Parameter(full(part.detach()).clone(), part.requires_grad) for part in module.parameters()}
    return copy.deepcopy(module, copies)  # what is copied already, by id


def whole_states(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer, with whole tensors in place of parts; in every process."""
    # one after another to the CPU, for a GPU has no room for all of them
    return _changed(optimizer.state_dict(), lambda _, value: full(value).cpu() if isinstance(value, DTensor) else value)


def parts_of_states(states: dict[str, Any], optimizer: Any) -> dict[str, Any]:
    """What :func:`whole_states` gave, for an optimizer of parts; in every process."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return _changed(states, lambda number, value: part_of(value, parameters[number]))


def _changed(states: dict[str, Any], change: Callable[[int, Tensor], Tensor]) -> dict[str, Any]:
    changed = {
        number: {name: change(number, value) if isinstance(value, Tensor) else value for name, value in state.items()}
        for number, state in states["state"].items()
    }
    return {**states, "state": changed}
