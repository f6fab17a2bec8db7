"""The sentence-transformers trainer, with retrokit's batches, checkpoints and evaluation in it."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from retrokit.data.runs import FINISHED, Run, write_run
from retrokit.errors import DataError, disk_errors
from retrokit.evaluation.result import Result
from retrokit.evaluation.task import Request, Task
from retrokit.notices import Advance
from retrokit.similarities.base import Similarity
from retrokit.training.batches import Ahead, Batches, Collator, Loader, TrainingSet
from retrokit.training.checkpoints import TRAINED, intact, read_state, rng_file
from retrokit.training.loss import PreparedLoss
from retrokit.training.model import as_encoder, export, load_trainable_state, trainable_state
from retrokit.training.processes import all_say, first_says, is_first, place
from retrokit.training.rows import RowAdamW, RowBag, clip
from retrokit.training.run_folder import RunFolder, saving

TIMED_STEPS = 4
CONVERGED_OVER = 5  # evaluations
CONVERGED_DEVIATION = 0.002
CONVERGED_DISTANCE = 0.02


class History:
    """What happened so far, in ``metrics.jsonl`` and in memory: a line per logged step and per evaluation."""

    def __init__(self, path: Path, rows: Sequence[dict[str, Any]], metric: str, writes: bool) -> None:
        self.path = path
        self.rows = list(rows)
        self.metric = metric
        self._writes = writes

    def add(self, row: dict[str, Any]) -> None:
        """Append a line."""
        self.rows.append(row)
        if self._writes:
            with disk_errors(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row, allow_nan=False) + "\n")

    @property
    def evaluations(self) -> list[tuple[int, float]]:
        """(step, value of the metric that decides) of each evaluation, step 0 being the encoder as it came."""
        return [(row["step"], row["evaluation"][self.metric]) for row in self.rows if "evaluation" in row]

    @property
    def baseline(self) -> dict[str, Any] | None:
        """Similarity and metrics of the encoder as it came, under its own similarity, if that is another one."""
        return next((row["baseline"] for row in self.rows if "baseline" in row), None)

    @property
    def gain(self) -> float | None:
        """By how much the best evaluation after step 0 is better than the encoder as it came, under its own similarity;
        ``None`` where nothing was evaluated."""
        if self.best is None or self.evaluations[0][0] > 0:
            return None
        start = self.evaluations[0][1] if self.baseline is None else self.baseline["evaluation"][self.metric]
        return self.best[1] - start

    @property
    def best(self) -> tuple[int, float] | None:
        """The best evaluation after step 0; the earliest of equals."""
        return max((found for found in self.evaluations if found[0] > 0), key=lambda found: found[1], default=None)

    def evaluations_since_best(self) -> int:
        """How many evaluations passed without a better one."""
        best = self.best
        return sum(step > best[0] for step, _ in self.evaluations) if best else 0

    def converged_at(self) -> int | None:
        """The first step at which the last five evaluations deviate by less than 0.002 and the latest lies within 0.02
        of the best so far (MAG, C.1); ``None``: not yet."""
        values = [value for _, value in self.evaluations]
        for i in range(CONVERGED_OVER, len(values) + 1):
            steady = float(np.std(values[i - CONVERGED_OVER : i])) < CONVERGED_DEVIATION
            if steady and max(values[:i]) - values[i - 1] < CONVERGED_DISTANCE:
                return self.evaluations[i - 1][0]
        return None


@dataclass
class Options(SentenceTransformerTrainingArguments):
    """The library's, for a process that computes on one device, the one named; by itself it takes all GPUs it sees."""

    computes_on: str = "cpu"

    @cached_property
    def _setup_devices(self) -> torch.device:
        super()._setup_devices  # noqa: B018 # a property that sets up
        device = torch.device(self.computes_on)
        self._n_gpu = int(device.type == "cuda")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        PartialState().device = device
        return device


