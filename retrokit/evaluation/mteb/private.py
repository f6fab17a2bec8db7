"""What we take from MTEB's private modules, in one place: `mteb<3` is asked for because of it."""

from __future__ import annotations

import inspect

from mteb._create_dataloaders import create_dataloader as create_dataloader
from mteb._evaluators import ClusteringEvaluator

CLUSTERING_BATCH = int(inspect.signature(ClusteringEvaluator).parameters["clustering_batch_size"].default)
"""Texts of a step of k-means, where a task does not say it."""
