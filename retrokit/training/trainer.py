"""The trainer of every run: transformers', with retrokit's batches, checkpoints and evaluation; and an encoder's."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType, send_to_device
from torch import nn
from transformers import Trainer, TrainerControl, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from retrokit.core.errors import DataError, disk_errors
from retrokit.data.runs import FINISHED, Run, write_run
from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request
from retrokit.training.batches import Loader, Prefetcher
from retrokit.training.evaluations import HOLDOUT, LOSS, Evaluations
from retrokit.training.fast import fast_attention, replace_dropout
from retrokit.training.history import History
from retrokit.training.loss import PreparedLoss, alone
from retrokit.training.model import as_encoder, export, load_trainable_state, trainable_state
from retrokit.training.processes import (
    WholeCopy,
    all_say,
    first_says,
    is_sharded,
    parts_of_states,
    process_rank,
    set_up,
    whole,
    whole_states,
)
from retrokit.training.run_folder import (
    STATE,
    TRAINABLE,
    RunFolder,
    move_content,
    random_state,
    read_part,
    staged_in,
)

if TYPE_CHECKING:  # a run without held-out examples loads no task
    from retrokit.training.held_out import HeldOut


@dataclass
class Options(TrainingArguments):
    """The library's options for a process that computes on one device, not on all GPUs; ``about`` is the run's
    configuration, for trackers."""

    computes_on: str = "cpu"
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        PartialState().device = self.device
        if is_sharded() and self.device.type == "cpu":  # accelerate shards on accelerators alone, PyTorch on CPUs too
            PartialState().distributed_type = DistributedType.MULTI_GPU

    @property
    def device(self) -> torch.device:
        """The one device."""
        super().device  # noqa: B018 # a property that sets up
        return torch.device(self.computes_on)

    @property
    def n_gpu(self) -> int:
        """At most one: more would be DataParallel."""
        return int(self.computes_on.startswith("cuda"))

    def to_dict(self) -> dict[str, Any]:
        """The run's configuration, for trackers."""
        return dict(self.about)


