"""How well do labels follow from embeddings? Logistic regression, and the nearest neighbours under the similarity.

Logistic regression makes at most 100 iterations, as in MTEB (CROP, A.2), on embeddings as the similarity prepares them:
of unit length for cosine, raw for dot. The neighbours' majority under the similarity itself is SFS's evaluation (C).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from retrokit.data.labelled import LabelledSplit, read_split
from retrokit.evaluation.labels import check_neighbours, describe_split, guesses, hits, majority
from retrokit.evaluation.scoring import prepared
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Similarity

ITERATIONS = 100


class Classification(SymmetricTask):
    """Accuracy and macro-averaged F1 of logistic regression (``accuracy``, ``f1``) and of the k nearest neighbours
    under the similarity (``knn_accuracy``, ``knn_f1``)."""

    main_metric = "accuracy"
    shown_metrics = ("accuracy", "f1", "knn_accuracy", "knn_f1")
    default_metrics = shown_metrics
    query_side = "a test text (of knn_accuracy)"

    def __init__(self, data: LabelledSplit, k: int = 3) -> None:
        super().__init__(data.texts, data.counts)
        self.data = data
        self.k = k

    def describe(self) -> str:
        return describe_split(self.data)

    def guessed(self, metric: str) -> Mapping[str, float] | None:
        return guesses(self.data) if metric.endswith("accuracy") else None

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        (rows,) = embeddings
        from sklearn.metrics import f1_score

        labels = np.array(self.data.labels)
        train, test = self.data.train, self.data.test
        metrics: dict[str, float] = {}
        per_text: dict[str, dict[str, float]] = {}
        configuration: dict[str, bool] = {}
        for prefix in dict.fromkeys("knn_" if name.startswith("knn_") else "" for name in names):
            if prefix:
                _, nearest = top_k(similarity, rows[test], rows[train], self.k, request.device)
                predictions = majority(labels[train][nearest])
            else:
                ready = prepared(similarity, rows)
                predictions, converged = logistic_regression(ready[train], labels[train], ready[test])
                configuration["logistic_regression_converged"] = converged
            per_text[f"{prefix}accuracy"] = hits(self.data, predictions)
            metrics[f"{prefix}f1"] = float(f1_score(labels[test], predictions, average="macro"))
        return Measured(metrics, per_text, configuration=configuration)


def logistic_regression(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, bool]:
    """The label ``[n]`` of each row of ``test`` by scikit-learn's ``LogisticRegression``, and whether its 100
    iterations were enough to converge."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=ITERATIONS)
    with warnings.catch_warnings():
        # stopping after so many is the protocol; the result says if it was early
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(train, labels)
    predictions: np.ndarray = classifier.predict(test)
    return predictions, bool(np.max(classifier.n_iter_) < ITERATIONS)


def classify(path: str, test: str | None, k: int, sample: int | None) -> Classification:
    """The classification task of a file of labelled texts. Raises :class:`DataError` for a wrong line, one label only,
    fewer than k texts to find neighbours among."""
    data = read_split(path, test, sample)
    check_neighbours(path, data, k)
    task = Classification(data, k)
    task.data_digest = data.digest
    return task
