"""What happens in a run, told to experiment trackers line by line as ``metrics.jsonl`` has it, through the integrations
of transformers."""

import copy
import importlib
import importlib.util
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

from transformers import TrainerControl, TrainerState
from transformers.integrations import get_reporting_integration_callbacks

from retrokit.core.errors import MissingExtra, ServiceError, first_line
from retrokit.core.notices import notice
from retrokit.training.run_folder import RunFolder
from retrokit.training.trainer import Options

PROJECT = "retrokit"
Row = dict[str, Any]


def check_trackers(names: Iterable[str]) -> None:
    """Raise :class:`MissingExtra` for a tracker that is not installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"`track=` {name}", name)


@contextmanager
def tracking(
    names: Iterable[str], folder: RunFolder, options: Options, about: Mapping[str, Any]
) -> Iterator[Callable[[Row], None]]:
    """Yields what tells the trackers a line of the history of the run in ``folder``; after the block they are done with
    it. A tracker that fails is left out from then on: training is worth more. ``about`` is the run's configuration.

    Raises:
        ServiceError: a tracker that does not begin.
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

    def tell(row: Row) -> None:
        state, numbers = TrainerState(global_step=row["step"]), numbers_of(row)
        for name, tracker in [*trackers.items()]:
            try:
                with redirect_stdout(sys.stderr):
                    tracker.on_log(args, state, TrainerControl(), logs=dict(numbers))
            except Exception as error:  # as above
                notice(f"`track=` {name} ends at step {row['step']}: {type(error).__name__}: {first_line(error)}")
                del trackers[name]

    try:
        yield tell
    finally:
        with redirect_stdout(sys.stderr):
            for name, tracker in trackers.items():
                tracker.on_train_end(args, TrainerState(), TrainerControl(), model=None)
                if name == "wandb":  # whose run would go on until the process ends
                    importlib.import_module(name).finish()


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of a line by name, those of an evaluation after ``eval_``.

    >>> numbers_of({"step": 4, "loss": 0.5, "grad_norm": None, "gamma": {"query": 0.5}})
    {'loss': 0.5, 'gamma/query': 0.5}
    >>> numbers_of({"step": 4, "evaluation": {"ndcg@10": 0.5}, "baseline": {"evaluation": {"ndcg@10": 0.4}}})
    {'eval_ndcg@10': 0.5, 'eval_baseline/ndcg@10': 0.4}
    """
    start = "eval_" if "evaluation" in row else ""
    return {start + "/".join(path): number for path, number in _leaves(row) if path != ["step"]}


def _leaves(value: Mapping[str, Any]) -> Iterator[tuple[list[str], float]]:
    for key, item in value.items():
        own = [key] if key != "evaluation" else []
        if isinstance(item, Mapping):
            yield from (([*own, *path], number) for path, number in _leaves(item))
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            yield own, item
