"""The trainer of an encoder whose first module is a table of embeddings."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch

from retrokit.data.pairs import Source
from retrokit.data.training_rows import texts_of_record
from retrokit.training.batches import Batches, Collator
from retrokit.training.rows import RowAdamW, RowBag, clip
from retrokit.training.table_tokens import prompted, tokens_of
from retrokit.training.trainer import FinetuneTrainer


class TableTrainer(FinetuneTrainer):
    """Trains an encoder whose first module is a table, by the rows that a step touches; on one process's CPU, where it
    leaves a core to the preparation of batches. NCCL cannot add its gradients."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.threads = torch.get_num_threads()
        self.threads_of_steps = max(1, self.threads - 1)
        self.model[0].embedding = RowBag(self.model[0].embedding)
        self.accelerator.clip_grad_norm_ = clip  # torch's takes no sparse gradients

    def make_optimizer(self, groups: list[dict[str, Any]]) -> RowAdamW:
        _, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        options.pop("fused", None)
        self.rows = RowAdamW(groups, **options)
        return self.rows

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train on all cores but one, with the texts' tokens computed before where each text is read."""
        loader = self.loader
        collator, batches = loader.collate_fn, loader.batch_sampler
        assert isinstance(collator, Collator)
        assert isinstance(batches, Batches)
        examples = self.args.max_steps * self.args.gradient_accumulation_steps * batches.size
        if loader.data.augmentation is None and examples >= len(loader.data):
            texts = partial(_texts, loader.data.sources, collator)
            collator.preprocess = tokens_of(self.model.tokenizer, texts, collator.preprocess)
        with threads(self.threads_of_steps):
            return super().train(*args, **kwargs)

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any) -> torch.Tensor:
        """Update the batch's rows to the last step before the library reads them."""
        ids = torch.cat([inputs[role]["input_ids"] for role in ("query", "document")])
        self.rows.bring(self.model[0].embedding.weight, ids)
        return super().training_step(model, inputs, *args)

    def measure(self) -> dict[str, float]:
        with threads(self.threads):
            return super().measure()

    @contextmanager
    def settled(self, computes: bool = False) -> Iterator[None]:
        with self.rows.whole() if self.optimizer is not None else nullcontext():
            yield

    def settle(self) -> None:
        with threads(self.threads_of_steps):  # that wait for each other take long on a busy machine
            for table in self.rows.tables:
                self.rows.bring(table)


def _texts(sources: Iterable[Source], collator: Collator) -> Iterator[str]:
    """All texts of the sources, each behind its prompt."""
    for source in sources:
        query_prompt, document_prompt = collator.prompts_of(source)
        for record in source.records:
            query, documents = texts_of_record(record)
            yield from prompted([query], query_prompt)
            yield from prompted(documents, document_prompt)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """PyTorch computes with ``count`` threads on a CPU."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
