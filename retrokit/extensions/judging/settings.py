"""The options of ``retrokit judge``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.cli.api import FILE, FOLDER, Settings, setting
from retrokit.core.settings import listed
from retrokit.metrics.names import metric_names

FRACTIONS = ("ndcg", "precision", "recall")
"""Metrics that can be bounded."""


@dataclass(frozen=True)
class PooledSettings(Settings):
    """A test set, and the systems whose first documents are looked at."""

    task: str = setting(help="Test set: a BEIR folder, or beir:PATH,split=dev.", argument=True, names="tasks")
    systems: Sequence[str] = setting(
        help="System as in eval: minilm, bm25, run:FILE. Repeatable.", names="encoders,searchers"
    )
    metrics: Sequence[str] = setting(
        "ndcg@10,recall@100",
        "Metrics to bound and estimate: ndcg, precision, recall.",
        read=listed,
        canonical=metric_names,
        names="metrics",
    )
    depth: int | None = setting(
        None, "Documents of each query and system. Default: the metrics' deepest cut-off.", minimum=1
    )
    with_: Sequence[str] = setting(
        (), "Reranker that predicts relevance. Repeatable.", flags=("--with",), names="rerankers,encoders"
    )
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        """What is wrong with numbers, systems and metrics."""
        from retrokit.core.errors import UsageError
        from retrokit.metrics.ranking import check_metric

        yield from super().problems()
        if not self.systems:
            yield "give `systems=`: what ranks documents, such as bm25 or run:FILE"
        if not self.metrics:
            yield f"`metrics=` is empty; give some of {', '.join(FRACTIONS)}, each with a cut-off"
        for name in self.metrics:
            try:
                check_metric(name)
            except UsageError as error:
                yield f"`metrics=`: {error}"
                continue
            if name.partition("@")[0] not in FRACTIONS:
                yield f"`metrics=` {name}: only {', '.join(FRACTIONS)} can be bounded"


@dataclass(frozen=True)
class PoolSettings(PooledSettings):
    """Which pairs are drawn, and where they are written."""

    _: KW_ONLY
    pairs: str = setting(help="File for the pairs: .html (a page) or .csv.", writes=FILE)
    sample: int = setting(100, "Pairs to draw.", minimum=1)
    seed: int = setting(0, "Seed of the drawn pairs.", minimum=0)


@dataclass(frozen=True)
class EstimateSettings(PooledSettings):
    """Bounds, or estimates from verdicts."""

    verdicts: Sequence[str] = setting(
        (),
        "Verdicts on drawn pairs: the filled .csv, or JSON lines of the page. Repeatable.",
        reads=FILE,
    )

    def problems(self) -> Iterator[str]:
        """What is wrong with numbers, systems, metrics and rerankers."""
        yield from super().problems()
        if self.with_ and not self.verdicts:
            yield "`with_=` predicts relevance for an estimate; give `verdicts=`"


@dataclass(frozen=True)
class RepairSettings(Settings):
    """What is repaired, and by what."""

    data: Sequence[str] = setting(
        (),
        "Test sets (a BEIR folder, or beir:PATH,split=dev) and training data (FILE.jsonl).",
        argument=True,
        names="data",
    )
    _: KW_ONLY
    output: str = setting(
        help="New folder for repaired copies and changes.jsonl.", flags=("--output", "-o"), writes=FOLDER
    )
    verdicts: Sequence[str] = setting(
        (), "Verdicts that go into the test set: .csv, or JSON lines of the page. Repeatable.", reads=FILE
    )
    with_: Sequence[str] = setting(
        (),
        "Leave out negatives that this reranker scores above the positive. Repeatable: that all do.",
        flags=("--with",),
        names="rerankers,encoders",
    )
    relabel: bool = setting(False, "Make these negatives positives in place of leaving them out.")
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        """What is missing."""
        yield from super().problems()
        if not self.data:
            yield "give a test set or training data, e.g. beir:data/scifact or pairs.jsonl"
        if self.relabel and not self.with_:
            yield "`relabel=` is for negatives that rerankers prefer; give `with_=`"


@dataclass(frozen=True)
class NegativesSettings(Settings):
    """Whose negatives are scored, and by what."""

    data: Sequence[str] = setting((), "Training data with negatives: FILE.jsonl.", argument=True, names="data")
    _: KW_ONLY
    with_: Sequence[str] = setting(
        help="Reranker. Repeatable: a negative counts if all score it above the positive.",
        flags=("--with",),
        names="rerankers,encoders",
    )
    examples: int = setting(0, "Show N of them for each data set.", minimum=0)
    fail: bool = setting(False, "Exit 1 if there is such a negative.", result=False)
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        """What is missing."""
        yield from super().problems()
        if not self.data:
            yield "give training data with negatives, e.g. pairs.jsonl"
        if not self.with_:
            yield "give `with_=`: a reranker that scores the negatives"
