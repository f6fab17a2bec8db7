"""Base of the tasks over texts of one kind: similarity of sentences, neighbours, classes, clusters, pairs.

Such a task is symmetric: it wants ``score(a, b) == score(b, a)``. All its texts are therefore encoded in one role, as
documents, so that no prompt tells them apart. An asymmetric similarity runs nevertheless, one text counting as the
query, and a notice says why it will do badly (MAG, 2.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from retrokit.encoders.encoder import Encoder
from retrokit.evaluation.encoding import encode_sides, norm_statistics
from retrokit.evaluation.result import Resampled, Result, check_known
from retrokit.notices import notice
from retrokit.similarities.base import Similarity


@dataclass(frozen=True)
class Measured:
    """What a task measured under one similarity, as in :class:`retrokit.evaluation.result.Result`."""

    metrics: dict[str, float]
    per_query: dict[str, dict[str, float]] = field(default_factory=dict)
    resampled: dict[str, Resampled] = field(default_factory=dict)
    configuration: dict[str, Any] = field(default_factory=dict)
    own_scale: tuple[str, ...] = ()


class SymmetricTask(ABC):
    """A task over ``texts`` of one kind. A subclass says what it measures, and measures it."""

    symmetric: ClassVar[bool] = True
    query_side: str | None = None
    """What counts as the query under an asymmetric similarity; ``None``: nothing does, all texts are documents."""

    spec = ""
    data_digest: str | None = None
    """Of all its data as they were read; none: there is no telling if they changed."""
    main_metric: str
    known_metrics: tuple[str, ...]
    shown_metrics: tuple[str, ...]
    default_metrics: tuple[str, ...]

    def __init__(self, texts: Sequence[str], counts: dict[str, int]) -> None:
        self.texts = texts
        self.counts = counts
        self._warned: set[str] = set()

    @abstractmethod
    def describe(self) -> str:
        """What is used and what is left out, in a line."""

    @abstractmethod
    def measure(
        self, encoder: Encoder, similarity: Similarity, embeddings: np.ndarray, names: Sequence[str]
    ) -> Measured:
        """The metrics ``names`` under ``similarity``, given the raw embeddings ``[n, d]`` of ``texts``."""

    def scored_with(self, encoder: Encoder, similarities: Sequence[Similarity]) -> list[Similarity]:
        """The similarities that this task scores with when it is asked for ``similarities``; of an asymmetric one it
        says, once, what it will do here."""
        for similarity in similarities:
            self._warn_of(similarity)
        return list(similarities)

    def digest(self) -> str | None:
        """The digest of what was read, be it from a file or a pipe."""
        return self.data_digest

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise :class:`UsageError` for a name that this task does not measure."""
        check_known(names, self.known_metrics, self.spec)

    def evaluate(
        self,
        encoder: Encoder,
        similarities: list[Similarity],
        metrics: list[str] | None = None,
        precision: str = "auto",
        dims: int | None = None,
    ) -> list[Result]:
        """One result per similarity that the task scores with; the texts are encoded once.

        Raises:
            UsageError: dims or a similarity does not fit the encoder.
            DataError: scores that make a metric undefined, such as one score for all pairs.
        """
        names = list(dict.fromkeys([self.main_metric, *(metrics or self.default_metrics)]))
        chosen = self.scored_with(encoder, similarities)
        (embeddings,), configuration = encode_sides(encoder, chosen, [(self.texts, "document")], precision, dims)
        results = []
        for similarity in chosen:
            found = self.measure(encoder, similarity, embeddings, names)
            results.append(
                Result(
                    encoder=encoder.spec,
                    similarity=similarity.spec,
                    task=self.spec,
                    main_metric=self.main_metric,
                    metrics=found.metrics,
                    per_query=found.per_query,
                    counts=dict(self.counts),
                    norms=norm_statistics(embeddings, "text"),
                    configuration={**configuration, **similarity.statistics(), **found.configuration},
                    resampled=found.resampled,
                    own_scale=found.own_scale,
                )
            )
        return results

    def _warn_of(self, similarity: Similarity) -> None:
        if similarity.symmetric or similarity.spec in self._warned:
            return
        self._warned.add(similarity.spec)
        if self.query_side is None:
            effect = "all count as documents, so what it does to queries has no effect"
        else:
            effect = (
                f"{self.query_side} counts as the query, so a text scores otherwise on the other side: "
                "expect it to do badly"
            )
        notice(f"{self.spec}: {similarity.spec} is asymmetric, the texts are of one kind; {effect} (MAG, 2.1)")
