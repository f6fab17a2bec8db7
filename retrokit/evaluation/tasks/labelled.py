"""Tasks of labelled texts: neighbours, classification, clustering.

k nearest neighbours (CROP, 3.3 and Table S3): by default k = 10, Euclidean distance between raw embeddings, an
unstratified 9:1 split with seed 42, the majority label. Centring and whitening (PCA) use all texts, as the authors'
code does.

Classification: logistic regression of at most 100 iterations, as in MTEB (CROP, A.2), on embeddings as the similarity
prepares them (of unit norm for cosine, raw for dot), and the neighbours' majority under the similarity. Both learn from
all texts; MTEB's protocol, which draws a few of each label (SFS, C), is mteb's own: ``mteb:NAME,classifier=knn``.

Clustering (CROP, A.2): mini-batch k-means with as many clusters as labels, batches of 32 texts, V-measure averaged over
seeds.
"""

import warnings
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from retrokit import similarities as similarity_functions
from retrokit.core.errors import DataError
from retrokit.core.notices import notice, progress
from retrokit.data.labelled import LabelledSplit, LabelledTexts, read_labelled, read_split
from retrokit.encoders.base import Encoder
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask, left_out, moderate
from retrokit.ranking.retrieval.embeddings import prepared_rows
from retrokit.ranking.retrieval.exact import top_k
from retrokit.similarities.base import Similarity


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
        raise DataError(path, f"{there}; expected {k} or more")
    return data


def majority(labels: np.ndarray) -> np.ndarray:
    """The most frequent label of each row of ``[n, k]`` labels; of equally frequent ones the lowest, as scikit-learn.

    >>> majority(np.array([[2, 0, 2], [1, 0, 3]])).tolist()
    [2, 0]
    """
    from scipy.stats import mode

    winners: np.ndarray = mode(labels, axis=1).mode
    return winners


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

    def scored_with(self, encoder: Encoder, similarities: Sequence[Similarity]) -> list[Similarity]:
        """The given similarities with ``metric=similarity``; else the one that ranks as the distance does."""
        if self.metric == "similarity":
            return super().scored_with(encoder, similarities)
        if any(similarity.spec != encoder.similarity.spec for similarity in similarities) and not self._warned:
            self._warned |= {self.metric}
            notice(f"{self.spec}: neighbours by {self.metric} distance; with metric=similarity, `sim=` decides")
        return [similarity_functions.registry.create({"euclidean": "l2", "cosine": "cosine"}[self.metric])]

    def measure(
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        labels, per_text = self.labels[self.data.train], {}
        for name in names:
            transform, metric = self._columns[name]
            moved = transformed(embeddings, transform)
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


ITERATIONS = 100


class Classification(LabelledTask):
    """Accuracy and macro-averaged F1 of logistic regression (``accuracy``, ``f1``) and of the k nearest neighbours
    under the similarity (``knn_accuracy``, ``knn_f1``)."""

    main_metric = "accuracy"
    shown_metrics = ("accuracy", "f1", "knn_accuracy", "knn_f1")
    default_metrics = shown_metrics

    def __init__(self, data: LabelledSplit, k: int = 3) -> None:
        super().__init__(data, k)

    def measure(
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import f1_score

        train, test = self.data.train, self.data.test
        measured = Measured()
        for prefix in dict.fromkeys("knn_" if name.startswith("knn_") else "" for name in names):
            if prefix:
                _, nearest = top_k(similarity, embeddings[test], embeddings[train], self.k, request.device)
                predictions = majority(self.labels[train][nearest])
            else:
                ready = prepared_rows(similarity, embeddings, "document")
                classifier = LogisticRegression(max_iter=ITERATIONS)
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


BATCH = 32


class Clustering(SymmetricTask):
    """Agreement of clusters with labels: V-measure (mean and SD over seeds) and the adjusted Rand index."""

    main_metric = "v_measure"
    shown_metrics = ("v_measure", "v_measure_std", "adjusted_rand")
    default_metrics = shown_metrics

    def __init__(self, data: LabelledTexts, seeds: int = 10, batch: int = BATCH) -> None:
        super().__init__(data.texts, data.counts)
        self.data, self.seeds, self.batch = data, seeds, batch
        self.data_digest = data.digest

    def describe(self) -> str:
        counts = self.data.counts
        line = f"{self.data.name}: {counts['texts']:,} texts, {counts['labels']:,} labels; "
        line += f"k-means by {self.batch:,} texts"
        line += " (CROP, A.2; MTEB's own tasks take 500)" if self.batch == BATCH else ""
        return line + left_out(counts, {"texts_without_text": "texts without text, kept as empty"})

    def measure(
        self, request: Request, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """Means over the seeds 0, 1, … There is nothing to test a difference with: a cluster has no score."""
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import adjusted_rand_score, v_measure_score

        rows = moderate(prepared_rows(similarity, embeddings, "document"))
        v_measures, rands = [], []
        with progress("clustering", self.seeds, "seeds") as advance:
            for seed in range(self.seeds):
                classes = len(self.data.classes)
                algorithm = MiniBatchKMeans(classes, batch_size=self.batch, n_init="auto", random_state=seed)
                clusters = algorithm.fit_predict(rows)
                v_measures.append(v_measure_score(self.data.labels, clusters))
                rands.append(adjusted_rand_score(self.data.labels, clusters))
                advance(1)
        values = (np.mean(v_measures), np.std(v_measures), np.mean(rands))
        metrics = dict(zip(self.default_metrics, map(float, values), strict=True))
        return Measured(metrics, configuration={"seeds": self.seeds, "batch": self.batch})


def cluster(path: str, seeds: int, batch: int, sample: int | None) -> Clustering:
    """The clustering task of a file of labelled texts. Raises :class:`DataError` for a wrong line or a single label."""
    return Clustering(read_labelled(path, sample), seeds, batch)
