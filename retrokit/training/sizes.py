"""``auto`` in place of a batch size or a mini-batch: the largest power of two whose step fits into memory.

A CPU has what the machine and the process's control group leave, of which a share is taken by an estimate
(:mod:`retrokit.training.step_memory`); on a GPU the estimate is where trials of a step begin.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from retrokit.core.errors import UsageError
from retrokit.core.notices import notice
from retrokit.encoders.base import Encoder
from retrokit.encoders.engine import tokens_at_once
from retrokit.training.batches import TrainingSet
from retrokit.training.config import AUTO, FinetuneConfig
from retrokit.training.preflight import LENGTH_SAMPLE, measure_lengths, texts_of
from retrokit.training.processes import all_say, place
from retrokit.training.run import folder_of
from retrokit.training.step_memory import ADAM_STATES, Memory, measure_texts

SHARE = 0.6
"""Of a CPU's free memory: what computes it in passing, and batches in the making, take some too."""
FEWEST = 30
"""Steps that a run shall have, or an epoch of it, however much memory there is."""
SMALLEST = 8
"""Examples of a batch, even where there are fewer steps."""
PER_SCORE = 96
"""Bytes of the loss for a query and a document: scores, their exponents and gradients in float32, their codes."""
PER_NUMBER = 32
"""Bytes of the loss for a number of an embedding: as it came, prepared, gathered, and the gradients."""


def fitted(
    config: FinetuneConfig, encoder: Encoder, model: SentenceTransformer, data: TrainingSet, dtype: torch.dtype
) -> FinetuneConfig:
    """The configuration with numbers in place of ``auto``, the same in all processes; says which and why. A run that
    goes on keeps what it has chosen.

    Raises:
        UsageError: an encoder whose memory is not told, or one of which no single example fits.
    """
    name = next((name for name in ("batch_size", "mini_batch") if getattr(config, name) == AUTO), None)
    if name is None:
        return config
    folder = folder_of(config) if config.output is not None else None
    if folder is not None and folder.goes_on:
        return replace(config, **{name: folder.read().identity[name]})
    finder = SizeFinder(config, encoder, model, data, dtype)
    most, why = finder.most(name)
    size = min(all_say(finder.largest(name, most)))
    room = f"{finder.room / 1e9:.3g} GB for texts of {finder.tokens} tokens"
    if name == "mini_batch" and size >= most:
        notice(f"`mini_batch=` auto: a whole batch fits into {room}, without gradient caching")
        return replace(config, mini_batch=None)
    notice(f"`{name}=` auto: {size}, the largest power of two {why if size == most else f'that fits into {room}'}")
    chosen: dict[str, Any] = {name: size}
    return replace(config, **chosen)


