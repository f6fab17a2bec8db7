"""A run from its plan to its model folder: new or resumed, stopped or finished, in one process or several."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from retrokit.core.errors import DataError, Interrupted, UsageError, disk_errors
from retrokit.core.interrupts import CtrlC, stopping_by
from retrokit.core.notices import notice, progress
from retrokit.core.processor import processor_in_words
from retrokit.core.registry import importing
from retrokit.core.version import __version__
from retrokit.data.pairs import Source
from retrokit.data.pairs import registry as training_data
from retrokit.data.runs import Run, step_of
from retrokit.data.training_rows import Pair
from retrokit.encoders.precision import choose_precision, multiplies
from retrokit.training.batches import Batches
from retrokit.training.config import TrainingConfig, differences
from retrokit.training.history import History, Outcome
from retrokit.training.processes import all_say, ends_all, first_says, is_first, leave, process_count
from retrokit.training.run_folder import RunFolder, check_state, staged_in

if TYPE_CHECKING:  # a plan that is not carried out loads no trainer
    from retrokit.training.trainer import Options, RunTrainer

FEW_STEPS = 30
"""Steps of a time budget below which a run is unlikely to gain anything, warm-up and decay included."""


@dataclass(frozen=True)
class Job(ABC):
    """A checked and planned run, before anything is written.

    Attributes:
        metric: selects the best weights; empty without an evaluation.
        preflight: results of the checks, planned steps among them.
        identity: what decides the result.
    """

    config: TrainingConfig
    batches: Batches
    metric: str
    preflight: Any
    identity: dict[str, Any]

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device of the computation."""

    @property
    def precision(self) -> torch.dtype:
        """The type of the computation."""
        return torch.float32

    @abstractmethod
    def describe(self) -> Run:
        """The run's description at its start."""

    @abstractmethod
    def trainer(self, options: Options) -> RunTrainer:
        """The trainer; :meth:`RunTrainer.write_to` sets where it writes."""

    def steps(self, trainer: RunTrainer) -> int:
        """Planned optimizer steps; under a time budget as many as fit by measured speed (COMP, D.3)."""
        steps = self.preflight.steps
        if "total" in steps:
            return int(steps["total"])
        from retrokit.training.callback import seconds_per_step

        budget, seconds = steps["time_budget"], seconds_per_step(trainer)
        count = max(1, int(budget / seconds))
        line = f"a step takes {seconds:.2f} s: {count} steps fit into {budget:g} s"
        if count < FEW_STEPS:
            line += "; too few to learn much: give a longer `time_budget=` or a smaller `batch_size=`"
        notice(line)
        return count

    @abstractmethod
    def intervals(self, steps: int) -> tuple[int | None, int]:
        """Steps between evaluations (``None``: there are none), and between checkpoints."""

    @abstractmethod
    def selection(self, folder: Path) -> dict[str, Any]:
        """What chooses the weights, as :class:`Outcome` has it, of a run that writes ``folder``."""

    @abstractmethod
    def finish(self, trainer: RunTrainer, staged: Path, outcome: Outcome) -> dict[str, Any]:
        """Write the model into ``staged``, and return further entries of the description."""


def folder_of(config: TrainingConfig) -> RunFolder:
    """The model folder; raises :class:`UsageError` if none is given."""
    if config.output is None:
        raise UsageError("give an output folder: `output=`")
    return RunFolder(config.output, config.overwrite, config.resume, config.keep_checkpoints)


def check_places(config: TrainingConfig, specs: Iterable[str]) -> None:
    """Check, before the work, that the run can be written and that every process can read the ``specs``. The first
    process checks for all: the others would see what it has begun."""
    if process_count() > 1 and any(dict(training_data.parse(spec).params).get("path") == "-" for spec in specs):
        raise UsageError("`data=` -: only one process can read standard input; give a file")
    if is_first() and config.output is not None:
        folder_of(config).check(config.inputs())


def check_taught(sources: Iterable[Source]) -> None:
    """Raise :class:`DataError` for a source without negatives: a teacher's scores are compared with theirs."""
    for source in sources:
        if not any(record.negatives for record in source.records if isinstance(record, Pair)):
            raise DataError(source.spec, "has no negatives; a teacher's scores need an anchor's own documents")


