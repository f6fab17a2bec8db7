"""Held-out examples: their loss, their texts, and the task that they make."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.data.beir import retrieval_data
from retrokit.data.overlap import JudgedTexts
from retrokit.data.training_rows import Pair, ScoredPair, texts_of_record
from retrokit.evaluation.task import Task
from retrokit.evaluation.tasks.pairs import SentenceSimilarity
from retrokit.evaluation.tasks.retrieval import Retrieval
from retrokit.training.batches import Example, TrainingSet
from retrokit.training.evaluations import HOLDOUT


@dataclass(frozen=True)
class HeldOut:
    """Held-out examples, in batches of at most ``size`` of one source; of texts, the pairs of the first epoch."""

    data: TrainingSet
    size: int
    seed: int

    def batches(self) -> Iterator[tuple[list[Example], float]]:
        """Each batch with its weight in the mean: its examples times the weight of their source. The batches of a
        source differ by at most one example."""
        random = np.random.default_rng(self.seed)
        for source, (start, end) in zip(self.data.sources, pairwise(self.data.starts.tolist()), strict=True):
            order = start + random.permutation(end - start)
            for part in np.array_split(order, math.ceil((end - start) / self.size)):
                yield [self.data[place] for place in part.tolist()], len(part) * source.weight

    def judged_texts(self) -> JudgedTexts:
        """The anchors with their documents, to compare with the training data."""
        examples = [texts_of_record(self.data[place].record) for place in range(len(self.data))]
        pairs = ((anchor, documents[0]) for anchor, documents in examples)
        return JudgedTexts.of(pairs, (text for _, documents in examples for text in documents))

    def task(self) -> Task:
        """Retrieval of the anchors' positives among all documents, negatives too; of scored pairs, the correlation.

        Raises:
            UsageError: every anchor is its own positive, or every score is the same.
        """
        records = [self.data[place].record for place in range(len(self.data))]
        scored = [record for record in records if isinstance(record, ScoredPair)]
        task = _correlation(scored) if scored else _retrieval([pair for pair in records if isinstance(pair, Pair)])
        task.spec = HOLDOUT
        task.shown_metrics = (task.main_metric,)
        return task


def _correlation(pairs: Sequence[ScoredPair]) -> Task:
    if len({pair.score for pair in pairs}) < 2:
        raise UsageError(f"`holdout=`: the {len(pairs)} held-out pairs have one score; hold out more")
    return SentenceSimilarity(HOLDOUT, pairs)


def _retrieval(pairs: Sequence[Pair]) -> Task:
    if all(pair.anchor == pair.positive for pair in pairs):
        raise UsageError("`holdout=`: every held-out anchor is its own positive; give `eval=`")
    queries = {anchor: f"q{number}" for number, anchor in enumerate(dict.fromkeys(pair.anchor for pair in pairs))}
    distinct = dict.fromkeys(text for pair in pairs for text in (pair.positive, *pair.negatives))
    documents = {text: f"d{number}" for number, text in enumerate(distinct)}
    qrels: dict[str, dict[str, int]] = {}
    for pair in pairs:
        qrels.setdefault(queries[pair.anchor], {})[documents[pair.positive]] = 1
    document_texts, query_texts = ({id: text for text, id in ids.items()} for ids in (documents, queries))
    return Retrieval(retrieval_data(HOLDOUT, "held out", document_texts, query_texts, qrels))