class RunTrainer(Trainer):
    """Trains ``model`` on this process's part of the batches of ``loader``. ``rates`` are learning rates by the start
    of a parameter's name, the longest match. A subclass has the loss, the evaluation and the checkpoint's model."""

    model: Any
    control: TrainerControl
    optimizer: torch.optim.Optimizer | None

    folder: RunFolder
    history: History
    run: Run

    def __init__(self, model: nn.Module, args: Options, loader: Loader, rates: Mapping[str, float]) -> None:
        self.loader, self.rates = loader, dict(rates)
        self.step_began = 0.0
        self.prefetcher: Prefetcher | None = None
        self.evaluation_notes: dict[str, Any] = {}
        self.whole_copy: WholeCopy | None = None
        if args.device.type == "cpu":
            replace_dropout(model)
        super().__init__(model=model, args=args, train_dataset=loader.dataset, data_collator=loader.collate_fn)
        self.remove_callback(PrinterCallback)
        self.args.save_only_model = True  # the state that a run resumes from is added by complete_checkpoint

    def write_to(self, folder: RunFolder, history: History, run: Run) -> None:
        """Set the folder, its history and its description so far."""
        self.folder, self.history, self.run = folder, history, run

    # --- for a subclass

    def begin(self) -> None:
        """Prepare, once the run's folder exists, for the first step."""

    def measure(self) -> dict[str, float]:
        """The metrics of the model; called in the first process only."""
        raise NotImplementedError

    def learned(self) -> dict[str, float]:
        """Learned constants, for a line of the history."""
        return {}

    def write_model(self, folder: Path) -> bool:
        """Write a checkpoint's model; whether it loads without another one."""
        raise NotImplementedError

    def further_state(self) -> dict[str, Any]:
        """What a run resumes from besides weights, optimizer, schedule and random numbers: tensors or plain values."""
        return {}

    def restore(self, further_state: dict[str, Any]) -> None:
        """Take up a checkpoint's :meth:`further_state`; any error names the damaged file."""

    @contextmanager
    def settled(self, computes: bool = False) -> Iterator[None]:
        """All weights are those of the last step, and whole in the first process, to save or evaluate (``computes``).
        In every process."""
        if self.whole_copy is None:
            yield
            return
        sharded = self.model
        with self.whole_copy.in_place_of(sharded, self.args.device if computes else torch.device("cpu")) as self.model:
            try:
                yield
            finally:
                self.model = sharded

    def settle(self) -> None:
        """Make all weights those of the last step, once no further one follows."""
        if self.whole_copy is not None:
            self.whole_copy.gather(self.model)
            self.model = self.whole_copy.whole or self.model

    # --- several processes

    def create_accelerator_and_postprocess(self) -> None:
        """Complete FSDP's configuration."""
        super().create_accelerator_and_postprocess()
        set_up(self.accelerator, self.model)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the whole model before the library shards it."""
        if is_sharded() and self.whole_copy is None:
            self.whole_copy = WholeCopy(self.model)
        return super().train(*args, **kwargs)

    # --- batches and optimizer

    def get_train_dataloader(self) -> Any:
        """Each process reads its own part of every batch."""
        return self.loader

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The library's, with the next batch prepared in the background. A step begins here, with the wait for its
        batch."""
        self.step_began = time.perf_counter()
        if self.prefetcher is None or self.prefetcher.batches is not epoch_iterator:
            self.prefetcher = Prefetcher(epoch_iterator)
        samples, count = super().get_batch_samples(self.prefetcher, num_batches, device)
        return [self.on_device(batch) for batch in samples], count

    def on_device(self, batch: Any) -> Any:
        """A batch on the device; a GPU computes while it is copied from pinned memory."""
        return send_to_device(batch, self.args.device, non_blocking=True)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any) -> torch.Tensor:
        """The library's, with attention that is fast on a CPU."""
        with fast_attention(self.model) if self.args.device.type == "cpu" else nullcontext():
            return super().training_step(model, inputs, *args)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW, each parameter at its rate; weights decay as in the library, but not those of a similarity."""
        if self.optimizer is None:
            self.optimizer = self.make_optimizer([group for group in self._parameter_groups() if group["params"]])
        return self.optimizer

    def _parameter_groups(self) -> list[dict[str, Any]]:
        """For each rate, the parameters that decay, and those that do not."""
        decayed = {name for name in self.get_decay_parameter_names(self.model) if ".similarity." not in name}
        groups: dict[tuple[str, bool], dict[str, Any]] = {}
        for start, rate in self.rates.items():
            groups[start, True] = {"params": [], "lr": rate, "weight_decay": self.args.weight_decay}
            groups[start, False] = {"params": [], "lr": rate, "weight_decay": 0.0}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                start = max((start for start in self.rates if name.startswith(start)), key=len)
                groups[start, name in decayed]["params"].append(parameter)
        return list(groups.values())

    def make_optimizer(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimizer of groups of parameters."""
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        optimizer: torch.optim.Optimizer = kind(groups, **options)
        return optimizer

    # --- evaluation

    @property
    def precision(self) -> str:
        """The type that a step computes in, as encoders name it."""
        if self.args.bf16:
            return "bf16"
        return "fp16" if self.args.fp16 else "fp32"

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """The metrics, measured in the first process, in all."""
        with self.settled(computes=True):
            metrics = first_says(self._measured)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _measured(self) -> dict[str, float]:
        if self.prefetcher is not None:
            self.prefetcher.wait()  # a tokenizer serves one thread at a time
        return self.measure()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Raise :class:`DataError` for a loss or a gradient that is not finite."""
        if self.args.fp16 and not math.isfinite(logs.get("grad_norm") or 0.0):
            del logs["grad_norm"]  # the scale of the loss adapts, and skips such a step
        for key, name in (("loss", "loss"), ("grad_norm", "norm of the gradient")):
            if not math.isfinite(logs.get(key) or 0.0):
                problem = f"the {name} is {logs[key]} at step {self.state.global_step}; lower `lr=`"
                raise DataError(self.folder.target, problem)
        super().log(logs, start_time)

    # --- checkpoints

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write a model; called in every process, the first one writes."""
        with self.settled():
            if self.args.should_save:
                self._write(Path(output_dir or self.args.output_dir))

    def _write(self, folder: Path) -> None:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with staged_in(folder) as staged:
                loads = self.write_model(staged)
                files = move_content(staged, folder)
            torch.save(trainable_state(self.model), folder / TRAINABLE)
        if loads:
            write_run(replace(self.run, status=FINISHED, step=self.state.global_step, files=files), folder)

    def complete_checkpoint(self) -> None:
        """Write the state that a run resumes from, as the last file; called in every process, the first one writes."""
        folder = self.folder.checkpoint(self.state.global_step)
        scaler = self.accelerator.scaler
        state = {
            "optimizer": whole_states(self.optimizer),
            "scheduler": self.lr_scheduler.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
            "random": all_say(random_state(self.args.device)),
            "further": self.further_state(),
        }
        best = self.history.best
        first_says(lambda: self.folder.complete(folder, state, best[0] if best else None))

    def resume(self, checkpoint: Path) -> dict[str, Any]:
        """Restore weights, optimizer and schedule, and return this process's random state for the next step."""
        self.load_weights(checkpoint)
        with read_part(checkpoint, STATE) as state:
            self.optimizer.load_state_dict(parts_of_states(state["optimizer"], self.optimizer))  # type: ignore[union-attr]
            self.lr_scheduler.load_state_dict(state["scheduler"])
            if self.accelerator.scaler is not None:
                self.accelerator.scaler.load_state_dict(state["scaler"])
            self.restore(state["further"])
            random: dict[str, Any] = state["random"][process_rank()]
        return random

    def _load_from_checkpoint(self, checkpoint_path: str, model: nn.Module | None = None) -> None:
        """Nothing: :meth:`resume` reads the weights."""

    def load_weights(self, checkpoint: Path) -> None:
        """Restore the trained weights."""
        with read_part(checkpoint, TRAINABLE) as state:
            load_trainable_state(self.model, state)


