"""Do neighbours in the embedding space share a label? k-nearest-neighbour accuracy (CROP, 3.3 and Table S3).

By default as in the paper: k = 10, Euclidean distance between raw embeddings, an unstratified 9:1 split with seed 42,
the majority label of the neighbours (scikit-learn's ``KNeighborsClassifier``). Centring and whitening (PCA) use all
texts, as the authors' code does.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.core.notices import notice
from retrokit.data.labelled import LabelledSplit
from retrokit.encoders.base import Encoder
from retrokit.evaluation.scoring import moderate
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured
from retrokit.evaluation.tasks.labelled import LabelledTask, majority, read_neighbours
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Similarity

METRICS = ("euclidean", "cosine", "similarity")
TRANSFORMS = ("raw", "centered", "whitened")
_TABLE_S3 = {f"{transform}_{metric}": (transform, metric) for transform, metric in product(TRANSFORMS, METRICS[:2])}
_NEGLIGIBLE = 1e-10  # share of the largest variance below which a whitened direction would be rounding noise


class NearestNeighbours(LabelledTask):
    """Accuracy of the majority label among the k nearest texts."""

    main_metric = "accuracy"
    shown_metrics = ("accuracy",)
    default_metrics = ("accuracy",)
    known_metrics = ("accuracy", *_TABLE_S3)

    def __init__(self, data: LabelledSplit, k: int = 10, metric: str = "euclidean", transform: str = "raw") -> None:
        super().__init__(data, k)
        self.metric = metric
        self._columns = {"accuracy": (transform, metric), **_TABLE_S3}
        self.query_side = "a test text" if metric == "similarity" else None

    def scored_with(self, encoder: Encoder, similarities: Sequence[Similarity]) -> list[Similarity]:
        """The given similarities with ``metric=similarity``; else the one that ranks as the distance does."""
        if self.metric == "similarity":
            return super().scored_with(encoder, similarities)
        if any(similarity.spec != encoder.similarity.spec for similarity in similarities) and not self._warned:
            self._warned |= {self.metric}
            notice(f"{self.spec}: neighbours by {self.metric} distance; with metric=similarity, `sim=` decides")
        return [similarity_functions.registry.create({"euclidean": "l2", "cosine": "cosine"}[self.metric])]

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        (rows,) = embeddings
        labels, per_text = self.labels[self.data.train], {}
        for name in names:
            transform, metric = self._columns[name]
            moved = transformed(rows, transform)
            train, test = moved[self.data.train], moved[self.data.test]
            if metric == "similarity":
                predictions = majority(labels[top_k(similarity, test, train, self.k, request.device)[1]])
            else:
                predictions = predict_by_distance(train, labels, test, self.k, metric)
            per_text[name] = self.hits(predictions)
        return Measured(per_query=per_text)


def transformed(embeddings: np.ndarray, transform: str) -> np.ndarray:
    """``[n, d]`` as it is (``raw``), minus its mean (``centered``), or with uncorrelated columns of variance 1
    (``whitened``: PCA, without directions in which the texts do not differ; a column of zeros if there is no other)."""
    if transform == "raw":
        return embeddings
    if transform == "centered":
        centered: np.ndarray = embeddings - embeddings.mean(axis=0)
        return centered
    if (embeddings == embeddings[0]).all():
        return np.zeros_like(embeddings[:, :1])
    from sklearn.decomposition import PCA

    pca = PCA(whiten=True)
    whitened: np.ndarray = pca.fit_transform(moderate(embeddings))
    return whitened[:, pca.explained_variance_ > _NEGLIGIBLE * pca.explained_variance_[0]]


def predict_by_distance(train: np.ndarray, labels: np.ndarray, test: np.ndarray, k: int, metric: str) -> np.ndarray:
    """The majority label ``[n]`` among the k nearest rows of ``train``; scikit-learn's, which searches exactly."""
    from sklearn.neighbors import KNeighborsClassifier

    classifier = KNeighborsClassifier(n_neighbors=k, algorithm="brute", metric=metric)
    predictions: np.ndarray = classifier.fit(train, labels).predict(test)
    return predictions


def knn(path: str, test: str | None, k: int, metric: str, transform: str, sample: int | None) -> NearestNeighbours:
    """The neighbour task of a file of labelled texts; raises as :func:`read_neighbours`."""
    return NearestNeighbours(read_neighbours(path, test, sample, k), k, metric, transform)
