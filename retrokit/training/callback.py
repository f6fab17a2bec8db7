"""After each step of a run: log, evaluate, save or stop; experiment trackers; and how long a step takes."""

import copy
import importlib
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.integrations import get_reporting_integration_callbacks

from retrokit.core.errors import ServiceError, disk_errors, first_line
from retrokit.core.notices import Advance, notice
from retrokit.training.config import TrainingConfig
from retrokit.training.processes import all_say
from retrokit.training.run_folder import RunFolder, set_random_state
from retrokit.training.trainer import Options, RunTrainer

TIMED_STEPS = 4
PROJECT = "retrokit"
Row = dict[str, Any]


class TrainingCallback(TrainerCallback):
    """Decides after each step whether to log, evaluate, save or stop, and writes the history."""

    def __init__(
        self,
        trainer: RunTrainer,
        config: TrainingConfig,
        intervals: tuple[int | None, int],
        time_budget: float | None,
        advance: Advance,
        stop: threading.Event,
        checkpoint: Path | None,
    ) -> None:
        self.trainer = trainer
        self.log_every, self.patience, self.time_budget = config.log_every, config.patience, time_budget
        self.eval_every, self.save_every = intervals
        self.advance = advance
        self.stop, self.checkpoint = stop, checkpoint
        self.random: dict[str, Any] | None = None
        self.stopped_because: str | None = None
        self._started = time.perf_counter()
        self._spent = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Restore the checkpoint."""
        if self.checkpoint is not None:
            self.random = self.trainer.resume(self.checkpoint)

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Set the epoch of the loader, which transformers 5.10.1 does not in a resumed run; restore the random state
        from which its iterator draws."""
        epoch = state.epoch or 0.0
        self.trainer.loader.set_epoch(int(epoch))
        self._restore_random(last=epoch == int(epoch))

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Restore the random state again in a run that resumes within an epoch: its iterator has drawn from it."""
        self._restore_random(last=True)

    def _restore_random(self, last: bool) -> None:
        if self.random is not None:
            set_random_state(self.random, self.trainer.args.device)
            self.random = None if last else self.random

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Set what follows this step, the same in all processes."""
        self._spent += time.perf_counter() - self.trainer.step_began  # the time budget counts steps only
        self.advance(1)
        step, is_last = state.global_step, state.global_step >= state.max_steps
        is_interrupted, is_over = self._stops(args.world_size)
        if is_over and not is_last:
            self.stopped_because = "time budget spent"
        if is_interrupted:
            self.stopped_because = "interrupted"
        control.should_evaluate = self.eval_every is not None and (step % self.eval_every == 0 or is_last)
        control.should_save = is_interrupted or (step % self.save_every == 0 and not is_last)
        if is_last or is_interrupted or is_over:
            control.should_log = control.should_training_stop = True
        else:
            # A checkpoint ends a logging window, so that a resumed run logs the same windows.
            control.should_log = control.should_save or step % self.log_every == 0

    def _stops(self, processes: int) -> tuple[bool, bool]:
        """Whether any process is interrupted, and whether the time budget of any is spent."""
        is_over = self.time_budget is not None and self._spent >= self.time_budget
        flags = torch.tensor([self.stop.is_set(), is_over], dtype=torch.int32)
        if processes > 1:  # on CPUs, so that no GPU is waited for
            torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
        return bool(flags[0]), bool(flags[1])

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write a line for the steps since the last one."""
        logs = kwargs["logs"]
        if "loss" in logs:
            self.advance(0, f"loss {logs['loss']:.4g}")
            rates = {"grad_norm": logs.get("grad_norm"), "lr": logs["learning_rate"]}
            self._write(state, epoch=round(state.epoch or 0.0, 6), loss=logs["loss"], **rates)

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Complete the checkpoint that the library has begun."""
        with disk_errors(self.trainer.folder.checkpoint(state.global_step)):
            self.trainer.complete_checkpoint()

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write the evaluation; save if it is the best; stop if patience is over."""
        history = self.trainer.history
        self._write(state, evaluation=dict(kwargs["metrics"]), **self.trainer.evaluation_notes)
        if history.best and history.best[0] == state.global_step:
            control.should_save = True
        since_best = sum(step > history.best[0] for step, _ in history.evaluations) if history.best else 0
        if self.patience is not None and since_best >= self.patience:
            self.stopped_because = f"no better for {self.patience} evaluations"
            control.should_training_stop = True

    def _write(self, state: TrainerState, **row: Any) -> None:
        seconds = round(time.perf_counter() - self._started, 3)
        self.trainer.history.add({"step": state.global_step, **row, **self.trainer.learned(), "seconds": seconds})


# --- speed


class _Stopwatch(TrainerCallback):
    """Times each step, from the wait for the batch to the optimizer's step."""

    def __init__(self, trainer: RunTrainer) -> None:
        self.trainer = trainer
        self.times: list[float] = []

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter() - self.trainer.step_began)
        control.should_training_stop = state.global_step >= state.max_steps


