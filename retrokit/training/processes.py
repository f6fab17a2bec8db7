"""Training in several processes, as ``torchrun`` and ``accelerate launch`` start them.

Each computes on a device of its own. Only the first looks into the model folder, evaluates and writes. An error in one
process ends all, and is reported once: torchrun ends the others, and a store shows which process reports.

Processes may share a model's weights, gradients and optimizer states, each a part: fully sharded data parallelism
(FSDP2, ``accelerate launch --use_fsdp --fsdp_version 2``). The first has a whole copy in its CPU's memory, which is
updated to evaluate and to save.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from retrokit.core.errors import Interrupted, RetrokitError, UsageError

if TYPE_CHECKING:
    from accelerate import Accelerator

PATIENCE = timedelta(days=30)  # the others wait while the first one evaluates and writes
LINGER = 2.0  # seconds in which the process that reports an error ends before the others
_FAILED = "failed"
_FSDP2 = "`accelerate launch --use_fsdp --fsdp_version 2`"

_P = ParamSpec("_P")
_T = TypeVar("_T")


def process_rank() -> int:
    """The number of this process, from 0, as torchrun and accelerate set it."""
    return int(os.environ.get("RANK", "0"))


def process_count() -> int:
    """The number of processes, as torchrun and accelerate set it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this process is the one that writes and reports."""
    return process_rank() == 0


def own_device(device: str | None) -> str | None:
    """The device of this process: the requested one, or its own one of several GPUs."""
    world = process_count()
    if world == 1:
        return device
    default = "cuda" if torch.cuda.is_available() else "cpu"
    kind = torch.device(default if device is None else device)
    if kind.type != "cuda":
        return str(kind)
    if kind.index is not None:
        raise UsageError(f"`device=` {device} is one GPU for {world} processes; give `device=` cuda")
    number, count = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= count:
        raise UsageError(f"process {number} of this machine has no GPU: there are {count}; start {count} processes")
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def _uses(engine: str) -> bool:
    return os.environ.get(f"ACCELERATE_USE_{engine}", "false").lower() in ("true", "1")


def is_sharded() -> bool:
    """Whether the processes share a model's weights, by FSDP."""
    return process_count() > 1 and _uses("FSDP")


def join(shares: bool = False) -> None:
    """Join the other processes, if there are any. ``shares``: FSDP is supported here; raises :class:`UsageError` for an
    engine that is not."""
    _check_engine(shares)
    if process_count() > 1 and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=PATIENCE)


def _check_engine(shares: bool) -> None:
    unsupported = ["MEGATRON_LM", "DEEPSPEED"] if shares else ["MEGATRON_LM", "DEEPSPEED", "FSDP"]
    for name in unsupported:
        if _uses(name):
            other = _FSDP2 if shares else "torchrun, or `accelerate launch --multi_gpu`"
            raise UsageError(f"{name} is not supported here; start with {other}")
    if shares and _uses("FSDP") and os.environ.get("FSDP_VERSION", "1") != "2":
        raise UsageError(f"FSDP1 is not supported; start with {_FSDP2}")


def leave() -> None:
    """Leave the others, once all have come here."""
    if process_count() > 1 and dist.is_initialized():
        first_says(lambda: None)
        dist.destroy_process_group()


def first_says(make: Callable[[], _T]) -> _T:
    """The result of ``make`` in the first process, in all of them; the others wait for it without limit."""
    if process_count() == 1:
        return make()
    box: list[Any] = [make() if is_first() else None]
    dist.broadcast_object_list(box, src=0)
    value: _T = box[0]
    return value


def all_say(value: _T) -> list[_T]:
    """The ``value`` of every process, by rank, in all of them."""
    world = process_count()
    values: list[Any] = [value] * world
    if world > 1:
        dist.all_gather_object(values, value)
    return values


