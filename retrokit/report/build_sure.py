"""What ``build-sure`` did, will take, and how its annotators agree, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Group

from retrokit.report.sheets import Table, facts, table
from retrokit.sure.agreement import ALL_GROUPS_UP_TO, Agreement
from retrokit.sure.build import Built, Estimate


def build_tables(built: Built) -> list[Table | Group]:
    """How many queries stay in each testbed, how each kind went, and what it took."""
    record = built.record
    testbeds = table("testbeds", ["testbed"], ["kept", "left"])
    testbeds.add_column("left after a rejection of")
    for testbed, counts in record["testbeds"].items():
        lost = counts["dropped"]
        testbeds.add_row(testbed, f"{counts['kept']:,}", f"{sum(lost.values()):,}", _listed(lost))
    kinds = table("variants", ["kind"], ["tried", "at once", "after retries", "dropped"])
    kinds.add_column("rejections by cause")
    for kind, stats in record["kinds"].items():
        numbers = [f"{stats[how]:,}" for how in ("tried", "at_once", "after_retries", "dropped")]
        kinds.add_row(kind, *numbers, _listed(stats["rejections"]))
    counts = built.counts
    tokens = counts["prompt_tokens"] + counts["completion_tokens"]
    took = f"{counts['calls']:,} calls ({tokens:,} tokens), {counts['from_store']:,} answers from the store"
    notes = [f"{built.folder}: {took}"]
    if not any(counts["kept"] for counts in record["testbeds"].values()):
        notes.append("no query is left in any testbed: the manifest holds every answer and why it was rejected")
    return [testbeds, Group(kinds, *notes)]


def estimate_table(estimate: Estimate) -> Table:
    """What a build would take."""
    rows = {
        "queries": estimate.queries,
        "calls": estimate.calls,
        "calls with all retries": estimate.most_calls,
        "tokens of prompts, about": estimate.prompt_tokens,
        "tokens of answers, about": estimate.completion_tokens,
    }
    return facts("dry run", {name: f"{count:,}" for name, count in rows.items()}, "right")


def agreement_tables(agreement: Agreement) -> list[Table | Group]:
    """Qualified and unqualified by each annotator and together (SURE, Table 2), by kind, and the kappas."""
    joint = table(f"{agreement.common:,} variants that all have judged", ["annotators"], ["qualified", "unqualified"])
    for verdicts in agreement.joint:
        joint.add_row(_group(verdicts.annotators), f"{verdicts.qualified:,}", f"{verdicts.unqualified:,}")
    kinds = table("all annotators together, by kind", ["kind"], ["qualified", "unqualified"])
    for kind, verdicts in agreement.kinds.items():
        kinds.add_row(kind, f"{verdicts.qualified:,}", f"{verdicts.unqualified:,}")
    notes = [f"all say the same of {agreement.same:.1%}"]
    notes += _cohen_notes(agreement)
    if len(agreement.judged) > 1:
        notes.append(f"Fleiss' kappa of all: {_kappa(agreement.fleiss)}")
    more = [f"{name} {count:,}" for name, count in agreement.judged.items() if count > agreement.common]
    if more:
        notes.append(f"judged in all, others' gaps left out: {', '.join(more)}")
    return [joint, Group(kinds, *notes)]


def _group(annotators: Sequence[str]) -> str:
    return " & ".join(annotators) if len(annotators) <= ALL_GROUPS_UP_TO else f"all {len(annotators):,}"


def _cohen_notes(agreement: Agreement) -> list[str]:
    """A line for each two annotators; of many annotators the least and the most alike, and what is left out."""
    if len(agreement.judged) <= ALL_GROUPS_UP_TO:
        return [
            f"Cohen's kappa of {annotator} and {other}: {_kappa(value)}"
            for (annotator, other), value in agreement.cohen.items()
        ]
    known = {pair: value for pair, value in agreement.cohen.items() if value is not None}
    ends = [
        (what, choose(known, key=known.__getitem__)) for what, choose in (("lowest", min), ("highest", max)) if known
    ]
    notes = [
        f"Cohen's kappa, {what}: {annotator} and {other}: {known[annotator, other]:.3f}"
        for what, (annotator, other) in ends
    ]
    if known:
        notes.append(f"Cohen's kappa, median of {len(known):,} pairs: {median(known.values()):.3f}; each: --json")
    notes.append(
        f"of {len(agreement.judged):,} annotators each and all together are counted, not the groups between; of up to "
        f"{ALL_GROUPS_UP_TO}, every group"
    )
    return notes


def _kappa(value: float | None) -> str:
    return "undefined (all verdicts are the same)" if value is None else f"{value:.3f}"


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in counts.items()) or "–"
