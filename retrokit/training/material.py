"""What a fine-tuning reads before it loads a model: the sources, what is held out of them, what it is evaluated on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from retrokit import evaluation
from retrokit.augmentation.online import Augmentation, combined, usable_part
from retrokit.core.errors import DataError
from retrokit.core.notices import notice
from retrokit.data.holdout import hold_out
from retrokit.data.overlap import overlaps
from retrokit.data.pairs import Source, read_source
from retrokit.data.training_rows import Pair, ScoredPair
from retrokit.training.batches import TrainingSet
from retrokit.training.config import FinetuneConfig
from retrokit.training.evaluations import HOLDOUT, Evaluations, task_names
from retrokit.training.held_out import HeldOut
from retrokit.training.run import shared_input


@dataclass(frozen=True)
class TrainingMaterial:
    """What is trained on, and what is measured meanwhile; ``digests`` are of the sources, before any was held out."""

    data: TrainingSet
    digests: dict[str, list[str]]
    augmentation: Augmentation | None
    held_out: HeldOut | None
    evaluations: Evaluations

    def overlaps(self, examples: int) -> list[dict[str, Any]]:
        """What of the tests and of what is held out stands in the training data; a line of each that was seen."""
        tasks = self.evaluations.tasks.items()
        tests = {name: texts for name, task in tasks if (texts := task.judged_texts()) is not None}
        if self.held_out is not None:
            tests[HOLDOUT] = self.held_out.judged_texts()
        results = overlaps(tests, self.data.sources, examples) if tests else []
        for warning in filter(None, (result.warning() for result in results)):
            notice(warning)
        return [vars(result) for result in results]


def read_material(config: FinetuneConfig, device: str | None) -> TrainingMaterial:
    """Read all of it; a task loads on ``device`` what it measures with.

    Raises:
        UsageError, DataError: options or files that are wrong.
    """
    tasks = [evaluation.registry.create_on(spec, device) for spec in config.eval]
    named = dict(zip(task_names(config.eval), tasks, strict=True))
    if config.holdout is None:
        Evaluations.of(named, config.best_metric)  # before data are read
    augmentation = combined(config.augment) if config.augment else None
    with shared_input(config.data):
        sources = _read_sources(config, augmentation)
    digests = {"data_digests": [source.digest for source in sources]}
    held_out = None
    if config.holdout is not None:
        sources, out = hold_out(sources, config.holdout, config.seed)
        held_out = HeldOut(TrainingSet(out, augmentation, config.seed), 1, config.seed)
        named[HOLDOUT] = held_out.task()
    evaluations = Evaluations.of(named, config.best_metric)
    if len(named) > 1 and config.best_metric is None:
        notice(f"{evaluations.decides} decides which weights are kept; `best_metric=` names another")
    return TrainingMaterial(
        TrainingSet(sources, augmentation, config.seed), digests, augmentation, held_out, evaluations
    )


def _read_sources(config: FinetuneConfig, augmentation: Augmentation | None) -> list[Source]:
    if augmentation is not None:
        return [usable_part(read_source(spec, config.kind), augmentation) for spec in config.data]
    sources = [read_source(spec, config.kind, images=config.kind != "scored") for spec in config.data]
    for source in sources if config.is_taught else ():
        if not any(record.negatives for record in source.records if isinstance(record, Pair)):
            raise DataError(source.spec, "has no negatives; a teacher's scores count among an anchor's own documents")
    if config.kind != "scored":
        return sources
    scores = [record.score for source in sources for record in source.records if isinstance(record, ScoredPair)]
    highest = config.max_score or max(scores)
    if min(scores) < 0 or max(scores) > highest or highest <= 0:
        problem = f"scores run from {min(scores):g} to {max(scores):g}"
        raise DataError(", ".join(config.data), f"{problem}; expected 0 to {highest:g}")
    notice(f"scores are divided by {highest:g}, so that they run from 0 to 1")
    return [
        replace(
            source,
            records=[
                ScoredPair(record.sentence1, record.sentence2, record.score / highest)
                for record in source.records
                if isinstance(record, ScoredPair)
            ],
        )
        for source in sources
    ]
