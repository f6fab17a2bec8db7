"""The trainer of every run: transformers', with retrokit's batches, checkpoints and evaluation in it.

What is trained, by which loss, how it is evaluated and what a checkpoint holds of it is a subclass's to say.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from sentence_transformers import SentenceTransformerTrainingArguments
from torch import nn
from transformers import Trainer, TrainerControl
from transformers.trainer_callback import PrinterCallback

from retrokit.core.errors import DataError, disk_errors
from retrokit.data.runs import FINISHED, Run, write_run
from retrokit.training.batches import Loader, Prefetcher
from retrokit.training.checkpoints import OPTIMIZER, TRAINED, intact, rng_file
from retrokit.training.history import History
from retrokit.training.model import load_trainable_state, trainable_state
from retrokit.training.processes import all_say, first_says, is_first, is_sharded, place, shares_states
from retrokit.training.run_folder import RunFolder
from retrokit.training.sharding import WholeCopy, let_cpus_share, parts_of_states, set_up, whole_states


@dataclass
class Options(SentenceTransformerTrainingArguments):
    """The library's, for a process that computes on one device, the one named; by itself it takes all GPUs it sees.
    ``about`` is the run's own configuration."""

    computes_on: str = "cpu"
    about: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What trackers are told of a run."""
        return dict(self.about)

    @cached_property
    def _setup_devices(self) -> torch.device:
        if self.computes_on == "cpu" and shares_states():  # where accelerate would leave DeepSpeed out
            self.use_cpu, self.ddp_backend = False, "gloo"
        super()._setup_devices  # noqa: B018 # a property that sets up
        device = torch.device(self.computes_on)
        self._n_gpu = int(device.type == "cuda")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        PartialState().device = device
        let_cpus_share(device)
        return device


@dataclass(frozen=True)
class Destination:
    """Where a run writes: its folder, what happens in it, and its description so far."""

    folder: RunFolder
    history: History
    run: Run
    keep_checkpoints: int


class RunTrainer(Trainer):
    """Trains ``model`` on the batches of ``loader``, which yields those of an epoch, each process its own part of every
    one; its checkpoints count once they are complete. ``rates`` are learning rates by the start of a parameter's name:
    the longest that fits counts."""

    model: Any
    control: TrainerControl
    optimizer: torch.optim.Optimizer | None

    def __init__(
        self, model: nn.Module, args: Options, loader: Loader, destination: Destination, rates: Mapping[str, float]
    ) -> None:
        self.loader, self.destination, self.rates = loader, destination, dict(rates)
        self.history, self.folder = destination.history, destination.folder
        self.step_began = 0.0
        self.prefetcher: Prefetcher | None = None
        self.evaluation_notes: dict[str, Any] = {}
        self.whole_copy: WholeCopy | None = None
        super().__init__(model=model, args=args, train_dataset=loader.dataset, data_collator=loader.collate_fn)
        self.remove_callback(PrinterCallback)

    # --- what a subclass says

    def begin(self) -> None:
        """What is to be done once the run's folder is there, before the first step."""

    def measure(self) -> dict[str, float]:
        """The metrics of the model as it stands; in the first process alone."""
        raise NotImplementedError

    def learned(self) -> dict[str, float]:
        """What a line of the history says of learned constants."""
        return {}

    def write_model(self, folder: Path) -> bool:
        """Put into a checkpoint what loads from there; whether that is a model that loads by itself."""
        raise NotImplementedError

    @contextmanager
    def settled(self, computes: bool = False) -> Iterator[None]:
        """Within it, all weights are where the last step has put them, and whole in the first process: to evaluate
        (``computes``) and to save. In every process."""
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
        """Put all weights where the last step has put them, once no further one follows."""
        if self.whole_copy is not None:
            self.whole_copy.gather(self.model)
            self.model = self.whole_copy.whole or self.model

    # --- several processes

    def create_accelerator_and_postprocess(self) -> None:
        """The library's, with FSDP's or DeepSpeed's configuration completed."""
        super().create_accelerator_and_postprocess()
        set_up(self.accelerator, self.model, self.args)

    def _prepare_for_training(self, *args: Any) -> Any:
        """The library's, which shards the model; a whole copy of it is made before; DeepSpeed reads its states."""
        if is_sharded() and self.whole_copy is None:
            self.whole_copy = WholeCopy(self.model)
        checkpoint = args[-1]
        with intact(Path(checkpoint)) if shares_states() and checkpoint is not None else nullcontext():
            return super()._prepare_for_training(*args)

    # --- batches and optimizer

    def get_train_dataloader(self) -> Any:
        """Each process reads its own part of every batch, so nothing is left to shard."""
        return self.loader

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Any]:
        """The library's, but a batch is made in the background while the one before it is computed with.

        A step begins here: waiting for a batch is part of it.
        """
        self.step_began = time.perf_counter()
        if self.prefetcher is None or self.prefetcher.batches is not epoch_iterator:
            self.prefetcher = Prefetcher(epoch_iterator)
        samples: tuple[list[Any], Any] = super().get_batch_samples(self.prefetcher, num_batches, device)
        return samples

    def _prepare_input(self, data: Any) -> Any:
        """The library's, but tensors, which lie in pinned memory beside a GPU, are copied while it computes."""
        if isinstance(data, torch.Tensor):
            return data.to(self.args.device, non_blocking=True)
        return super()._prepare_input(data)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """AdamW, each parameter at its rate; what the library would decay is decayed, but not what a similarity
        learns."""
        if self.optimizer is None:
            trained = [(name, value) for name, value in self.model.named_parameters() if value.requires_grad]
            decayed = {name for name in self.get_decay_parameter_names(self.model) if ".similarity." not in name}
            groups = []
            for start, rate in self.rates.items():
                mine = [(name, value) for name, value in trained if self._start_of(name) == start]
                for decays in (True, False):
                    values = [value for name, value in mine if (name in decayed) == decays]
                    groups.append({"params": values, "lr": rate, "weight_decay": decays * self.args.weight_decay})
            self.optimizer = self.make_optimizer([group for group in groups if group["params"]])
        return self.optimizer

    def _start_of(self, name: str) -> str:
        return max((start for start in self.rates if name.startswith(start)), key=len)

    def make_optimizer(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """The optimizer of groups of parameters."""
        kind, options = self.get_optimizer_cls_and_kwargs(self.args, self.model)
        optimizer: torch.optim.Optimizer = kind(groups, **options)
        return optimizer

    # --- what happens

    @property
    def precision(self) -> str:
        """What a step computes in, as encoders call it."""
        return "bf16" if self.args.bf16 else "fp16" if self.args.fp16 else "fp32"

    def autocast(self) -> AbstractContextManager[Any]:
        """What a step computes in, outside of it too."""
        if shares_states():  # where the library leaves it to DeepSpeed's engine, which is the step's alone
            return torch.autocast(self.args.device.type, torch.bfloat16, enabled=self.args.bf16)
        autocast: AbstractContextManager[Any] = self.accelerator.autocast()
        return autocast

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Measure in the first process; every process learns the metrics."""
        with self.settled(computes=True):
            metrics = first_says(self._measured)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _measured(self) -> dict[str, float]:
        if self.prefetcher is not None:
            self.prefetcher.wait()  # a tokenizer has one master at a time
        return self.measure()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Refuse to go on from a loss or a gradient that is not finite."""
        if self.args.fp16 and not math.isfinite(logs.get("grad_norm") or 0.0):
            del logs["grad_norm"]  # the scale of the loss is found by trial, and such a step is left out
        for key, name in (("loss", "loss"), ("grad_norm", "norm of the gradient")):
            if not math.isfinite(logs.get(key) or 0.0):
                problem = f"the {name} is {logs[key]} at step {self.state.global_step}; lower `lr=`"
                raise DataError(self.folder.target, problem)
        super().log(logs, start_time)

    # --- checkpoints

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        with disk_errors(self.folder.checkpoints):
            super()._save_checkpoint(model, trial)
        path = self.folder.checkpoint(self.state.global_step)
        best = self.history.best
        first_says(lambda: self.folder.complete(path, best[0] if best else None, self.destination.keep_checkpoints))

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Called in every process; the first one writes."""
        with self.settled():
            if self.args.should_save:
                self._write(Path(output_dir or self.args.output_dir))

    def _write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        loads = self.write_model(folder)
        files = sorted(path.name for path in folder.iterdir())
        torch.save(trainable_state(self.model), folder / TRAINED)
        if loads:
            write_run(replace(self.destination.run, status=FINISHED, step=self.state.global_step, files=files), folder)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """The library's files, of whole tensors, where processes share the states."""
        if self.whole_copy is None:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        states = whole_states(self.optimizer)
        if is_first():
            torch.save(states, Path(output_dir, OPTIMIZER))
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir, "scheduler.pt"))

    def _save_rng_state(self, output_dir: str) -> None:
        """The library's files, a process each, all written by the first one."""
        with tempfile.TemporaryDirectory() as own:
            super()._save_rng_state(own)
            files = all_say({path.name: path.read_bytes() for path in Path(own).iterdir()})
        if is_first():
            for name, content in (item for process in files for item in process.items()):
                Path(output_dir, name).write_bytes(content)

    def _load_from_checkpoint(self, checkpoint_path: str, model: nn.Module | None = None) -> None:
        self.load_weights(Path(checkpoint_path))

    def load_weights(self, checkpoint: Path) -> None:
        """Put back what was trained until then."""
        with _part(checkpoint, TRAINED) as state:
            load_trainable_state(self.model, state)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Of both, which the library goes on without where one is missing."""
        of_optimizer = None if shares_states() else self.optimizer  # whose states DeepSpeed has read
        for name, part in ((OPTIMIZER, of_optimizer), ("scheduler.pt", self.lr_scheduler)):
            if checkpoint is not None and part is not None:
                with _part(checkpoint, name) as state:
                    part.load_state_dict(parts_of_states(state, part) if part is self.optimizer else state)

    def _load_scaler(self, checkpoint: str | None) -> None:
        """Of fp16, the scale of the loss."""
        if checkpoint is not None and self.args.fp16:
            with _part(checkpoint, "scaler.pt") as state:
                self.accelerator.scaler.load_state_dict(state)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            with intact(Path(checkpoint) / rng_file(*place())):
                super()._load_rng_state(checkpoint)


@contextmanager
def _part(checkpoint: str | Path, name: str) -> Iterator[Any]:
    """A part of a checkpoint's state, to be taken up within the block."""
    path = Path(checkpoint) / name
    with intact(path):
        yield torch.load(path, map_location="cpu", weights_only=True)
