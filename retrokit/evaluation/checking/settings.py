"""Settings of a check of data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from retrokit.core.settings import Settings, listed, setting

FAULTS = "Faults of the files"
ANY = "any"


@dataclass(frozen=True)
class CheckSettings(Settings):
    """What is checked, and how it is shown."""

    panels = (None, FAULTS)
    first: ClassVar[tuple[str, ...]] = ("examples", "encoder", "metrics", "fail_on")

    data: Sequence[str] = setting(
        (),
        "Test sets (a BEIR folder, or beir:PATH,split=dev) and training data (FILE.jsonl, beir:PATH,split=train).",
        argument=True,
    )
    metrics: Sequence[str] = setting(
        "ndcg@10,recall@100,mrr@10", "Metrics whose highest values and losses are shown.", FAULTS, read=listed
    )
    examples: int = setting(0, "Show N examples of each fault.", FAULTS, minimum=0)
    encoder: str | None = setting(None, "Encoder: count the texts that it truncates.", FAULTS)
    device: str | None = setting(None)
    fail_on: Sequence[str] = setting(
        (), "Exit 1 if a fault of this kind, or `any`, is present. Repeatable.", FAULTS, result=False
    )

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
        if not self.data:
            yield "give a test set or training data, e.g. beir:data/scifact or pairs.jsonl"
