"""Do clusters in the embedding space recover the labels? Mini-batch k-means and V-measure (CROP, A.2).

As many clusters as labels, batches of 32 texts (MTEB's own tasks take 500, and a mean over the sets that they come in),
on embeddings as the similarity prepares them (of unit length for
cosine, raw for dot); the mean over several seeds, for one run of k-means is a matter of luck.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from retrokit.core.notices import progress
from retrokit.data.labelled import LabelledTexts, read_labelled
from retrokit.evaluation.scoring import moderate, prepared
from retrokit.evaluation.task import Request
from retrokit.evaluation.tasks.base import Measured, SymmetricTask
from retrokit.similarities.base import Similarity

BATCH = 32


class Clustering(SymmetricTask):
    """Agreement of clusters with labels: V-measure (mean and deviation over seeds) and the adjusted Rand index."""

    main_metric = "v_measure"
    shown_metrics = ("v_measure", "v_measure_std", "adjusted_rand")
    default_metrics = shown_metrics

    def __init__(self, data: LabelledTexts, seeds: int = 10, batch: int = BATCH) -> None:
        super().__init__(data.texts, data.counts)
        self.data = data
        self.seeds = seeds
        self.batch = batch

    def describe(self) -> str:
        counts = self.data.counts
        line = (
            f"{self.data.name}: {counts['texts']:,} texts, {counts['labels']:,} labels; k-means by {self.batch:,} texts"
        )
        line += " (CROP, A.2; MTEB's own tasks take 500)" if self.batch == BATCH else ""
        empty = counts["texts_without_text"]
        return line + (f"; {empty:,} texts without text, kept as empty" if empty else "")

    def measure(
        self, request: Request, similarity: Similarity, embeddings: Sequence[np.ndarray], names: Sequence[str]
    ) -> Measured:
        """Means over the seeds 0, 1, … There is nothing to test a difference with: a cluster has no score."""
        (rows,) = embeddings
        from sklearn.cluster import MiniBatchKMeans
        from sklearn.metrics import adjusted_rand_score, v_measure_score

        rows = moderate(prepared(similarity, rows))
        with progress("clustering", self.seeds, "seeds") as advance:
            v_measures, rands = [], []
            for seed in range(self.seeds):
                classes = len(self.data.classes)
                algorithm = MiniBatchKMeans(classes, batch_size=self.batch, n_init="auto", random_state=seed)
                clusters = algorithm.fit_predict(rows)
                v_measures.append(v_measure_score(self.data.labels, clusters))
                rands.append(adjusted_rand_score(self.data.labels, clusters))
                advance(1)
        metrics = {
            "v_measure": float(np.mean(v_measures)),
            "v_measure_std": float(np.std(v_measures)),
            "adjusted_rand": float(np.mean(rands)),
        }
        return Measured(metrics, configuration={"seeds": self.seeds, "batch": self.batch})


def cluster(path: str, seeds: int, batch: int, sample: int | None) -> Clustering:
    """The clustering task of a file of labelled texts. Raises :class:`DataError` for a wrong line or a single label."""
    task = Clustering(read_labelled(path, sample), seeds, batch)
    task.data_digest = task.data.digest
    return task
