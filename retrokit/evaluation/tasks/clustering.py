"""Do clusters in the embedding space recover the labels? Mini-batch k-means and V-measure (CROP, A.2).

As many clusters as labels, batches of 32 texts (MTEB's own tasks take 500), on embeddings as the similarity prepares
them (of unit norm for cosine, raw for dot); the mean over several seeds, because one run is a matter of luck.
"""

from collections.abc import Sequence

import numpy as np

from retrokit.core.notices import progress
from retrokit.data.labelled import LabelledTexts, read_labelled
from retrokit.evaluation.scoring import moderate, prepared
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask, left_out
from retrokit.similarities.base import Similarity

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
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """Means over the seeds 0, 1, … There is nothing to test a difference with: a cluster has no score."""
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import adjusted_rand_score, v_measure_score

        rows = moderate(prepared(similarity, embeddings[0]))
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
