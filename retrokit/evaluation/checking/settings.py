"""Settings of a check of data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from retrokit.core.settings import FILE, FOLDER, Settings, listed, setting
from retrokit.metrics.names import metric_names

FAULTS, JUDGEMENTS, REPAIR = "Faults of the files", "What the judgements do not know", "Repair"
ANY = "any"


@dataclass(frozen=True)
class CheckSettings(Settings):
    """What is checked, and how it is shown."""

    panels = (None, FAULTS, JUDGEMENTS, REPAIR)
    first: ClassVar[tuple[str, ...]] = (
        *("examples", "encoder", "fail_on", "systems", "metrics", "judge", "pairs", "verdicts", "write", "as_json"),
    )

    data: Sequence[str] = setting(
        (),
        "Test sets (a BEIR folder, or beir:PATH,split=dev) and training data (FILE.jsonl, beir:PATH,split=train).",
        argument=True,
        names="data",
    )
    metrics: Sequence[str] = setting(
        "ndcg@10,recall@100,mrr@10",
        "Metrics whose highest values, losses and bounds are shown.",
        FAULTS,
        read=listed,
        canonical=metric_names,
        names="metrics",
    )
    examples: int = setting(0, "Show N examples of each fault.", FAULTS, minimum=0)
    encoder: str | None = setting(None, "Encoder: count the texts that it truncates.", FAULTS, names="encoders")
    device: str | None = setting(None)
    fail_on: Sequence[str] = setting(
        (), "Exit 1 if a fault of this kind, or `any`, is present. Repeatable.", FAULTS, result=False
    )
    systems: Sequence[str] = setting(
        (),
        "System as in eval: minilm, bm25, run:FILE. Bound its metrics. Repeatable.",
        JUDGEMENTS,
        names="encoders,searchers",
    )
    depth: int | None = setting(
        None, "Documents of each query and system. Default: the metrics' deepest cut-off.", JUDGEMENTS, minimum=1
    )
    with_: Sequence[str] = setting(
        (),
        "Reranker that predicts relevance, of unjudged documents and of negatives. Repeatable.",
        JUDGEMENTS,
        flags=("--with",),
        names="rerankers,encoders",
    )
    judge: int | None = setting(None, "Draw N unjudged pairs for a person to judge.", JUDGEMENTS, minimum=1)
    pairs: str | None = setting(None, "File for these pairs: .html (a page) or .csv.", JUDGEMENTS, writes=FILE)
    verdicts: Sequence[str] = setting(
        (),
        "Their verdicts: the filled .csv, or JSON lines of the page. Estimate metrics. Repeatable.",
        JUDGEMENTS,
        reads=FILE,
    )
    write: str | None = setting(
        None, "Folder for repaired copies and changes.jsonl; verdicts go into the test set.", REPAIR, writes=FOLDER
    )
    relabel: bool = setting(False, "Make negatives that rerankers prefer positives; default: leave them out.", REPAIR)
    seed: int = setting(0, "Seed of the drawn pairs.", JUDGEMENTS, minimum=0)

    def problems(self) -> Iterator[str]:
        """What is wrong with numbers, metrics and kinds of faults."""
        from retrokit.core.errors import UsageError, did_you_mean
        from retrokit.data.check import KINDS
        from retrokit.metrics.ranking import check_metric

        yield from super().problems()
        for name in self.metrics:
            try:
                check_metric(name)
            except UsageError as error:
                yield f"`metrics=`: {error}"
        for kind in self.fail_on:
            if kind != ANY and kind not in KINDS:
                hint = did_you_mean(kind, KINDS)
                yield f"`fail_on=` {kind}: unknown kind of fault{hint}; it is {ANY}, or one of {', '.join(KINDS)}"
        for name in ("judge", "verdicts"):
            if getattr(self, name) and not self.systems:
                yield f"`{name}=` is about documents that systems rank first; give `systems=`"
        if self.depth is not None and not self.systems:
            yield "`depth=` is of what systems rank; give `systems=`"
        if self.seed and self.judge is None:
            yield "`seed=` draws the pairs of `judge=`, which is not given"
        if (self.judge is None) != (self.pairs is None):
            yield "`judge=` and `pairs=` belong together: how many pairs, and the file for them"
        if self.relabel and (self.write is None or not self.with_):
            yield "`relabel=` is for negatives that rerankers prefer; give `with_=` and `write=`"
        if not self.data:
            yield "give a test set or training data, e.g. beir:data/scifact or pairs.jsonl"
