"""Clusters against scikit-learn called directly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score, v_measure_score

import retrokit
from retrokit.evaluation import registry as tasks
from retrokit.evaluation.task import Request
from tests.evaluation.fakes import GivenEncoder, write_lines

RNG = np.random.default_rng(4)
COUNT = 150
LABELS = RNG.integers(0, 5, COUNT)
EMBEDDINGS = (3 * RNG.normal(size=(5, 6))[LABELS] + RNG.normal(0, 2, (COUNT, 6))).astype(np.float32)
EMBEDDINGS *= RNG.uniform(0.3, 3, (COUNT, 1)).astype(np.float32)
UNIT = EMBEDDINGS / np.linalg.norm(EMBEDDINGS, axis=1, keepdims=True)
ENCODER = GivenEncoder({f"t{i}": row.tolist() for i, row in enumerate(EMBEDDINGS)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "x.jsonl", [{"text": f"t{i}", "label": int(n)} for i, n in enumerate(LABELS)])


def scikit_learn(embeddings: np.ndarray, seeds: int) -> dict[str, float]:
    runs = [
        MiniBatchKMeans(n_clusters=5, batch_size=32, n_init="auto", random_state=seed).fit(embeddings).labels_
        for seed in range(seeds)
    ]
    values = [v_measure_score(LABELS, run) for run in runs]
    rand = np.mean([adjusted_rand_score(LABELS, run) for run in runs])
    return {"v_measure": np.mean(values), "v_measure_std": np.std(values), "adjusted_rand": rand}


@pytest.mark.parametrize("seeds", [1, 4])
def test_values_are_scikit_learns(file: Path, seeds: int) -> None:
    task = tasks.create(f"cluster:{file},seeds={seeds}")
    cosine, dot = task.evaluate(Request(ENCODER, [retrokit.similarity("cosine"), retrokit.similarity("dot")]))
    assert cosine.metrics == pytest.approx(scikit_learn(UNIT, seeds), abs=1e-6)
    assert dot.metrics == pytest.approx(scikit_learn(EMBEDDINGS, seeds), abs=1e-6)
    assert cosine.metrics["v_measure"] != dot.metrics["v_measure"]  # lengths are noise here
    assert (cosine.metrics["v_measure_std"] > 0) == (seeds > 1)
    assert cosine.configuration["seeds"] == seeds


def test_in_batches_as_large_as_mtebs(file: Path) -> None:
    """With batch=500 and seed 0 it is what MTEB's evaluator does with the seed 0."""
    mteb = pytest.importorskip("mteb", reason="of the extra mteb")
    from datasets import Dataset
    from mteb._evaluators import ClusteringEvaluator
    from mteb.timing import TimingStack

    task = tasks.create(f"cluster:{file},seeds=1,batch=500")
    assert task.describe().endswith("150 texts, 5 labels; k-means by 500 texts")
    data = Dataset.from_dict({"sentences": [f"t{i}" for i in range(COUNT)], "labels": LABELS.tolist()})
    evaluator = ClusteringEvaluator(
        data,
        input_column_name="sentences",
        label_column_name="labels",
        task_metadata=mteb.get_task("ArxivClusteringP2P").metadata,
        hf_split="test",
        hf_subset="default",
        timer=TimingStack(),
        seed=0,
    )

    class Given:
        def encode(self, batches: Any, **kwargs: Any) -> np.ndarray:
            return UNIT

    assert evaluator.clustering_batch_size == 500
    clusters = evaluator(Given(), encode_kwargs={"batch_size": 32})
    (found,) = task.evaluate(Request(ENCODER, [retrokit.similarity("cosine")]))
    assert found.metrics["v_measure"] == pytest.approx(v_measure_score(LABELS, clusters))
    assert found.configuration["batch"] == 500


def test_what_is_used(file: Path) -> None:
    line = "x.jsonl: 150 texts, 5 labels; k-means by 32 texts (CROP, A.2; MTEB's own tasks take 500)"
    assert tasks.create(f"cluster:{file}").describe().endswith(line)
    assert tasks.create(f"cluster:{file},sample=40").data.counts["texts"] == 40
