"""How well do labels follow from embeddings? Logistic regression, and the nearest neighbours under the similarity.

Logistic regression makes at most 100 iterations, as in MTEB (CROP, A.2), on embeddings as the similarity prepares them:
of unit norm for cosine, raw for dot. The neighbours' majority under the similarity itself is SFS's evaluation (C).
"""

import warnings
from collections.abc import Sequence

import numpy as np

from retrokit.data.labelled import LabelledSplit
from retrokit.evaluation.scoring import prepared
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured
from retrokit.evaluation.tasks.labelled import LabelledTask, majority, read_neighbours
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Similarity

ITERATIONS = 100


class Classification(LabelledTask):
    """Accuracy and macro-averaged F1 of logistic regression (``accuracy``, ``f1``) and of the k nearest neighbours
    under the similarity (``knn_accuracy``, ``knn_f1``)."""

    main_metric = "accuracy"
    shown_metrics = ("accuracy", "f1", "knn_accuracy", "knn_f1")
    default_metrics = shown_metrics
    query_side = "a test text (of knn_accuracy)"

    def __init__(self, data: LabelledSplit, k: int = 3) -> None:
        super().__init__(data, k)

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import f1_score

        (rows,) = embeddings
        train, test = self.data.train, self.data.test
        measured = Measured()
        for prefix in dict.fromkeys("knn_" if name.startswith("knn_") else "" for name in names):
            if prefix:
                _, nearest = top_k(similarity, rows[test], rows[train], self.k, request.device)
                predictions = majority(self.labels[train][nearest])
            else:
                ready, classifier = prepared(similarity, rows), LogisticRegression(max_iter=ITERATIONS)
                with warnings.catch_warnings():
                    # stopping after so many iterations is the protocol; the result says if it was early
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    classifier.fit(ready[train], self.labels[train])
                predictions = classifier.predict(ready[test])
                converged = bool(np.max(classifier.n_iter_) < ITERATIONS)
                measured.configuration["logistic_regression_converged"] = converged
            measured.per_query[f"{prefix}accuracy"] = self.hits(predictions)
            measured.metrics[f"{prefix}f1"] = float(f1_score(self.labels[test], predictions, average="macro"))
        return measured


def classify(path: str, test: str | None, k: int, sample: int | None) -> Classification:
    """The classification task of a file of labelled texts; raises as :func:`read_neighbours`."""
    return Classification(read_neighbours(path, test, sample, k), k)
