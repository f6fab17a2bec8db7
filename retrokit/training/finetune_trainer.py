"""The trainer of an encoder that ends in ``Prepare``: by a loss over prepared embeddings, evaluated on tasks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request
from retrokit.training.evaluations import Evaluations
from retrokit.training.loss import PreparedLoss
from retrokit.training.model import as_encoder, export
from retrokit.training.trainer import RunTrainer


class FinetuneTrainer(RunTrainer):
    """Trains ``model``, which ends in ``Prepare``, by ``loss``, and evaluates it; ``start`` is the encoder as it
    came."""

    def __init__(self, *of_any: Any, loss: PreparedLoss, evaluations: Evaluations, start: Encoder) -> None:
        super().__init__(*of_any)
        self.loss = loss.to(self.args.device)
        self.evaluations, self.start = evaluations, start

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
            asked = Request(encoder, [encoder.similarity, *also], self.evaluations.metrics_of(name))
            result, *start = task.evaluate(asked)
            metrics |= _of_task(name, result.metrics)
            norms |= _of_task(name, result.norms)
            for one in start:
                baseline |= _of_task(name, one.metrics)
        notes = {"baseline": {"similarity": own.spec, "evaluation": baseline}} if baseline else {}
        self.evaluation_notes = {**notes, "norms": norms}
        return metrics

    def learned(self) -> dict[str, float]:
        found = {name: round(value, 6) for name, value in list(self.model)[-1].similarity.statistics().items()}
        guide = self.loss.guide
        share = guide.share() if guide is not None else None
        return found if share is None else {**found, "masked_by_guide": round(share, 6)}

    def write_model(self, folder: Path) -> bool:
        export(self.model, folder)
        return True


def _of_task(name: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}:{key}": value for key, value in values.items()}
