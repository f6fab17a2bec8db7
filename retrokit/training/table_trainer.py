"""The trainer of a table of embeddings, by the rows that a step touches (:mod:`retrokit.training.rows`).

Its steps are short, so the batches in the making have a core to themselves.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from retrokit.training.finetune_trainer import FinetuneTrainer
from retrokit.training.rows import RowAdamW, RowBag, clip


class TableTrainer(FinetuneTrainer):
    """Trains an encoder whose first module is a table. Not across processes, whose gradients NCCL cannot add, nor in
    fp16, whose gradients are scaled."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.threads = torch.get_num_threads()
        self.model[0].embedding = RowBag(self.model[0].embedding)

    def make_optimizer(self, groups: list[dict[str, Any]]) -> RowAdamW:
        _, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        self.rows = RowAdamW(groups, **{name: value for name, value in options.items() if name != "fused"})
        return self.rows

    def _clip_grad_norm(self, model: torch.nn.Module) -> torch.Tensor:
        return clip(model.parameters(), self.args.max_grad_norm)

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        return clip(model.parameters(), math.inf) if grad_norm is None else super()._get_grad_norm(model, grad_norm)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """The library's, on all cores but one."""
        with threads(max(1, self.threads - 1)), one_thread_tokenises() if self.threads <= 2 else nullcontext():
            return super().train(*args, **kwargs)

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any) -> torch.Tensor:
        """The library's, on rows that stand where the last step has put them."""
        weight = self.model[0].embedding.weight
        ids = torch.cat([inputs[role]["input_ids"] for role in ("query", "document")])
        self.rows.bring(weight, ids.to(weight.device))
        return super().training_step(model, inputs, *args)

    def measure(self) -> dict[str, float]:
        with threads(self.threads):
            return super().measure()

    @contextmanager
    def settled(self, computes: bool = False) -> Iterator[None]:
        with self.rows.whole() if self.optimizer is not None else nullcontext():
            yield

    def settle(self) -> None:
        for table in self.rows.tables:
            self.rows.bring(table)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Within it, PyTorch computes with so many threads on a CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def one_thread_tokenises() -> Iterator[None]:
    """Within it, a batch is tokenised by one thread; tokenizers takes as many as there are cores."""
    switch = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(switch)
    os.environ[switch] = "false"
    try:
        yield
    finally:
        if before is None:
            del os.environ[switch]
        else:
            os.environ[switch] = before