def identity_of(
    config: TrainingConfig,
    device: torch.device,
    computes_in: str,
    fingerprint: str,
    digests: Mapping[str, list[str] | str],
) -> dict[str, Any]:
    """What decides the result of a run: settings, inputs, the ``fingerprint`` of the model at the start and the type
    that it ``computes_in``. Raises :class:`UsageError` if it differs among processes."""
    if config.tf32 and device.type != "cuda":
        raise UsageError(f"`tf32=` needs an NVIDIA GPU, and this runs on {device}; leave it out")
    identity = {
        **config.identity(),
        "precision": computes_in,
        **digests,
        "encoder_fingerprint": fingerprint,
        "processes": process_count(),
    }
    first, *others = all_say(identity)
    for rank, other in enumerate(others, start=1):
        if different := differences(first, other, "in the first process", f"in process {rank}"):
            raise UsageError(f"the processes differ: {'; '.join(different)}")
    return identity


def training_precision(config: TrainingConfig, model: nn.Module, device: torch.device) -> torch.dtype:
    """The type that a model under training computes in; raises :class:`UsageError` for fp16 on a CPU."""
    precision = choose_precision(config.precision, device, multiplies(model))
    if precision == torch.float16 and device.type == "cpu":
        raise UsageError("`precision=` fp16 needs a GPU; give bf16 or fp32")
    return precision


def provenance() -> dict[str, Any]:
    """Versions of Python and of the libraries that decide a result, the processor, and the commit of the current folder
    and whether it had changes; ``git`` is ``None`` outside of a repository."""
    names = ("torch", "transformers", "sentence-transformers", "accelerate", "datasets", "numpy")
    versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
    git: dict[str, Any] | None = None
    with suppress(OSError, subprocess.SubprocessError):
        changes = _git("status", "--porcelain", "--untracked-files=no")
        git = {"commit": _git("rev-parse", "HEAD"), "changed": bool(changes)}
    return {"retrokit": __version__, "versions": versions, "processor": processor_in_words(), "git": git}


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=True)
    return run.stdout.strip()


def timed(job: Job) -> Job:
    """The job with the measured seconds of a step in its preflight; the model is unchanged."""
    from retrokit.training.callback import seconds_per_step

    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(scratch)
        trainer = job.trainer(_options(job, folder))
        trainer.write_to(folder, History(folder.metrics, [], job.metric, writes=False), job.describe())
        trainer.begin()
        seconds = seconds_per_step(trainer)
    steps = {**job.preflight.steps, "seconds_each": seconds}
    return replace(job, preflight=replace(job.preflight, steps=steps))


@ends_all
def carry_out(job: Job) -> Outcome:
    """Train as planned and leave a finished model folder.

    Raises:
        Interrupted: stopped by the user; the run can be resumed.
        UsageError: no output folder, or one of another run or command; memory ran out.
        DataError: a loss that is not finite, or a file that cannot be written.
    """
    folder = first_says(lambda: folder_of(job.config))
    with folder.locked(job.config.inputs()) if is_first() else nullcontext():  # by the first process for all
        return _carry_out(job, folder)


def _carry_out(job: Job, folder: RunFolder) -> Outcome:
    run, config = job.describe(), job.config
    trainer = job.trainer(_options(job, folder))
    # Only the first process reads and changes the folder; the others use its results.
    checkpoint, planned, rows = first_says(lambda: _open(folder, run, job.metric))
    history = History(folder.metrics, rows, job.metric, writes=is_first())
    trainer.write_to(folder, history, run)
    trainer.begin()
    steps = planned or job.steps(trainer)
    trainer.run = run = replace(run, steps=steps)
    if is_first():
        folder.describe(run)
        folder.write_config(config.to_toml(leave_out=("output", "overwrite", "resume")))
    stopped_because = _train(job, trainer, checkpoint, steps, is_resumed=planned is not None)
    last_step = trainer.state.global_step
    if stopped_because == "interrupted":
        raise Interrupted(f"stopped at step {last_step} of {steps}; the state is in {folder.checkpoints}", "resume")
    trainer.settle()
    selection = job.selection(folder.target) if job.metric else None
    outcome = Outcome.of(folder.target, last_step, stopped_because, history, selection)
    if is_first():
        _finish(job, trainer, outcome)
    leave()
    return outcome


