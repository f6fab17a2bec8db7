"""What happens in a run, told to experiment trackers line by line as ``metrics.jsonl`` has it, through the integrations
of transformers.

A run that goes on goes on in the trackers too: under which name it is known there stands in ``tracking.json``, and a
line that it writes a second time, since its last checkpoint, is not told again.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import secrets
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.integrations import get_reporting_integration_callbacks

from retrokit.core.errors import MissingExtra, ServiceError, first_line
from retrokit.core.notices import notice
from retrokit.data.jsonl import read_json, write_json
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
    names: Iterable[str],
    folder: RunFolder,
    options: Options,
    about: Mapping[str, Any],
    rows: Iterable[Row],
    written: Iterable[Row],
) -> Iterator[Callable[[Row], None]]:
    """Yields what tells the trackers a line of the history; after the block they are done with.

    Args:
        about: the run's configuration.
        rows: lines of a run that goes on, which a tracker that it is new to is told first.
        written: all lines that it had written, those after its last checkpoint too.

    Raises:
        ServiceError: a tracker that does not begin.
    """
    known: dict[str, Any] = {"name": secrets.token_hex(4)}
    if folder.tracking.is_file():
        known = read_json(folder.tracking, "names of a tracker's runs", {"name": str})
    args = copy.copy(options)
    args.run_name, args.project, args.about = f"{folder.target.name}-{known['name']}", PROJECT, dict(about)
    said = {_key(row) for row in written}
    with ExitStack() as open_ones:
        trackers = []
        for name in dict.fromkeys(names):
            tracker = Tracker(name, args, said if name in known else ())
            known[name] = tracker.begin(folder, known)
            open_ones.callback(tracker.end)
            trackers.append(tracker)
        write_json(folder.tracking, known)

        def tell(row: Row) -> None:
            for tracker in trackers:
                tracker.tell(row)

        for row in rows:
            tell(row)
        yield tell


class Tracker:
    """One of them; ``said`` are the lines that it knows."""

    def __init__(self, name: str, args: Options, said: Collection[tuple[int, bool]]) -> None:
        self.name, self.args, self.said = name, args, said
        (kind,) = get_reporting_integration_callbacks(name)
        with redirect_stdout(sys.stderr):
            self.integration: TrainerCallback | None = kind()

    def begin(self, folder: RunFolder, known: Mapping[str, str]) -> str:
        """Open the run, or open it again; under which name it is known."""
        run_name = known.get(self.name, known["name"])
        set_here = {"WANDB_PROJECT": PROJECT, "WANDB_RUN_ID": run_name, "WANDB_RESUME": "allow"}
        set_here |= {"MLFLOW_EXPERIMENT_NAME": PROJECT} | ({"MLFLOW_RUN_ID": run_name} if self.name in known else {})
        integration: Any = self.integration
        if self.name == "tensorboard" and integration.logging_dir is None:
            integration.logging_dir = str(folder.tensorboard)
        try:
            with _environment(set_here), redirect_stdout(sys.stderr):
                integration.on_train_begin(self.args, TrainerState(), TrainerControl(), model=None)
        except Exception as error:  # each has errors of its own
            raise ServiceError(f"`track=` {self.name}: {type(error).__name__}: {first_line(error)}") from error
        return str(integration._ml_flow.active_run().info.run_id) if self.name == "mlflow" else run_name

    def tell(self, row: Row) -> None:
        """Tell it a line, once; a tracker that fails is left out from then on."""
        if self.integration is None or _key(row) in self.said:
            return
        state = TrainerState(global_step=row["step"])
        try:
            with redirect_stdout(sys.stderr):
                self.integration.on_log(self.args, state, TrainerControl(), logs=numbers_of(row))
        except Exception as error:  # as above; training is worth more
            notice(f"`track=` {self.name} ends at step {row['step']}: {type(error).__name__}: {first_line(error)}")
            self.integration = None

    def end(self) -> None:
        """See all of it stored or sent."""
        integration: Any = self.integration
        if integration is not None:
            with redirect_stdout(sys.stderr):
                integration.on_train_end(self.args, TrainerState(), TrainerControl(), model=None)
                if self.name == "wandb":  # which would go on until the process ends
                    integration._wandb.finish()


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


def _key(row: Row) -> tuple[int, bool]:
    return row["step"], "evaluation" in row


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Within it, these variables are set, but for those that the user has set."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