class SizeFinder:
    """Looks for sizes of a step of ``model``, computing in ``dtype``."""

    def __init__(
        self,
        config: FinetuneConfig,
        encoder: Encoder,
        model: SentenceTransformer,
        data: TrainingSet,
        dtype: torch.dtype,
    ) -> None:
        self.config, self.model, self.data, self.dtype, self.device = config, model, data, dtype, encoder.device
        if model.supports("image") or not (hasattr(model[0], "auto_model") or isinstance(model[0], StaticEmbedding)):
            raise UsageError(f"`batch_size=` auto: the memory of {encoder.spec} cannot be told; give a number")
        queries, documents = texts_of(data, LENGTH_SAMPLE, config.seed)
        lengths = [
            measure_lengths(encoder, queries, "query", config.max_length),
            measure_lengths(encoder, documents, "document", config.max_length),
        ]
        self.tokens = max(min(entry["percentiles"]["100"], entry["limit"] or 10**9) for entry in lengths)
        self.documents = max(len(data[index].document_ids) for index in range(0, len(data), 1 + len(data) // 1000))
        self.width = int(model.get_embedding_dimension() or 1)
        self.room = free_memory(self.device)
        self.trained = sum(value.nbytes for value in model.parameters() if value.requires_grad)
        self.memory: Memory | None = None
        if hasattr(model[0], "auto_model"):
            self.memory, (self.of_text,) = measure_texts(model[0].auto_model, dtype, [self.tokens])

    def most(self, name: str) -> tuple[int, str]:
        """The largest size that the data allow, and what it is larger than all others in."""
        world = place()[1]
        if name == "mini_batch":
            return _power_of_two(2 * (1 + self.documents) * int(self.config.batch_size) - 1), "of a batch"
        counts = [int(len(source.records) * source.weight) // world for source in self.data.sources]
        epochs = max(1.0, self.config.epochs or 1.0)
        wanted = max(SMALLEST, int(epochs * sum(counts)) // (FEWEST * self.config.accumulate))
        return _power_of_two(max(1, min(wanted, *counts))), f"of which the data give {FEWEST} steps"

    def largest(self, name: str, most: int) -> int:
        """The largest power of two up to ``most`` that fits."""
        sizes = [2**power for power in range(most.bit_length())]
        fitting = [size for size in sizes if self._bytes(name, size) <= self.room]
        size = max(fitting, default=0)
        if self.device.type == "cuda" and self.memory is not None:
            size = largest_by_trial(lambda candidate: self.can(name, candidate), max(size, 1), most)
        if not size:
            least = f"not even one text of {self.tokens} tokens fits into {self.room / 1e9:.3g} GB"
            less = "`max_length=`, `gradient_checkpointing=`, `lora=` or `freeze=` take less"
            raise UsageError(f"`{name}=` auto: {least}; {less}")
        return size

    def _sizes(self, name: str, size: int) -> tuple[int, int | None]:
        """Examples of a batch, and texts whose activations are held at once, where those are not all of them."""
        batch, mini_batch = (size, self.config.mini_batch) if name == "batch_size" else (self.config.batch_size, size)
        every = int(batch) * (1 + self.documents)
        held = every if mini_batch is None else int(mini_batch)
        return int(batch), None if held >= every else held

    def _bytes(self, name: str, size: int) -> int:
        """Of a step beyond the weights that are there."""
        batch, mini_batch = self._sizes(name, size)
        joint = batch * place()[1]
        of_loss = batch * joint * self.documents * PER_SCORE + joint * (1 + self.documents) * self.width * PER_NUMBER
        if self.memory is None:
            return of_loss + (1 + ADAM_STATES) * self.trained
        activations = self.of_text.of_step(batch, self.documents, mini_batch, tokens_at_once(self.device))
        twice = self.config.gradient_checkpointing and activations.checkpointed is not None
        activation_bytes = activations.checkpointed if twice else activations.kept
        return of_loss + self.memory.gradients + self.memory.optimizer + self.memory.copies + int(activation_bytes or 0)

    def can(self, name: str, size: int) -> bool:
        """Whether a step on texts that are all of the longest fits into the memory of a GPU, with AdamW's states and a
        tenth of what is free to spare."""
        batch, mini_batch = self._sizes(name, size)
        texts = mini_batch or batch * (1 + self.documents)
        try:
            self._try(texts, batch)
            fits = True
        except torch.OutOfMemoryError:
            fits = False
        self.model.zero_grad(set_to_none=True)
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        return fits

    def _try(self, texts: int, batch: int) -> None:
        cells = batch * batch * place()[1] * self.documents * PER_SCORE
        spared = ADAM_STATES * self.trained + int(0.1 * self.room) + cells
        held = torch.empty(spared, dtype=torch.uint8, device=self.device)
        parts = max(1, tokens_at_once(self.device) // self.tokens)
        total = torch.zeros((), device=self.device)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            for start in range(0, texts, parts):
                ids = torch.zeros(min(parts, texts - start), self.tokens, dtype=torch.long, device=self.device)
                features = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "task": "document"}
                total = total + self.model(features)["sentence_embedding"].float().sum()
        total.backward()
        del held


def largest_by_trial(fits: Callable[[int], bool], start: int, most: int) -> int:
    """The largest power of two up to ``most`` that ``fits``, looked for from ``start``; 0: none does.

    >>> [largest_by_trial(lambda size: size <= 9, start, 64) for start in (1, 8, 64)]
    [8, 8, 8]
    """
    size = start
    if fits(size):
        while 2 * size <= most and fits(2 * size):
            size *= 2
        return size
    while size > 1:
        size //= 2
        if fits(size):
            return size
    return 0


def _power_of_two(most: int) -> int:
    """The largest that is not above ``most``."""
    return 1 << (most.bit_length() - 1)


def free_memory(device: torch.device) -> int:
    """Bytes that this process may take on a device: all free ones of a GPU, of a CPU's its :data:`SHARE`, cut among the
    processes of the machine."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    import psutil  # accelerate needs it

    free = [psutil.virtual_memory().available]
    with suppress(OSError, ValueError):  # no control group, or none with a limit
        group = Path("/sys/fs/cgroup")
        free.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return int(SHARE * min(free) / int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
