"""The options of ``retrokit judge``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from retrokit.cli.api import FILE, FOLDER, Settings, common, setting
from retrokit.metrics.names import metric_names

FRACTIONS = ("ndcg", "precision", "recall")
"""Metrics that can be bounded."""


@dataclass(frozen=True)
class PooledSettings(Settings):
    """A test set, and the systems whose first documents are looked at."""

    task: str = setting(
        help="Test set: a BEIR folder, or beir:PATH,split=dev. With --queries a corpus: JSON lines or a BEIR folder.",
        argument=True,
        names="tasks",
    )
    systems: Sequence[str] = setting(
        help="System as in eval: minilm, bm25, run:FILE. Repeatable.",
        names="encoders,searchers",
        missing="give `systems=`: what ranks documents, such as bm25 or run:FILE",
    )
    metrics: Sequence[str] = common(
        "metrics",
        default=(),
        help="Metrics: ndcg, precision, recall. Default: ndcg@10,recall@100; with --queries precision@5.",
        canonical=metric_names,
    )
    queries: str | None = setting(
        None, "Queries without judgements: text, one a line, or .jsonl of augment queries.", reads=FILE
    )
    depth: int | None = setting(
        None, "Documents of each query and system. Default: the metrics' deepest cut-off.", minimum=1
    )
    with_: Sequence[str] = setting(
        (),
        "Reranker that predicts relevance. Repeatable.",
        flags=("--with",),
        names="rerankers,encoders",
        needs=("verdicts",),
        excludes=("queries",),
    )
    device: str | None = common("device")

    @property
    def measured(self) -> Sequence[str]:
        """The metrics, by default those that the judgements allow."""
        if self.metrics:
            return self.metrics
        return ("ndcg@10", "recall@100") if self.queries is None else ("precision@5",)

    def problems(self) -> Iterator[str]:
        """What is wrong with numbers, systems and metrics."""
        from retrokit.core.errors import UsageError
        from retrokit.metrics.ranking import check_metric

        yield from super().problems()
        for name in self.measured:
            try:
                check_metric(name)
            except UsageError as error:
                yield f"`metrics=`: {error}"
                continue
            if name.partition("@")[0] not in FRACTIONS:
                yield f"`metrics=` {name}: only {', '.join(FRACTIONS)} can be bounded"
            elif self.queries is not None and not name.startswith("precision@"):
                yield f"`metrics=` {name}: needs to know all relevant documents; with `queries=` give precision@5"


@dataclass(frozen=True)
class PoolSettings(PooledSettings):
    """Which pairs are drawn, and where they are written."""

    _: KW_ONLY
    pairs: str = setting(help="File for the pairs: .html (a page) or .csv.", writes=FILE)
    sample: int = setting(100, "Pairs to draw.", minimum=1)
    seed: int = common("seed", help="Seed of the drawn pairs.")

    def problems(self) -> Iterator[str]:
        """As of any pool; and another kind of file than those that can be filled."""
        yield from super().problems()
        if Path(self.pairs).suffix not in ("", ".html", ".htm", ".csv"):
            yield f"`pairs=` {self.pairs}: expected a name that ends in .html or .csv"


@dataclass(frozen=True)
class EstimateSettings(PooledSettings):
    """Bounds, or estimates from verdicts."""

    verdicts: Sequence[str] = setting(
        (),
        "Verdicts on drawn pairs: the filled .csv, or JSON lines of the page. Repeatable.",
        reads=FILE,
    )
    worth: float = setting(0.0, "Smallest gain over the first system that is worth it.", needs=("queries",))

    def problems(self) -> Iterator[str]:
        """As of a pool; and queries without any judgement."""
        yield from super().problems()
        if self.queries is not None and not self.verdicts:
            yield "`queries=`: nothing is judged; give `verdicts=` on the pairs of `retrokit judge pool`"


@dataclass(frozen=True)
class RepairSettings(Settings):
    """What is repaired, and by what."""

    data: Sequence[str] = setting(
        (),
        "Test sets (a BEIR folder, or beir:PATH,split=dev) and training data (FILE.jsonl).",
        argument=True,
        names="data",
        missing="give a test set or training data, e.g. beir:data/scifact or pairs.jsonl",
    )
    _: KW_ONLY
    output: str = common("output", help="New folder for repaired copies and changes.jsonl.", writes=FOLDER)
    verdicts: Sequence[str] = setting(
        (), "Verdicts that go into the test set: .csv, or JSON lines of the page. Repeatable.", reads=FILE
    )
    with_: Sequence[str] = setting(
        (),
        "Leave out negatives that this reranker scores above the positive. Repeatable: that all do.",
        flags=("--with",),
        names="rerankers,encoders",
    )
    relabel: bool = setting(False, "Make these negatives positives in place of leaving them out.", needs=("with_",))
    device: str | None = common("device")


@dataclass(frozen=True)
class NegativesSettings(Settings):
    """Whose negatives are scored, and by what."""

    data: Sequence[str] = setting(
        (),
        "Training data with negatives: FILE.jsonl.",
        argument=True,
        names="data",
        missing="give training data with negatives, e.g. pairs.jsonl",
    )
    _: KW_ONLY
    with_: Sequence[str] = setting(
        help="Reranker. Repeatable: a negative counts if all score it above the positive.",
        missing="give `with_=`: a reranker that scores the negatives",
        flags=("--with",),
        names="rerankers,encoders",
    )
    examples: int = setting(0, "Show N of them for each data set.", minimum=0)
    fail: bool = setting(False, "Exit 1 if there is such a negative.", result=False)
    device: str | None = common("device")
