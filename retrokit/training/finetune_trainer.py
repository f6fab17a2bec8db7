"""The trainer of an encoder that ends in ``Prepare``: by a loss over prepared embeddings, evaluated on tasks; and that
of a table of embeddings, by the rows that a step touches (:mod:`retrokit.training.rows`)."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from retrokit.core.errors import DataError
from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request
from retrokit.training.evaluations import HOLDOUT, LOSS, Evaluations, HeldOut
from retrokit.training.loss import PreparedLoss, alone
from retrokit.training.model import as_encoder, export
from retrokit.training.rows import RowAdamW, RowBag, clip
from retrokit.training.sharding import whole
from retrokit.training.trainer import RunTrainer


class FinetuneTrainer(RunTrainer):
    """Trains ``model``, which ends in ``Prepare``, by ``loss``, and evaluates it, also by the loss of what is
    ``held_out``; ``start`` is the encoder as it came."""

    def __init__(
        self, *of_any: Any, loss: PreparedLoss, evaluations: Evaluations, held_out: HeldOut | None, start: Encoder
    ) -> None:
        super().__init__(*of_any)
        self.loss = loss.to(self.args.device)
        self.evaluations, self.held_out, self.start = evaluations, held_out, start

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a batch, by the model as the library has wrapped it."""
        self.loss.model = model
        # one copy of the weights, in the type that is computed in, for all parts of the batch; gradient caching runs
        # some of them without gradients, whose copies are of no use to the others
        with nullcontext() if self.loss.mini_batch_size else self.accelerator.autocast():
            return self.loss([inputs["query"], inputs["document"]], inputs.get("label"))

    def measure(self) -> dict[str, float]:
        """The metrics of all tasks; before the first step, those of the encoder's own similarity are noted too."""
        encoder, own = as_encoder(self.model, self.start.spec), self.start.similarity
        also = [own] if self.state.global_step == 0 and own.spec != encoder.similarity.spec else []
        metrics: dict[str, float] = {}
        norms: dict[str, float] = {}
        baseline: dict[str, float] = {}
        for name, task in self.evaluations.tasks.items():
            metrics_of = self.evaluations.metrics_of(name)
            request = Request(encoder, [encoder.similarity, *also], metrics_of, precision=self.precision)
            result, *start = task.evaluate(request)
            metrics |= _of_task(name, result.metrics)
            norms |= _of_task(name, result.norms)
            for own_result in start:
                baseline |= _of_task(name, own_result.metrics)
        if self.held_out is not None:
            metrics[f"{HOLDOUT}:{LOSS}"] = self._held_out_loss(self.held_out)
        notes = {"baseline": {"similarity": own.spec, "evaluation": baseline}} if baseline else {}
        self.evaluation_notes = {**notes, "norms": norms}
        return metrics

    @torch.no_grad()
    def _held_out_loss(self, held_out: HeldOut) -> float:
        """The loss as it is trained, without dropout; the mean over the examples."""
        guide = self.loss.guide
        counts = guide.counts.clone() if guide is not None else torch.empty(0)
        collator = replace(self.data_collator, sources=held_out.data.sources)
        self.model.eval()
        self.loss.model = self.model
        total, weights = 0.0, 0.0
        with alone(), self.autocast():
            for examples, weight in held_out.batches():
                inputs = self.on_device(collator(examples))
                total += weight * self.loss([inputs["query"], inputs["document"]], inputs.get("label")).item()
                weights += weight
        if guide is not None:
            guide.counts.copy_(counts)  # those of the training are told
        if not math.isfinite(total):
            problem = f"the loss of what is held out is {total} at step {self.state.global_step}; lower `lr=`"
            raise DataError(self.folder.target, problem)
        return total / weights

    def learned(self) -> dict[str, float]:
        similarity = whole(list(self.model)[-1].similarity)
        statistics = {name: round(value, 6) for name, value in similarity.statistics().items()}
        guide = self.loss.guide
        share = guide.share() if guide is not None else None
        return statistics if share is None else {**statistics, "masked_by_guide": round(share, 6)}

    def write_model(self, folder: Path) -> bool:
        export(self.model, folder)
        return True


def _of_task(name: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}:{key}": value for key, value in values.items()}


class TableTrainer(FinetuneTrainer):
    """Trains an encoder whose first module is a table. Not across processes, whose gradients NCCL cannot add, nor in
    fp16, whose gradients are scaled. Its steps are short, so the batches in the making have a core to themselves."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.threads = torch.get_num_threads()
        self.model[0].embedding = RowBag(self.model[0].embedding)
        self.accelerator.clip_grad_norm_ = clip  # torch's takes no sparse gradients

    def make_optimizer(self, groups: list[dict[str, Any]]) -> RowAdamW:
        _, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        self.rows = RowAdamW(groups, **{name: value for name, value in options.items() if name != "fused"})
        return self.rows

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
    before = {name: value for name, value in os.environ.items() if name == switch}
    os.environ[switch] = "false"
    try:
        yield
    finally:
        del os.environ[switch]
        os.environ.update(before)
