"""Weights, gradients and optimizer states that processes share among them, each a part: fully sharded data parallelism
(FSDP2), as ``accelerate launch --use_fsdp --fsdp_version 2`` asks for it and accelerate carries it out.

The first process has a whole copy beside its part, in the memory of its CPU, which is brought up to date to evaluate
and to save: what is written does not tell of how it was trained.

DeepSpeed's ZeRO (``accelerate launch --use_deepspeed``) shares gradients and states alone; its engine keeps the states
in files of its own, a part for each process.
"""

import copy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import TrainingArguments

from retrokit.core.errors import UsageError
from retrokit.training.processes import is_first, is_sharded, shares_states

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
