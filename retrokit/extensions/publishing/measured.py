"""Measured results as the Hub reads them: ``.eval_results/*.yaml``, and ``model-index`` on the card for older readers.

Both name the data set by its id on the Hub. Results on local data are only on the card, under the task's name.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from huggingface_hub import EvalResult, EvalResultEntry

from retrokit import encoders
from retrokit.core.errors import DataError, UsageError, first_line
from retrokit.data.runs import Run
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.comparison.results_folder import Record, ResultsFolder
from retrokit.extensions.publishing.cards import without_folders
from retrokit.extensions.publishing.names import data_set_of
from retrokit.extensions.publishing.settings import PushSettings

if TYPE_CHECKING:
    from mteb import TaskResult

_OF_MTEB = {"mteb_cache", "mteb_results"}


def measured(settings: PushSettings) -> list[Record]:
    """The results of this encoder in the folders of results."""
    if not settings.results:
        if settings.mteb is not None:
            raise UsageError("`mteb=` needs `results=`")
        return []
    fingerprint = encoders.registry.create_on(settings.folder, "cpu").fingerprint()
    records: list[Record] = []
    for folder in settings.results:
        records += ResultsFolder(folder).read()
    mine = [record for record in records if record.result.configuration.get("fingerprint") == fingerprint]
    if not mine:
        others = ", ".join(dict.fromkeys(record.result.encoder for record in records))
        raise UsageError(f"`results=`: none of {settings.folder} in its present state; they are of {others}")
    if settings.mteb is not None and not any(map(_is_of_mteb, mine)):
        raise UsageError("`mteb=`: `results=` contain none of MTEB")
    return mine


def _is_of_mteb(record: Record) -> bool:
    return record.result.configuration.keys() >= _OF_MTEB


def results_of_mteb(record: Record) -> Iterator["TaskResult"]:
    """MTEB's own results of a record; none if another task measured it. Raises :class:`DataError`."""
    if not _is_of_mteb(record):
        return
    from mteb import TaskResult

    configuration = record.result.configuration
    for name in configuration["mteb_results"]:
        file = Path(configuration["mteb_cache"], name)
        try:
            yield TaskResult.from_disk(file)
        except (OSError, ValueError) as error:
            raise DataError(file, f"is not a result of MTEB: {first_line(error)}; evaluate again") from error


def card_results(run: Run, records: Sequence[Record]) -> list[EvalResult]:
    """The results for ``model-index``: of the saved weights in training, and of the records."""
    results = list(_of_training(run))
    for record in records:
        data_set = _data_set(record)
        for metric in record.shown:
            value = record.result.metrics.get(metric)
            if value is not None and value == value:  # NaN is none
                results.append(_card_result(data_set, without_folders(record.result.task), metric, value))
    return results


def _of_training(run: Run) -> Iterator[EvalResult]:
    """The evaluation of the saved weights."""
    outcome = run.outcome or {}
    specs = run.notes.get("evaluated", {})
    for row in outcome.get("evaluations", ()):
        if row["step"] != outcome.get("best_step"):
            continue
        for name, value in row["evaluation"].items():
            task, _, metric = name.rpartition(":")
            data_set = data_set_of(tasks, specs[task]) if task in specs else None
            yield _card_result(data_set, task or "evaluation", metric, value)


def _data_set(record: Record) -> str | None:
    """The Hub id of the data of a record; ``None`` for local data, and for several tasks of MTEB."""
    ids = {entry.dataset_id for result in results_of_mteb(record) for entry in _entries_of_mteb(result, "")}
    return ids.pop() if len(ids) == 1 else data_set_of(tasks, record.result.task)


def _card_result(data_set: str | None, label: str, metric: str, value: float) -> EvalResult:
    kind = "sentence-similarity" if re.match("pearson|spearman", metric) else "information-retrieval"
    return EvalResult(
        task_type=kind,
        dataset_type=data_set or label,
        dataset_name=label,
        metric_type=metric,
        metric_value=round(value, 6),
    )


def hub_results(records: Sequence[Record]) -> dict[str, list[EvalResultEntry]]:
    """The entries of ``.eval_results`` by the name of their file: MTEB's, and those of BEIR sets of the Hub."""
    files: dict[str, list[EvalResultEntry]] = {}
    for record in records:
        result = record.result
        notes = f"similarity {result.similarity}"
        for task_result in results_of_mteb(record):
            if entries := _entries_of_mteb(task_result, notes):
                files[task_result.task_name] = entries
        data_set = data_set_of(tasks, result.task)
        value = result.metrics[result.main_metric]
        if data_set is not None and value == value:
            notes = f"{result.main_metric}, {notes}"
            entry = EvalResultEntry(data_set, "default", round(100 * value, 5), date=record.made[:10], notes=notes)
            files[re.sub(r"[^\w.-]+", "-", without_folders(result.task))] = [entry]
    return files


def _entries_of_mteb(result: "TaskResult", notes: str) -> list[EvalResultEntry]:
    """Entries as MTEB writes them: one a split and subset, and one of the task if all are there; none for local
    data, whose revision is another one."""
    from mteb import get_task

    metadata = get_task(result.task_name).metadata
    if result.dataset_revision != metadata.revision:
        return []
    scores = {}
    subsets = set()
    for split, rows in result.scores.items():
        for row in rows:
            scores[f"{result.task_name}_{row['hf_subset']}_{split}"] = row["main_score"]
            subsets.add(row["hf_subset"])
    if len(result.scores) == len(metadata.eval_splits) and len(subsets) == len(metadata.hf_subsets):
        scores[result.task_name] = result.get_score()
    date = result.date.date().isoformat() if result.date is not None else None
    entries = []
    for task_id, score in scores.items():
        entries.append(
            EvalResultEntry(
                dataset_id=metadata.dataset["path"],
                task_id=task_id,
                value=round(100 * float(score), 5),
                dataset_revision=metadata.revision,
                date=date,
                source_url="https://github.com/embeddings-benchmark/mteb",
                source_name=f"MTEB {result.mteb_version}",
                notes=notes,
            )
        )
    return entries
