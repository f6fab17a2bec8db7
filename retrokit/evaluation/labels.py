"""What the tasks of labelled texts share: the neighbours' vote, what was found, and what is said of a split."""

from __future__ import annotations

import numpy as np

from retrokit.core.errors import DataError
from retrokit.core.files import named
from retrokit.data.labelled import LabelledSplit


def majority(labels: np.ndarray) -> np.ndarray:
    """The most frequent label of each row of ``[n, k]`` labels; of equally frequent ones the lowest, as scikit-learn.

    >>> majority(np.array([[2, 0, 2], [1, 0, 3]])).tolist()
    [2, 0]
    """
    from scipy.stats import mode

    winners: np.ndarray = mode(labels, axis=1).mode
    return winners


def hits(data: LabelledSplit, predictions: np.ndarray) -> dict[str, float]:
    """1 for each test text whose label was found, else 0, by the text's id."""
    return {
        data.ids[i]: float(data.labels[i] == label) for i, label in zip(data.test, predictions.tolist(), strict=True)
    }


def guesses(data: LabelledSplit) -> dict[str, float]:
    """:func:`hits` of a guess that knows no text: always the most frequent label of the texts to learn from."""
    labels = np.array(data.labels)
    return hits(data, np.repeat(majority(labels[data.train][None]), len(data.test)))


def describe_split(data: LabelledSplit) -> str:
    """The size of a split, and what in it is unusual, in a line."""
    counts, guessed = data.counts, np.mean(list(guesses(data).values()))
    line = (
        f"{data.name}: {counts['test_texts']:,} test texts, {counts['train_texts']:,} texts to learn from, "
        f"{counts['labels']:,} labels; always the most frequent one is right of {guessed:.1%}"
    )
    unusual = {
        "test texts of a label that none to learn from has, counted as wrong": counts["test_texts_of_unknown_label"],
        "texts without text, kept as empty": counts["texts_without_text"],
    }
    return line + "".join(f"; {count:,} {what}" for what, count in unusual.items() if count)


def check_neighbours(path: str, data: LabelledSplit, k: int) -> None:
    """Raise :class:`DataError` if there are fewer than ``k`` texts to find neighbours among."""
    if len(data.train) < k:
        raise DataError(
            named(path), f"{len(data.train)} texts to find neighbours among, but k={k}; expected {k} or more"
        )
