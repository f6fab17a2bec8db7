"""Maps between two spaces of embeddings, fitted to rows of both.

``orthogonal`` is Procrustes' (Schönemann, 1966), ``affine`` is ridge regression with the strength of the least
generalised cross-validation (Golub, Heath and Wahba, 1979), ``low-rank:r`` is its reduced-rank form (Izenman, 1975),
``mlp`` adds a layer with ReLU that learns what the affine map leaves."""

from dataclasses import dataclass, field

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Dense
from torch import nn

from retrokit.core.errors import UsageError

RIDGES = (0.0, *np.logspace(-6, 1, 15).tolist())
"""Strengths as shares of the largest eigenvalue."""


@dataclass(frozen=True)
class VectorMap:
    """x → x·weight + bias + ReLU(x·first)·last; float64 ``[d, d']``, ``[d']``, ``[d, h]``, ``[h, d']``."""

    weight: np.ndarray
    bias: np.ndarray
    first: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    last: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        mapped = rows @ self.weight + self.bias
        result: np.ndarray = mapped + np.maximum(rows @ self.first, 0) @ self.last if self.first.size else mapped
        return result

    def layers(self) -> list[nn.Module]:
        """The same as stock layers: x is ReLU(x) − ReLU(−x)."""
        if not self.first.size:
            return [_dense(self.weight, self.bias, nn.Identity())]
        identity = np.eye(len(self.weight))
        wide = np.concatenate([identity, -identity, self.first], axis=1)
        narrow = np.concatenate([self.weight, -self.weight, self.last])
        return [_dense(wide, np.zeros(wide.shape[1]), nn.ReLU()), _dense(narrow, self.bias, nn.Identity())]


def _dense(weight: np.ndarray, bias: np.ndarray, activation: nn.Module) -> Dense:
    tensors = {"init_weight": torch.tensor(weight.T).float(), "init_bias": torch.tensor(bias).float()}
    return Dense(*weight.shape, activation_function=activation, **tensors)


def check_rank(option: str, kind: str, dimension: int) -> None:
    """Raise :class:`UsageError` for a map ``low-rank:N`` whose rank no matrix of ``dimension`` has."""
    name, _, rank = kind.partition(":")
    if name == "low-rank" and int(rank) > dimension:
        raise UsageError(f"`{option}=` {kind}: the rank is above the {dimension:,} dimensions of the embeddings")


def fit(kind: str, source: np.ndarray, target: np.ndarray, seed: int = 0) -> VectorMap:
    """The map of a ``kind`` from rows ``source [n, d]`` to rows ``target [n, d']`` with the least squared error."""
    x, y = source.astype(np.float64), target.astype(np.float64)
    name, _, number = kind.partition(":")
    if name == "orthogonal":
        u, _, v = np.linalg.svd(x.T @ y, full_matrices=False)
        return VectorMap(u @ v, np.zeros(y.shape[1]))
    affine = ridge(x, y)
    if name == "low-rank":
        fitted = affine(x) - y.mean(axis=0)
        axes = np.linalg.eigh(fitted.T @ fitted)[1][:, ::-1][:, : int(number)]
        weight = affine.weight @ axes @ axes.T
        return VectorMap(weight, y.mean(axis=0) - x.mean(axis=0) @ weight)
    return _bent(affine, x, y, int(number or x.shape[1]), seed) if name == "mlp" else affine


def ridge(x: np.ndarray, y: np.ndarray, strength: float | None = None) -> VectorMap:
    """Ridge regression with an intercept; ``strength`` is a share of the largest eigenvalue of the centred x, and by
    default that of the least generalised cross-validation."""
    centre, target = x.mean(axis=0), y.mean(axis=0)
    u, scales, v = np.linalg.svd(x - centre, full_matrices=False)
    seen, total = u.T @ (y - target), float(np.square(y - target).sum())
    powers, alive = np.square(scales), scales > scales[:1] * 1e-10

    def shrunk(share: float) -> np.ndarray:
        bottom = powers + share * powers[:1]
        return np.where(alive, powers / np.where(alive, bottom, 1), 0)

    def validation(share: float) -> float:
        shrinkage = shrunk(share)
        free = len(x) - 1 - shrinkage.sum()
        left_over = total - float(((1 - np.square(1 - shrinkage)) * np.square(seen).sum(axis=1)).sum())
        return left_over / free**2 if free > 0.5 else np.inf

    share = min(RIDGES, key=validation) if strength is None else strength
    weight = v.T @ ((shrunk(share) / np.where(alive, scales, 1))[:, None] * seen)
    return VectorMap(weight, target - centre @ weight)


def _bent(affine: VectorMap, x: np.ndarray, y: np.ndarray, hidden: int, seed: int, steps: int = 400) -> VectorMap:
    """The affine map and a hidden layer, trained on what it leaves; the step that is best on a tenth is taken."""
    rows, rest = (torch.tensor(side, dtype=torch.float32) for side in (x, y - affine(x)))
    is_dev = torch.from_numpy(np.random.default_rng(seed).random(len(x)) < 0.1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = nn.Linear(x.shape[1], hidden, bias=False)
    last = nn.Linear(hidden, y.shape[1], bias=False)
    nn.init.zeros_(last.weight)
    net = nn.Sequential(first, nn.ReLU(), last)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1)
    best = (np.inf, first.weight.detach().clone(), last.weight.detach().clone())
    for _ in range(steps):
        optimizer.zero_grad()
        errors = (net(rows) - rest).square().sum(dim=1)
        dev = float(errors[is_dev].detach().mean()) if bool(is_dev.any()) else np.inf
        if dev < best[0]:
            best = (dev, first.weight.detach().clone(), last.weight.detach().clone())
        errors[~is_dev].mean().backward()
        optimizer.step()
    return VectorMap(affine.weight, affine.bias, best[1].T.double().numpy(), best[2].T.double().numpy())