def ends_all(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorates a function that all processes call: if it fails in several, the first to fail reports why."""

    @functools.wraps(function)
    def wrapper(*arguments: _P.args, **options: _P.kwargs) -> _T:
        try:
            return function(*arguments, **options)
        except Interrupted:  # in all processes
            raise
        except BaseException as error:
            if process_count() > 1 and dist.is_initialized():
                _report_once(error)
            raise

    return wrapper


def _report_once(error: BaseException) -> None:
    """End this process silently if another one has failed before; else mark ``error`` as the one to report."""
    rank = process_rank()
    report = f"{rank} {error.exit_code if isinstance(error, RetrokitError) else 1}"
    try:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(host, port, is_master=False, timeout=timedelta(seconds=20), wait_for_workers=False)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        first = store.compare_set(f"retrokit/{attempt}/{_FAILED}", "", report).decode()
    except dist.DistError:  # the store has ended with the process that hosted it
        first = "0 1"
    if first != report:
        time.sleep(LINGER)  # torchrun ends all once one has ended
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(first.split()[1]))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        time.sleep(LINGER)  # without torchrun the store ends with the first process
    if isinstance(error, RetrokitError):
        error.heard = True
        if rank:
            error.args = (f"process {rank}: {error}",)


# --- FSDP


def set_up(accelerator: Accelerator, model: nn.Module) -> None:
    """Complete the configuration of FSDP, if it shares ``model``: each layer is sharded, unless accelerate's
    configuration names other ones, and computes as without sharding, in float32 weights under autocast.

    Raises:
        UsageError: the configuration contains what is not supported.
    """
    if not is_sharded():
        return
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

    plugin = accelerator.state.fsdp_plugin
    plugin.mixed_precision_policy = None
    plugin.cpu_ram_efficient_loading = False  # every process has the weights already
    plugin.auto_wrap_policy = plugin.auto_wrap_policy or transformer_auto_wrap_policy
    layers = _layer_classes(model)
    if plugin.transformer_cls_names_to_wrap is None:
        plugin.transformer_cls_names_to_wrap = layers
    classes = {type(module).__name__ for module in model.modules()}
    if missing := sorted({*plugin.transformer_cls_names_to_wrap} - classes):
        raise UsageError(f"FSDP: no layers called {', '.join(missing)}; expected {', '.join(layers)}")


def _layer_classes(model: nn.Module) -> list[str]:
    """The classes of the layers in stacks that are in no other stack."""
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList) and module]
    nested: set[int] = set()
    for stack in stacks:
        nested |= {id(module) for module in stack.modules() if module is not stack}
    return sorted({type(stack[0]).__name__ for stack in stacks if id(stack) not in nested})


class WholeCopy:
    """A whole copy of ``model``, before it is sharded, in the first process; the others have none."""

    def __init__(self, model: nn.Module) -> None:
        self.whole = whole(model).to("cpu") if is_first() else None

    def gather(self, model: nn.Module) -> None:
        """Update the copy; in every process."""
        copies = dict(self.whole.named_parameters()) if self.whole is not None else {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                value = full(parameter.detach())
                if copies:
                    copies[name].data.copy_(value)

    @contextmanager
    def in_place_of(self, model: nn.Module, device: torch.device) -> Iterator[nn.Module]:
        """The updated copy on ``device``; in other processes than the first, the sharded model."""
        self.gather(model)
        if self.whole is None:
            yield model
            return
        try:
            yield self.whole.to(device)
        finally:
            self.whole.to("cpu")


def is_part(value: Any) -> bool:
    """Whether a tensor is this process's part of one."""
    return hasattr(value, "device_mesh")


def full(value: Any) -> Tensor:
    """The whole of a tensor of which each process has a part."""
    whole_tensor: Tensor = value.full_tensor() if is_part(value) else value
    return whole_tensor


def part_of(value: Tensor, like: Any) -> Tensor:
    """The part of the first process's ``value`` that this process has of ``like``."""
    if not is_part(like) or value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    part: Tensor = distribute_tensor(value.to(like.device), like.device_mesh, like.placements)
    return part


def whole(module: nn.Module) -> Any:
    """A copy of a module with whole tensors."""
    copies = {}
    for parameter in module.parameters():
        copies[id(parameter)] = nn.Parameter(full(parameter.detach()).clone(), parameter.requires_grad)
    return copy.deepcopy(module, copies)  # what is copied already, by id


def whole_states(optimizer: Any) -> dict[str, Any]:
    """The state of an optimizer with whole tensors; in every process."""
    # to the CPU one by one: a GPU has no room for all
    return _changed(optimizer.state_dict(), lambda _, value: full(value).cpu() if is_part(value) else value)


def parts_of_states(states: dict[str, Any], optimizer: Any) -> dict[str, Any]:
    """A result of :func:`whole_states`, for an optimizer of parts; in every process."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return _changed(states, lambda number, value: part_of(value, parameters[number]))


def _changed(states: dict[str, Any], change: Callable[[int, Tensor], Tensor]) -> dict[str, Any]:
    changed: dict[int, dict[str, Any]] = {}
    for number, state in states["state"].items():
        changed[number] = dict(state)
        for name, value in state.items():
            if isinstance(value, Tensor):
                changed[number][name] = change(number, value)
    return {**states, "state": changed}
