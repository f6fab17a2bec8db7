"""What the tasks of labelled texts share: the split, the neighbours' vote, and the majority-class baseline."""

from collections.abc import Mapping

import numpy as np

from retrokit.core.errors import DataError
from retrokit.core.files import named
from retrokit.data.labelled import LabelledSplit, read_split
from retrokit.evaluation.tasks.base import SymmetricTask, left_out


class LabelledTask(SymmetricTask):
    """A task that predicts the labels of test texts, by ``k`` neighbours or otherwise."""

    def __init__(self, data: LabelledSplit, k: int) -> None:
        super().__init__(data.texts, data.counts)
        self.data = data
        self.k = k
        self.data_digest = data.digest
        self.labels = np.array(data.labels)

    def describe(self) -> str:
        counts, guessed = self.data.counts, np.mean(list(self._guesses().values()))
        line = (
            f"{self.data.name}: {counts['test_texts']:,} test texts, {counts['train_texts']:,} texts to learn from, "
            f"{counts['labels']:,} labels; always the most frequent one is right of {guessed:.1%}"
        )
        unusual = {
            "test_texts_of_unknown_label": "test texts of a label that none to learn from has, counted as wrong",
            "texts_without_text": "texts without text, kept as empty",
        }
        return line + left_out(counts, unusual)

    def guessed(self, metric: str) -> Mapping[str, float] | None:
        return self._guesses() if metric.endswith("accuracy") or metric in self.known_metrics else None

    def _guesses(self) -> dict[str, float]:
        return self.hits(np.repeat(majority(self.labels[self.data.train][None]), len(self.data.test)))

    def hits(self, predictions: np.ndarray) -> dict[str, float]:
        """1 for each test text whose label is predicted, else 0, by the text's id; ``predictions`` int ``[n]``."""
        right = (self.labels[self.data.test] == predictions).tolist()
        return {self.data.ids[i]: float(hit) for i, hit in zip(self.data.test, right, strict=True)}


def read_neighbours(path: str, test: str | None, sample: int | None, k: int) -> LabelledSplit:
    """The split of a file of labelled texts. Raises :class:`DataError` for a wrong line, one label only, or fewer than
    ``k`` texts to find neighbours among."""
    data = read_split(path, test, sample)
    if len(data.train) < k:
        there = f"{len(data.train)} texts to find neighbours among, but k={k}"
        raise DataError(named(path), f"{there}; expected {k} or more")
    return data


def majority(labels: np.ndarray) -> np.ndarray:
    """The most frequent label of each row of ``[n, k]`` labels; of equally frequent ones the lowest, as scikit-learn.

    >>> majority(np.array([[2, 0, 2], [1, 0, 3]])).tolist()
    [2, 0]
    """
    from scipy.stats import mode

    winners: np.ndarray = mode(labels, axis=1).mode
    return winners
