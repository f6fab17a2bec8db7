"""The data of MTEB's tasks: from the hub, or from a local folder, so that a task runs without a network.

A folder of local data is a BEIR folder (retrieval), JSONL files named for the task's splits (``test.jsonl``, with the
columns that the task has on the hub), or a clone of the task's repository on the hub.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrokit.core.errors import DataError, ServiceError, first_line
from retrokit.core.files import check_is_folder, digest
from retrokit.data.beir import digest_beir, is_beir, read_beir
from retrokit.data.jsonl import fields_of, read_jsonl


def leaves(task: Any) -> list[Any]:
    """The tasks that hold data: the task itself, or the ones that it averages over."""
    return [leaf for subtask in task.tasks for leaf in leaves(subtask)] if hasattr(task, "tasks") else [task]


def use_folder(task: Any, folder: Path) -> None:
    """Let ``task`` take its data from ``folder`` whenever MTEB asks it to load them. Raises :class:`DataError` for no
    folder, or none of the layouts."""
    check_is_folder(folder, f"the data of {task.metadata.name}")
    load = _loader(task, folder)

    def load_data(**kwargs: Any) -> None:
        if task.data_loaded:
            return
        try:
            load()
        except (KeyError, ValueError, TypeError, OSError) as error:  # what MTEB and the datasets package raise
            problem = f"does not hold the data of {task.metadata.name} as MTEB expects them"
            raise DataError(folder, f"{problem}: {first_line(error)[:300]}") from error
        task.data_loaded = True

    def unload_data() -> None:
        task.dataset, task.data_loaded = None, False

    described = {**task.metadata.dataset, "path": str(folder), "revision": folder_digest(task, folder)}
    # MTEB writes the revision into its results, and evaluates again where it changed
    task.metadata = task.metadata.model_copy(deep=True, update={"dataset": described})
    task.load_data, task.unload_data = load_data, unload_data


def folder_digest(task: Any, folder: Path) -> str:
    """``sha256:<hex>`` of what a task reads from its folder; raises :class:`DataError` if it cannot be read."""
    if not _is_beir(folder):
        return digest(folder)
    return "+".join(digest_beir(folder, split) for split in task.eval_splits)


def _is_beir(folder: Path) -> bool:
    """Whether it is a BEIR folder and no clone of the hub, whose corpus is in a folder, which MTEB reads itself."""
    return is_beir(folder) and not (folder / "corpus").is_dir()


def _loader(task: Any, folder: Path) -> Any:
    if _is_beir(folder):
        if task.metadata.type != "Retrieval":
            problem = f"is a BEIR folder, but {task.metadata.name} is a task of type {task.metadata.type}"
            raise DataError(folder, f"{problem}; expected a clone of its repository on the hub")
        return lambda: _load_beir(task, folder)
    splits = list(task.eval_splits)
    if hasattr(task, "train_split"):
        splits.append(task.train_split)
    splits = list(dict.fromkeys(splits))
    files = [f"{split}.jsonl" for split in splits]
    missing = [file for file in files if not os.path.isfile(folder / file)]
    if missing == files:
        return task.load_data  # MTEB's own, which reads a clone of the repository by the path in the metadata
    if missing:
        raise DataError(folder, f"{task.metadata.name} needs {', '.join(missing)} too")
    return lambda: _load_jsonl(task, folder, splits)


def _load_beir(task: Any, folder: Path) -> None:
    from datasets import Dataset

    task.dataset = {"default": {}}
    for split in task.eval_splits:
        data = read_beir(folder, split)
        task.dataset["default"][split] = {
            "corpus": Dataset.from_dict({"id": data.document_ids, "text": data.documents}),
            "queries": Dataset.from_dict({"id": data.query_ids, "text": data.queries}),
            "relevant_docs": {query: dict(grades) for query, grades in data.qrels.items()},
            "top_ranked": None,
        }


def _load_jsonl(task: Any, folder: Path, splits: Sequence[str]) -> None:
    from datasets import Dataset, DatasetDict

    dataset = DatasetDict()
    for split in splits:
        dataset[split] = Dataset.from_list([row for _, row in read_jsonl(folder / f"{split}.jsonl")])
    if not task.metadata.is_multilingual:
        task.dataset = dataset
    elif len(task.hf_subsets) == 1:
        task.dataset = {task.hf_subsets[0]: dataset}
    else:
        problem = f"{task.metadata.name} has {len(task.hf_subsets)} languages"
        raise DataError(folder, f"{problem}; choose one (language=eng), or expected a clone of its repository")
    task.dataset_transform(num_proc=None)
    columns = _columns_of(task)
    for split in splits:
        there = dataset[split].column_names
        missing = [name for name in columns if name not in there]
        if missing:
            problem = f"no field {missing[0]!r}, which {task.metadata.name} needs; the fields are {fields_of(there)}"
            raise DataError(folder / f"{split}.jsonl", problem)


def _columns_of(task: Any) -> list[str]:
    """The columns that mteb reads, as its classes of tasks name them."""
    attributes = ("input_column_name", "label_column_name", "input1_column_name", "input2_column_name")
    columns = [getattr(task, attribute, None) for attribute in attributes]
    pair = getattr(task, "column_names", ())
    if pair:
        columns += [*pair, "score"]
    return [name for name in columns if isinstance(name, str)]


def judgements(task: Any) -> dict[tuple[str, str], dict[str, dict[str, int]]]:
    """The judgements of a retrieval task by split and subset; a query without any is left out, as mteb does."""
    task.load_data()
    task.convert_v1_dataset_format_to_v2(num_proc=None)
    qrels = {
        (split, subset): {query: dict(grades) for query, grades in data["relevant_docs"].items() if grades}
        for subset, splits in task.dataset.items()
        for split, data in splits.items()
    }
    task.unload_data()
    return qrels


def use_hub(task: Any, how: str) -> None:
    """Let ``task`` raise :class:`ServiceError` if neither the hub nor the machine's cache has its data; ``how`` says
    where to put them."""
    load = task.load_data

    def load_data(**kwargs: Any) -> None:
        try:
            load(**kwargs)
        except Exception as error:  # the clients' errors share no base class
            address = f"https://huggingface.co/datasets/{task.metadata.dataset['path']}"
            problem = f"mteb: {task.metadata.name} is not available ({first_line(error)[:160]})"
            raise ServiceError(f"{problem}; download {address} {how}") from error

    task.load_data = load_data