class FinetuneTrainer(RunTrainer):
    """Trains ``model``, which ends in ``Prepare``, by ``loss``, and evaluates it on tasks and on ``held_out`` examples;
    ``start`` is the encoder before training."""

    def __init__(
        self, *shared: Any, loss: PreparedLoss, evaluations: Evaluations, held_out: "HeldOut | None", start: Encoder
    ) -> None:
        super().__init__(*shared)
        self.loss = loss.to(self.args.device)
        self.evaluations, self.held_out, self.start = evaluations, held_out, start

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The loss of a batch; ``model`` is wrapped by the library."""
        self.loss.model = model
        # Autocast outside of the parts of a batch shares one copy of the weights. Gradient caching runs some parts
        # without gradients, whose copies are of no use to the others.
        with nullcontext() if self.loss.mini_batch_size else self.accelerator.autocast():
            return self.loss([inputs["query"], inputs["document"]], inputs.get("label"))

    def measure(self) -> dict[str, float]:
        """The metrics of all tasks; before the first step, notes those of the encoder's own similarity too."""
        encoder = as_encoder(self.model, self.start.spec)
        similarities = [encoder.similarity]
        if self.state.global_step == 0 and self.start.similarity.spec != encoder.similarity.spec:
            similarities.append(self.start.similarity)
        metrics, norms, baseline = dict[str, float](), dict[str, float](), dict[str, float]()
        for name, task in self.evaluations.tasks.items():
            request = Request(encoder, similarities, self.evaluations.metrics_of(name), precision=self.precision)
            result, *of_start = task.evaluate(request)
            metrics |= _prefixed(name, result.metrics)
            norms |= _prefixed(name, result.norms)
            for start_result in of_start:
                baseline |= _prefixed(name, start_result.metrics)
        if self.held_out is not None:
            metrics[f"{HOLDOUT}:{LOSS}"] = self._held_out_loss(self.held_out)
        self.evaluation_notes = {}
        if baseline:
            self.evaluation_notes["baseline"] = {"similarity": self.start.similarity.spec, "evaluation": baseline}
        self.evaluation_notes["norms"] = norms
        return metrics

    @torch.no_grad()
    def _held_out_loss(self, held_out: "HeldOut") -> float:
        """The training loss without dropout, mean over the held-out examples."""
        guide = self.loss.guide
        counts = guide.counts.clone() if guide is not None else torch.empty(0)
        collator = replace(self.data_collator, sources=held_out.data.sources)
        self.model.eval()
        self.loss.model = self.model
        total, weights = 0.0, 0.0
        with alone(), self.accelerator.autocast():
            for examples, weight in held_out.batches():
                inputs = self.on_device(collator(examples))
                total += weight * self.loss([inputs["query"], inputs["document"]], inputs.get("label")).item()
                weights += weight
        if guide is not None:
            guide.counts.copy_(counts)  # the history reports those of training
        if not math.isfinite(total):
            problem = f"the loss of held-out examples is {total} at step {self.state.global_step}; lower `lr=`"
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


def _prefixed(task: str, values: Mapping[str, float]) -> dict[str, float]:
    return {f"{task}:{name}": value for name, value in values.items()}
