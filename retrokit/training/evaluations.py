"""What a run is evaluated on, and which metric decides which weights are kept.

A metric of a run is named ``TASK:METRIC``, as ``scifact:ndcg@10``, where the task goes by its short name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.data.beir import retrieval_data
from retrokit.data.overlap import JudgedTexts
from retrokit.data.training_rows import Pair, ScoredPair, texts_of_record
from retrokit.evaluation import registry
from retrokit.evaluation.task import Task
from retrokit.evaluation.tasks.pairs import SentenceSimilarity
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.training.batches import Example, TrainingSet

LOSS = "loss"
HOLDOUT = "holdout"
"""Name of what is held out of the training data; its loss is measured by the trainer."""


def lower_is_better(metric: str) -> bool:
    """Of two values of a metric; of all but a loss the higher one is better."""
    return metric.rpartition(":")[2] == LOSS


@dataclass(frozen=True)
class Evaluations:
    """The ``tasks`` by their names, and the metric that ``decides``; empty where there are none."""

    tasks: Mapping[str, Task]
    decides: str

    @classmethod
    def of(cls, tasks: Mapping[str, Task], best_metric: str | None) -> Evaluations:
        """With the metric ``[TASK:]METRIC`` to decide; ``None``: the main one of the first task.

        Raises:
            UsageError: no such task, a metric that it does not measure, or one that several measure, of no task.
        """
        if best_metric is None:
            return cls(tasks, next((f"{name}:{task.main_metric}" for name, task in tasks.items()), ""))
        name, _, metric = best_metric.rpartition(":")
        if name and name not in tasks:
            raise UsageError(f"`best_metric=` {best_metric}: {name} is none of the tasks, {', '.join(tasks)}")
        problems, measuring = [], []
        for task_name, task in tasks.items():
            if name in ("", task_name):
                try:
                    if (task_name, metric) != (HOLDOUT, LOSS):
                        task.check_metrics([metric])
                    measuring.append(f"{task_name}:{metric}")
                except UsageError as error:
                    problems.append(str(error))
        if not measuring:
            raise UsageError("\n".join(dict.fromkeys(problems)))
        if len(measuring) > 1:
            several = f"is measured by several tasks: give {' or '.join(measuring)}"
            raise UsageError(f"`best_metric=` {best_metric} {several}")
        return cls(tasks, measuring[0])

    def specs(self) -> dict[str, str]:
        """The tasks' specs by their names."""
        return {name: task.spec for name, task in self.tasks.items()}

    def metrics_of(self, name: str) -> list[str]:
        """What a task measures: what it shows, and what decides."""
        task, _, metric = self.decides.rpartition(":")
        decides = [metric] if task == name and (task, metric) != (HOLDOUT, LOSS) else []
        return list(dict.fromkeys([*decides, *self.tasks[name].shown_metrics]))


def task_names(specs: Sequence[str]) -> list[str]:
    """A name for each of the specs of tasks, which are all different: the last part of its path, with its options where
    two would be called so.

    >>> task_names(["beir:data/scifact", "sts:stsb/test.jsonl"])
    ['scifact', 'test']
    >>> task_names(["beir:data/scifact,split=dev", "beir:data/scifact"])
    ['scifact,split=dev', 'scifact']
    """
    parsed = [registry.parse(spec) for spec in specs]
    short = []
    for spec in parsed:
        path = str(spec.params.get(spec.positional or "", spec.name)).removesuffix("/")
        short.append(Path(path).name.removesuffix(".gz").removesuffix(".jsonl") or spec.name)
    full = []
    for name, spec in zip(short, parsed, strict=True):
        options = [f",{key}={value}" for key, value in sorted(spec.params.items()) if key != spec.positional]
        full.append(name + "".join(options) if short.count(name) > 1 else name)
    times = Counter([HOLDOUT, *full])
    return [str(spec) if times[name] > 1 else name for name, spec in zip(full, parsed, strict=True)]


@dataclass(frozen=True)
class HeldOut:
    """The examples, in batches of at most ``size`` of one source; of texts, the pairs that the first epoch makes."""

    data: TrainingSet
    size: int
    seed: int

    def batches(self) -> Iterator[tuple[list[Example], float]]:
        """Each batch with its weight in the mean: its examples times the weight of their source. No two batches of a
        source differ by more than one example."""
        random = np.random.default_rng(self.seed)
        for source, (start, end) in zip(self.data.sources, pairwise(self.data.starts.tolist()), strict=True):
            order = start + random.permutation(end - start)
            for part in np.array_split(order, math.ceil((end - start) / self.size)):
                yield [self.data[place] for place in part.tolist()], len(part) * source.weight

    def judged_texts(self) -> JudgedTexts:
        """The anchors with their documents, negatives too, to be looked for in what is trained on."""
        examples = [texts_of_record(self.data[place].record) for place in range(len(self.data))]
        pairs = ((anchor, documents[0]) for anchor, documents in examples)
        return JudgedTexts.of(pairs, (text for _, documents in examples for text in documents))

    def task(self) -> Task:
        """Retrieval of the anchors' positives among all documents, negatives too; of scored pairs, the correlation.

        Raises:
            UsageError: it would say nothing: every anchor is its own positive, or every score is the same.
        """
        records = [self.data[place].record for place in range(len(self.data))]
        scored = [record for record in records if isinstance(record, ScoredPair)]
        task = _correlation(scored) if scored else _retrieval([pair for pair in records if isinstance(pair, Pair)])
        task.spec = HOLDOUT
        task.shown_metrics = (task.main_metric,)
        return task


def _correlation(pairs: Sequence[ScoredPair]) -> Task:
    if len({pair.score for pair in pairs}) < 2:
        raise UsageError(f"`holdout=`: the {len(pairs)} pairs held out have one score; hold out more of them")
    return SentenceSimilarity(HOLDOUT, pairs)


def _retrieval(pairs: Sequence[Pair]) -> Task:
    if all(pair.anchor == pair.positive for pair in pairs):
        raise UsageError(
            "`holdout=`: every anchor held out is its own positive, as `augment=` dropout and mask make them, and any "
            "encoder finds it; use `eval=`"
        )
    queries = {anchor: f"q{number}" for number, anchor in enumerate(dict.fromkeys(pair.anchor for pair in pairs))}
    distinct = dict.fromkeys(text for pair in pairs for text in (pair.positive, *pair.negatives))
    documents = {text: f"d{number}" for number, text in enumerate(distinct)}
    qrels: dict[str, dict[str, int]] = {}
    for pair in pairs:
        qrels.setdefault(queries[pair.anchor], {})[documents[pair.positive]] = 1
    document_texts, query_texts = ({id: text for text, id in ids.items()} for ids in (documents, queries))
    return Retrieval(retrieval_data(HOLDOUT, "held out", document_texts, query_texts, qrels))