def seconds_per_step(trainer: RunTrainer) -> float:
    """Measured seconds of one step: the median of a few, the longest over all processes.

    The steps are the trainer's own, at a learning rate of 0, at which AdamW leaves every weight unchanged; optimizer,
    random state and the step's number are as before.
    """
    before = trainer.rates, trainer.args.max_steps
    trainer.rates, trainer.args.max_steps = dict.fromkeys(trainer.rates, 0.0), TIMED_STEPS
    scaler = trainer.accelerator.scaler
    scaled = scaler.state_dict() if scaler is not None else {}
    watch = _Stopwatch(trainer)
    trainer.add_callback(watch)
    with torch.random.fork_rng():
        trainer.train()
    trainer.remove_callback(watch)
    trainer.rates, trainer.args.max_steps = before
    if scaler is not None:
        scaler.load_state_dict(scaled)
    trainer.optimizer = trainer.lr_scheduler = None
    trainer.state.global_step = 0  # the next evaluation is that of the start
    return max(all_say(float(np.median(watch.times[1:] or watch.times))))  # the first one warms up


# --- trackers


@contextmanager
def tracking(
    names: Iterable[str], folder: RunFolder, options: Options, about: Mapping[str, Any]
) -> Iterator[Callable[[Row], None]]:
    """Yields a function that passes a line of the history to the trackers, through the integrations of transformers.

    A tracker that fails is dropped, and training continues. ``about`` is the run's configuration.

    Raises:
        ServiceError: a tracker that does not start.
    """
    args = copy.copy(options)
    args.run_name, args.project, args.about = f"{folder.target.name}-{secrets.token_hex(4)}", PROJECT, dict(about)
    os.environ.setdefault("WANDB_PROJECT", PROJECT)
    os.environ.setdefault("MLFLOW_EXPERIMENT_NAME", PROJECT)
    trackers: dict[str, Any] = {}
    for name in dict.fromkeys(names):
        (kind,) = get_reporting_integration_callbacks(name)
        try:
            with redirect_stdout(sys.stderr):
                trackers[name] = kind()
                if name == "tensorboard" and trackers[name].logging_dir is None:
                    trackers[name].logging_dir = str(folder.path / "tensorboard")
                trackers[name].on_train_begin(args, TrainerState(), TrainerControl(), model=None)
        except Exception as error:  # each has errors of its own
            raise ServiceError(f"`track=` {name}: {type(error).__name__}: {first_line(error)}") from error

    def log(row: Row) -> None:
        state, numbers = TrainerState(global_step=row["step"]), numbers_of(row)
        for name, tracker in [*trackers.items()]:
            try:
                with redirect_stdout(sys.stderr):
                    tracker.on_log(args, state, TrainerControl(), logs=dict(numbers))
            except Exception as error:  # as above
                notice(f"`track=` {name} ends at step {row['step']}: {type(error).__name__}: {first_line(error)}")
                del trackers[name]

    try:
        yield log
    finally:
        with redirect_stdout(sys.stderr):
            for name, tracker in trackers.items():
                tracker.on_train_end(args, TrainerState(), TrainerControl(), model=None)
                if name == "wandb":  # whose run otherwise lasts until the process ends
                    importlib.import_module(name).finish()


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of a line by name, those of an evaluation after ``eval_``.

    >>> numbers_of({"step": 4, "loss": 0.5, "grad_norm": None, "gamma": {"query": 0.5}})
    {'loss': 0.5, 'gamma/query': 0.5}
    >>> numbers_of({"step": 4, "evaluation": {"ndcg@10": 0.5}, "baseline": {"evaluation": {"ndcg@10": 0.4}}})
    {'eval_ndcg@10': 0.5, 'eval_baseline/ndcg@10': 0.4}
    """

    def leaves(value: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, float]]:
        for key, item in value.items():
            item_path = path if key == "evaluation" else (*path, key)
            if isinstance(item, Mapping):
                yield from leaves(item, item_path)
            elif isinstance(item, (int, float)) and not isinstance(item, bool):
                yield "/".join(item_path), item

    start = "eval_" if "evaluation" in row else ""
    return {start + name: number for name, number in leaves(row, ()) if name != "step"}