class FinetuneTrainer(SentenceTransformerTrainer):
    """Trains a model that ends in ``Prepare``; writes loadable checkpoints that count once they are complete."""

    control: TrainerControl

    def __init__(
        self,
        model: SentenceTransformer,
        args: SentenceTransformerTrainingArguments,
        loss: PreparedLoss,
        data: TrainingSet,
        batches: Batches,
        collator: Collator,
        folder: RunFolder,
        task: Task | None,
        history: History,
        name: str,
        keep_checkpoints: int,
        description: Run,
    ) -> None:
        self.batches = batches
        self.folder = folder
        self.task = task
        self.history = history
        self.name = name
        self.keep_checkpoints = keep_checkpoints
        self.description = description
        self.last_result: Result | None = None
        self.start_similarity: Similarity | None = None
        self.baseline: dict[str, Any] | None = None
        self.step_began = 0.0
        self._ahead: Ahead | None = None
        self._threads = torch.get_num_threads()
        super().__init__(model=model, args=args, train_dataset=data, loss=loss, data_collator=collator)
        self.remove_callback(PrinterCallback)
        # Not across processes, whose gradients NCCL cannot add, nor in fp16, whose gradients are scaled.
        self.by_rows = isinstance(model[0], StaticEmbedding) and args.world_size == 1 and not args.fp16
        if self.by_rows:
            model[0].embedding = RowBag(model[0].embedding)

    def preprocess_dataset(self, dataset: Any = None, dataset_name: str | None = None) -> Any:
        """The data are as the collator wants them."""
        return dataset

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """The library's card copies samples of the training data; the run's own card is written at the end."""

    def get_train_dataloader(self) -> Loader:
        """Each process reads its own part of every batch, so nothing is left to shard."""
        return Loader(self.train_dataset, self.batches, self.data_collator)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The library's, but a batch is made in the background while the one before it is computed with.

        A step begins here: waiting for a batch is part of it.
        """
        self.step_began = time.perf_counter()
        if self._ahead is None or self._ahead.batches is not epoch_iterator:
            self._ahead = Ahead(epoch_iterator)
        found: tuple[list[Any], Any] = super().get_batch_samples(self._ahead, num_batches, device)
        return found

    def collect_features(self, inputs: dict[str, Any]) -> tuple[list[dict[str, Any]], torch.Tensor | None]:
        """The query and the document features, and labels if there are any."""
        return [inputs["query"], inputs["document"]], inputs.get("label")

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """All that the library would decay, but not what the similarity learns."""
        return [name for name in super().get_decay_parameter_names(model) if ".similarity." not in name]

    def get_optimizer_cls_and_kwargs(self, args: Any, model: Any = None) -> tuple[Any, Any]:
        """AdamW; for a table of embeddings, by the rows that a step touches."""
        kind, options = super().get_optimizer_cls_and_kwargs(args, model)
        if not self.by_rows:
            return kind, options
        return RowAdamW, {name: value for name, value in options.items() if name != "fused"}

    def _clip_grad_norm(self, model: torch.nn.Module) -> torch.Tensor:
        if not self.by_rows:
            return super()._clip_grad_norm(model)
        return clip(model.parameters(), self.args.max_grad_norm)

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        if grad_norm is None and self.by_rows:
            return clip(model.parameters(), math.inf)
        return super()._get_grad_norm(model, grad_norm)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """The library's; beside a table of embeddings, whose steps are short, batches in the making have a core."""
        if not self.by_rows:
            return super().train(*args, **kwargs)
        with threads(max(1, self._threads - 1)), one_thread_tokenises() if self._threads <= 2 else nullcontext():
            return super().train(*args, **kwargs)

    def training_step(self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any) -> torch.Tensor:
        """The library's, on rows that stand where the last step has put them."""
        if self._rows is not None:
            weight = self.model[0].embedding.weight
            ids = torch.cat([inputs[role]["input_ids"] for role in ("query", "document")])
            self._rows.bring(weight, ids.to(weight.device))
        return super().training_step(model, inputs, *args)

    @property
    def _rows(self) -> RowAdamW | None:
        optimizer = getattr(self.optimizer, "optimizer", self.optimizer)  # accelerate wraps it
        return optimizer if isinstance(optimizer, RowAdamW) else None

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within it, all weights are where the last step has put them: to evaluate and to save."""
        if self._rows is None:
            yield
        else:
            with self._rows.whole():
                yield

    def settle(self) -> None:
        """Put all weights where the last step has put them, once no further one follows."""
        if self._rows is not None:
            for table in self._rows.tables:
                self._rows.bring(table)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Run the task on the first process; every process learns the metrics."""
        assert self.task is not None
        task = self.task

        def evaluated() -> dict[str, float]:
            with self.whole():
                return self._evaluate_here(task)

        metrics = first_says(evaluated)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _evaluate_here(self, task: Task) -> dict[str, float]:
        if self._ahead is not None:
            self._ahead.wait()  # a tokenizer has one master at a time
        encoder = as_encoder(self.model, self.name)
        metrics = list(dict.fromkeys([self.history.metric, *task.shown_metrics]))
        own = [self.start_similarity] if self.start_similarity is not None else []
        with threads(self._threads):
            self.last_result, *start = task.evaluate(Request(encoder, [encoder.similarity, *own], metrics))
        self.baseline = {"similarity": start[0].similarity, "evaluation": start[0].metrics} if start else None
        return self.last_result.metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Refuse to go on from a loss or a gradient that is not finite."""
        if self.args.fp16 and not math.isfinite(logs.get("grad_norm") or 0.0):
            del logs["grad_norm"]  # the scale of the loss is found by trial, and such a step is left out
        for key, name in (("loss", "loss"), ("grad_norm", "norm of the gradient")):
            if not math.isfinite(logs.get(key) or 0.0):
                raise DataError(
                    self.folder.target, f"the {name} is {logs[key]} at step {self.state.global_step}; lower --lr"
                )
        super().log(logs, start_time)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        with saving(self.folder.checkpoints):
            super()._save_checkpoint(model, trial)
        path = self.folder.checkpoints / f"checkpoint-{self.state.global_step}"
        best = self.history.best
        first_says(lambda: self.folder.complete_checkpoint(path, best[0] if best else None, self.keep_checkpoints))

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Called in every process; the first one writes."""
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        with self.whole():
            export(self.model, folder)
            torch.save(trainable_state(self.model), folder / TRAINED)
        files = sorted(path.name for path in folder.iterdir() if path.name != TRAINED)
        write_run(replace(self.description, status=FINISHED, step=self.state.global_step, files=files), folder)

    def _save_rng_state(self, output_dir: str) -> None:
        """The library's files, a process each, all written by the first one."""
        with tempfile.TemporaryDirectory() as own:
            super()._save_rng_state(own)
            files = all_say({path.name: path.read_bytes() for path in Path(own).iterdir()})
        if is_first():
            for name, content in (item for process in files for item in process.items()):
                Path(output_dir, name).write_bytes(content)

    def _load_from_checkpoint(self, checkpoint_path: str, model: torch.nn.Module | None = None) -> None:
        self.load_weights(Path(checkpoint_path))

    def load_weights(self, checkpoint: Path) -> None:
        """Put back what was trained until then.

        Raises:
            DataError: a damaged file, or none.
        """
        path = checkpoint / TRAINED
        with intact(path):
            load_trainable_state(self.model, read_state(path))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Of both, which the library goes on without where one is missing."""
        for name, part in (("optimizer.pt", self.optimizer), ("scheduler.pt", self.lr_scheduler)):
            if checkpoint is not None:
                path = Path(checkpoint) / name
                with intact(path):
                    part.load_state_dict(read_state(path))

    def _load_scaler(self, checkpoint: str | None) -> None:
        """Of fp16, the scale of the loss."""
        if checkpoint is not None and self.args.fp16:
            path = Path(checkpoint) / "scaler.pt"
            with intact(path):
                self.accelerator.scaler.load_state_dict(read_state(path))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with intact(Path(checkpoint) / rng_file(*place())):
                super()._load_rng_state(checkpoint)


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


class Conduct(TrainerCallback):
    """Decides after each step whether to log, evaluate, save or stop, and writes the history down."""

    def __init__(
        self,
        trainer: FinetuneTrainer,
        *,
        log_every: int,
        eval_every: int | None,
        save_every: int,
        patience: int | None,
        time_budget: float | None,
        advance: Advance,
        stop: threading.Event,
    ) -> None:
        self.trainer = trainer
        self.log_every, self.eval_every, self.save_every = log_every, eval_every, save_every
        self.patience, self.time_budget = patience, time_budget
        self.advance = advance
        self.stop = stop
        self.stopped_because: str | None = None
        self._started = time.perf_counter()
        self._spent = 0.0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Set what is to happen after this step."""
        self._spent += time.perf_counter() - self.trainer.step_began  # the time budget counts training alone
        step, last = state.global_step, state.global_step >= state.max_steps
        self.advance(1)
        over = self.time_budget is not None and self._spent >= self.time_budget and not last
        stop = self._agreed(self.stop.is_set()), self._agreed(over)
        control.should_evaluate = self.eval_every is not None and (step % self.eval_every == 0 or last)
        control.should_save = (step % self.save_every == 0 and not last) or stop[0]
        # A checkpoint ends a logging window, so that a resumed run logs the same windows.
        control.should_log = step % self.log_every == 0 or last or any(stop) or control.should_save
        if stop[0]:
            self.stopped_because = "interrupted"
        elif stop[1]:
            self.stopped_because = "time budget spent"
        control.should_training_stop = control.should_training_stop or any(stop) or last

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        """Write a line for the steps since the last one."""
        if logs is None or "loss" not in logs:
            return
        self.advance(0, f"loss {logs['loss']:.4g}")
        self.trainer.history.add(
            {
                "step": state.global_step,
                "epoch": round(state.epoch or 0.0, 6),
                "loss": logs["loss"],
                "grad_norm": logs.get("grad_norm"),
                "lr": logs["learning_rate"],
                **self._learned(),
                "seconds": round(time.perf_counter() - self._started, 3),
            }
        )

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any = None, **kwargs: Any
    ) -> None:
        """Write the evaluation; save if it is the best; stop if patience is over."""
        history = self.trainer.history
        result = self.trainer.last_result
        history.add(
            {
                "step": state.global_step,
                "evaluation": dict(metrics),
                **({"baseline": self.trainer.baseline} if self.trainer.baseline else {}),
                "norms": result.norms if result else {},
                **self._learned(),
                "seconds": round(time.perf_counter() - self._started, 3),
            }
        )
        if history.best and history.best[0] == state.global_step and state.global_step > 0:
            control.should_save = True
        if self.patience is not None and history.evaluations_since_best() >= self.patience:
            self.stopped_because = f"no better for {self.patience} evaluations"
            control.should_training_stop = True

    def _learned(self) -> dict[str, float]:
        return {name: round(value, 6) for name, value in list(self.trainer.model)[-1].similarity.statistics().items()}

    def _agreed(self, flag: bool) -> bool:
        """Whether any process says so: all must take the same turn."""
        if self.trainer.args.world_size == 1:
            return flag
        flags = torch.tensor([int(flag)], device=self.trainer.args.device)
        torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
        return bool(flags.item())