def _train(job: Job, trainer: RunTrainer, checkpoint: Path | None, steps: int, is_resumed: bool) -> str | None:
    """Train up to ``steps``, and return why it stopped earlier, if it did."""
    from retrokit.training.callback import TrainingCallback, tracking

    config, folder = job.config, trainer.folder
    about = {**job.identity, "output": str(folder.target)}
    # A resumed run continues to the planned end: its result is that of an uninterrupted one.
    budget = None if is_resumed else config.time_budget
    with (
        tracking(config.track if is_first() else (), folder, trainer.args, about) as trainer.history.log,
        _deterministic() if config.deterministic else nullcontext(),
        _tf32() if config.tf32 else nullcontext(),
        progress("training", steps, "steps") as advance,
        _interruptible() as stop,
    ):
        trainer.args.max_steps = steps
        intervals = job.intervals(steps)
        callback = TrainingCallback(trainer, config, intervals, budget, advance, stop, checkpoint)
        trainer.add_callback(callback)
        if checkpoint is not None:
            advance(step_of(checkpoint), earlier=True)
            notice(f"resuming at step {step_of(checkpoint)} of {steps}")
        elif intervals[0] is not None:
            trainer.evaluate()
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except torch.OutOfMemoryError as error:
            less = "`mini_batch=`, `gradient_checkpointing=`, `lora=`, or a smaller `batch_size=` or `max_length=`"
            raise UsageError(f"the memory of {job.device} ran out in training; give {less}") from error
    return callback.stopped_because


def _finish(job: Job, trainer: RunTrainer, outcome: Outcome) -> None:
    """Write the model with its best weights, and the description of the finished run."""
    folder = trainer.folder
    if outcome.best_step not in (None, outcome.steps):
        trainer.load_weights(folder.checkpoint(outcome.best_step))
    with disk_errors(folder.target), staged_in(folder.path) as staged:
        entries = job.finish(trainer, staged, outcome)
        folder.finish(staged, replace(trainer.run, outcome=outcome.to_json(), **entries))


def _open(folder: RunFolder, run: Run, metric: str) -> tuple[Path | None, int | None, list[dict[str, Any]]]:
    """Begin a new folder, or find where to resume: the last checkpoint, the planned steps and the history until
    then."""
    if not folder.resumes:
        folder.begin(run)
        return None, None, []
    before = folder.check_same(run.identity)
    checkpoint = folder.last_checkpoint()
    if checkpoint is not None:
        check_state(checkpoint)
    step = step_of(checkpoint) if checkpoint else -1
    return checkpoint, before.steps, folder.truncate_metrics(step, metric)


def _options(job: Job, folder: RunFolder) -> Options:
    """The library's options; :class:`TrainingCallback` decides when to log, evaluate and save."""
    with importing():
        from retrokit.training.trainer import Options

    config = job.config
    return Options(
        computes_on=str(job.device),
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=job.batches.size,
        gradient_accumulation_steps=config.accumulate,
        max_steps=1,
        weight_decay=config.weight_decay,
        warmup_steps=config.warmup,
        lr_scheduler_type="constant_with_warmup" if config.schedule == "constant" else config.schedule,
        max_grad_norm=config.max_grad_norm,
        adam_beta1=config.adam_betas[0],
        adam_beta2=config.adam_betas[1],
        bf16=job.precision == torch.bfloat16,
        fp16=job.precision == torch.float16,
        seed=config.seed,
        use_cpu=job.device.type == "cpu",
        logging_strategy="no",
        logging_nan_inf_filter=False,  # show a loss that is no number
        save_strategy="no",
        eval_strategy="no",
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_drop_last=True,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
    )


@contextmanager
def _deterministic() -> Iterator[None]:
    """PyTorch computes by deterministic algorithms, and refuses an operation that has none."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # needed by cuBLAS
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextmanager
def _tf32() -> Iterator[None]:
    """A GPU's matrix products of float32 numbers keep 10 bits of the fraction."""
    backends: Any = torch.backends
    name: str = "allow_tf32"
    value: bool | str = True
    settings = [backends.cuda.matmul, backends.cudnn]
    if hasattr(backends, "fp32_precision"):  # since PyTorch 2.9
        name, value = "fp32_precision", "tf32"
        settings = [backends, backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn]
    before = [getattr(setting, name) for setting in settings]
    try:
        for setting in settings:
            setattr(setting, name, value)
        yield
    finally:
        for setting, value_before in zip(settings, before, strict=True):
            setattr(setting, name, value_before)


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event, to stop after the current step; a second one stops at once."""
    stop = threading.Event()

    def ask() -> None:
        if stop.is_set():
            raise CtrlC
        stop.set()
        notice("stopping after this step; press Ctrl-C again to stop at once")

    with stopping_by(ask):
        yield stop
