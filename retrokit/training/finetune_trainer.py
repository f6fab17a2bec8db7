"""The trainer of an encoder that ends in ``Prepare``: by a loss over prepared embeddings, evaluated on a task."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request, Task
from retrokit.training.loss import PreparedLoss
from retrokit.training.model import as_encoder, export
from retrokit.training.trainer import RunTrainer


class FinetuneTrainer(RunTrainer):
    """Trains ``model``, which ends in ``Prepare``, by ``loss``, and evaluates it on ``task``, if on anything; ``start``
    is the encoder as it came."""

    def __init__(self, *of_any: Any, loss: PreparedLoss, task: Task | None, start: Encoder) -> None:
        super().__init__(*of_any)
        self.loss = loss.to(self.args.device)
        self.task, self.start = task, start

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
        """The task's metrics; before the first step, those of the encoder's own similarity are noted too."""
        assert self.task is not None
        encoder = as_encoder(self.model, self.start.spec)
        metrics = list(dict.fromkeys([self.history.metric, *self.task.shown_metrics]))
        own = self.start.similarity
        also = [own] if self.state.global_step == 0 and own.spec != encoder.similarity.spec else []
        result, *start = self.task.evaluate(Request(encoder, [encoder.similarity, *also], metrics))
        baseline = [{"similarity": one.similarity, "evaluation": one.metrics} for one in start]
        self.evaluation_notes = {**({"baseline": baseline[0]} if baseline else {}), "norms": result.norms}
        return result.metrics

    def learned(self) -> dict[str, float]:
        found = {name: round(value, 6) for name, value in list(self.model)[-1].similarity.statistics().items()}
        guide = self.loss.guide
        share = guide.share() if guide is not None else None
        return found if share is None else {**found, "masked_by_guide": round(share, 6)}

    def write_model(self, folder: Path) -> bool:
        export(self.model, folder)
        return True