class _Stopwatch(TrainerCallback):
    """Times each step."""

    def __init__(self, trainer: FinetuneTrainer) -> None:
        self.trainer = trainer
        self.times: list[float] = []

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note the time from the wait for the batch to the optimizer's step."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter() - self.trainer.step_began)
        control.should_training_stop = state.global_step >= state.max_steps


def seconds_per_step(trainer: FinetuneTrainer, steps: int = TIMED_STEPS) -> float:
    """Measured seconds of one step, the median of a few, over all processes the longest.

    The steps are the trainer's own, at a learning rate of 0, at which AdamW leaves every weight as it is; optimizer and
    random state are as before.
    """
    args = trainer.args
    rates = args.learning_rate, args.learning_rate_mapping, args.max_steps
    args.learning_rate, args.learning_rate_mapping = 0.0, dict.fromkeys(args.learning_rate_mapping, 0.0)
    args.max_steps = steps
    scaler = trainer.accelerator.scaler
    scaled = scaler.state_dict() if scaler is not None else {}
    watch = _Stopwatch(trainer)
    trainer.add_callback(watch)
    with torch.random.fork_rng():
        trainer.train()
    trainer.remove_callback(watch)
    args.learning_rate, args.learning_rate_mapping, args.max_steps = rates
    if scaler is not None:
        scaler.load_state_dict(scaled)
    trainer.optimizer = trainer.lr_scheduler = None
    return max(all_say(float(np.median(watch.times[1:] or watch.times))))  # the first one warms up
