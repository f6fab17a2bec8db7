"""What lengths say about relevance through a training: its start, its checkpoints and its end (MAG, Figures 5, 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from retrokit import encoders as encoder_names
from retrokit.data.jsonl import read_jsonl
from retrokit.data.runs import RUN_FILE, read_run
from retrokit.errors import RetrokitError, UsageError
from retrokit.probing.magnitude import MagnitudeOptions, check_names, how, measure, read_tasks
from retrokit.probing.magnitude_findings import MagnitudeProbe


def probe_training(run: str, on: Sequence[str], options: MagnitudeOptions = MagnitudeOptions()) -> MagnitudeProbe:
    """Probe a finished run's checkpoints, the encoder that it started from, and its end.

    How many there are is ``--save-every`` and ``--keep-checkpoints`` of the training.

    Raises:
        UsageError: no finished run, or one that kept no checkpoints; otherwise as for :func:`probe_magnitude`.
    """
    check_names([run], on)
    stages = _stages(run)
    tasks = read_tasks(on, options)
    results, notes = [], [how(options)]
    for step, spec in stages:
        try:
            encoder = encoder_names.registry.create(spec, device=options.device)
        except RetrokitError as error:
            if step:
                raise
            notes.append(f"step 0 is left out: {error}")
            continue
        results += [measure(encoder, task, options, step=step) for task in tasks]
    return MagnitudeProbe(results, [], notes, _gamma_curve(Path(run) / "metrics.jsonl"))


def _stages(folder: str) -> list[tuple[int, str]]:
    """(step, encoder spec) of the start, of each checkpoint and of the end, in order."""
    run = read_run(folder, "encoder").finished(folder)
    kept = sorted((Path(folder) / "checkpoints").glob(f"*/{RUN_FILE}"))
    stages = {read_run(path.parent, "step").step or 0: str(path.parent) for path in kept}
    if not stages:
        raise UsageError(f"{folder} kept no checkpoints; train with `save_every` N `keep_checkpoints` MANY")
    outcome = run.outcome or {}
    stages.setdefault(outcome.get("best_step") or outcome["steps"], folder)
    return sorted({0: run.encoder, **stages}.items())


def _gamma_curve(metrics: Path) -> list[dict[str, float]]:
    """γq and γd of every logged step of a run whose similarity learns them; empty for others."""
    if not metrics.is_file():
        return []
    keys = ("step", "gamma_query", "gamma_document")
    rows = (row for _, row in read_jsonl(metrics))
    by_step = {row["step"]: {key: row[key] for key in keys} for row in rows if "gamma_query" in row}
    return [by_step[step] for step in sorted(by_step)]
