"""An encoder as an update of another: what training has changed of its weights.

A matrix's change is kept as the product of two thin ones, in half precision: 2 MB in place of 90.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from retrokit.core.errors import DataError, UsageError
from retrokit.encoders.base import Encoder
from retrokit.encoders.fingerprint import digest_of_weights

UPDATE_FILE = "encoder-update.safetensors"
_UP, _DOWN, _WHOLE = ".up", ".down", ".change"


def low_rank(change: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The two matrices ``[a, rank]`` and ``[rank, b]`` whose product is nearest to ``change`` ``[a, b]`` (its truncated
    SVD); of fewer columns where ``change`` has a lower rank.

    >>> up, down = low_rank(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), rank=1)
    >>> (up @ down).round(decimals=4).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # a whole decomposition takes seconds for a matrix
        left, sizes, right = torch.svd_lowrank(change.double(), min(rank + 8, *change.shape), niter=8)
    columns = min(rank, int((sizes > 1e-6 * sizes[0]).sum()))
    roots = sizes[:columns].sqrt()
    return (left[:, :columns] * roots).float(), (right[:, :columns] * roots).T.float()


def update_between(before: Mapping[str, Tensor], after: Mapping[str, Tensor], rank: int) -> dict[str, Tensor]:
    """What leads from the weights ``before`` to those ``after``, float16: of a matrix ``NAME.up`` and ``NAME.down``, of
    anything else ``NAME.change``."""
    update: dict[str, Tensor] = {}
    for name, old in before.items():
        change = after[name].float() - old.float()
        if change.any() and change.ndim == 2:
            update[name + _UP], update[name + _DOWN] = low_rank(change, rank)
        elif change.any():
            update[name + _WHOLE] = change
    return {name: tensor.half().contiguous() for name, tensor in update.items()}


def add_update(encoder: Encoder, folder: Path, made_for: Mapping[str, Any]) -> None:
    """Add the update in ``folder`` to the weights of ``encoder``, in place.

    Raises:
        UsageError: it has other weights than those that the update begins with.
        DataError: the file is damaged.
    """
    path = folder / UPDATE_FILE
    try:
        update = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(path, f"holds no update of an encoder: {str(error).splitlines()[0]}") from error
    weights = weights_of(encoder)
    if digest_of(weights, update) != made_for["begins_with"]:
        raise UsageError(f"{folder} changes the weights of {made_for['encoder']}, and {encoder.spec} has others")
    with torch.no_grad():
        for name, change in changes_of(update).items():
            weights[name] += change.to(weights[name])


def changes_of(update: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The change of each weight, float32, by its name."""
    whole = {name.removesuffix(_WHOLE): part.float() for name, part in update.items() if name.endswith(_WHOLE)}
    matrices = [name.removesuffix(_UP) for name in update if name.endswith(_UP)]
    return whole | {name: update[name + _UP].float() @ update[name + _DOWN].float() for name in matrices}


def weights_of(encoder: Encoder) -> dict[str, Tensor]:
    """The weights of an encoder's transformer, which are not copied, by their names in its checkpoint."""
    transformer = getattr(encoder.to_train().model[0], "auto_model", None)
    if transformer is None:
        raise UsageError(f"{encoder.spec} has no transformer, whose weights an update could change")
    weights: dict[str, Tensor] = transformer.state_dict()
    return weights


def digest_of(weights: Mapping[str, Tensor], update: Iterable[str]) -> str:
    """Of the weights that an update changes; empty if one is not there."""
    names = {name.rpartition(".")[0] for name in update}
    if not names <= weights.keys():
        return ""
    return str(digest_of_weights({name: weights[name] for name in names}).hexdigest())
