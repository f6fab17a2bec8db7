"""Held-out examples: their loss, their texts, and the task that they make."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

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
        for source, (start, end) in zip(self.data.sources, pairwise(self.data.starts), strict=True):
            order = start + random.permutation(end - start)
            for indices in np.array_split(order, math.ceil((end - start) / self.size)):
                yield [self.data[index] for index in indices.tolist()], len(indices) * source.weight

    def judged_texts(self) -> JudgedTexts:
        """The anchors with their documents, to compare with the training data."""
        examples = [texts_of_record(self.data[index].record) for index in range(len(self.data))]
        pairs = ((anchor, documents[0]) for anchor, documents in examples)
        return JudgedTexts.of(pairs, chain.from_iterable(documents for _, documents in examples))

    def task(self) -> Task:
        """Retrieval of the anchors' positives among all documents, negatives too; of scored pairs, the correlation.

        Raises:
            UsageError: every anchor is its own positive, or every score is the same.
        """
        records = [self.data[index].record for index in range(len(self.data))]
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
    query_ids: dict[str, str] = {}
    document_ids: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for pair in pairs:
        query = query_ids.setdefault(pair.anchor, f"q{len(query_ids)}")
        for text in (pair.positive, *pair.negatives):
            document_ids.setdefault(text, f"d{len(document_ids)}")
        qrels.setdefault(query, {})[document_ids[pair.positive]] = 1
    document_texts = {id: text for text, id in document_ids.items()}
    query_texts = {id: text for text, id in query_ids.items()}
    return Retrieval(retrieval_data(HOLDOUT, "held out", document_texts, query_texts, qrels))
