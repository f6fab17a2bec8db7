"""What ``build-sure`` did, will take, and how its annotators agree, as tables for people."""

from collections.abc import Sequence
from statistics import median

from retrokit.core.sheet import Sheet, facts
from retrokit.sure.agreement import ALL_GROUPS_UP_TO, Agreement
from retrokit.sure.build import Built, Estimate


def build_sheets(built: Built) -> list[Sheet]:
    """How many queries stay in each testbed, how each kind went, and what it took."""
    testbeds = [
        [testbed, f"{counts['kept']:,}", f"{sum(counts['dropped'].values()):,}", _listed(counts["dropped"])]
        for testbed, counts in built.record["testbeds"].items()
    ]
    how = ("tried", "at_once", "after_retries", "dropped")
    kinds = [
        [kind, *(f"{stats[name]:,}" for name in how), _listed(stats["rejections"])]
        for kind, stats in built.record["kinds"].items()
    ]
    counts = built.counts
    tokens = counts["prompt_tokens"] + counts["completion_tokens"]
    took = f"{counts['calls']:,} calls ({tokens:,} tokens), {counts['from_store']:,} answers from the store"
    notes = [f"{built.folder}: {took}"]
    if not any(counts["kept"] for counts in built.record["testbeds"].values()):
        notes.append("no query is left in any testbed: the manifest holds every answer and why it was rejected")
    columns = ["kind", "tried", "at once", "after retries", "dropped", "rejections by cause"]
    return [
        Sheet("testbeds", ["testbed", "kept", "left", "left after a rejection of"], 1, testbeds, last_words=1),
        Sheet("variants", columns, 1, kinds, notes, last_words=1),
    ]


def estimate_sheet(estimate: Estimate) -> Sheet:
    """What a build would take."""
    rows = {
        "queries": estimate.queries,
        "calls": estimate.calls,
        "calls with all retries": estimate.most_calls,
        "tokens of prompts, about": estimate.prompt_tokens,
        "tokens of answers, about": estimate.completion_tokens,
    }
    return facts("dry run", {name: f"{count:,}" for name, count in rows.items()}, are_numbers=True)


def agreement_sheets(agreement: Agreement) -> list[Sheet]:
    """Qualified and unqualified by each annotator and together (SURE, Table 2), by kind, and the kappas."""
    joint = [
        [_group(verdicts.annotators), f"{verdicts.qualified:,}", f"{verdicts.unqualified:,}"]
        for verdicts in agreement.joint
    ]
    kinds = [
        [kind, f"{verdicts.qualified:,}", f"{verdicts.unqualified:,}"] for kind, verdicts in agreement.kinds.items()
    ]
    notes = [f"all say the same of {agreement.same:.1%}", *_cohen_notes(agreement)]
    if len(agreement.judged) > 1:
        notes.append(f"Fleiss' kappa of all: {_kappa(agreement.fleiss)}")
    more = [f"{name} {count:,}" for name, count in agreement.judged.items() if count > agreement.common]
    if more:
        notes.append(f"judged in all, others' gaps left out: {', '.join(more)}")
    numbers = ["qualified", "unqualified"]
    return [
        Sheet(f"{agreement.common:,} variants that all have judged", ["annotators", *numbers], 1, joint),
        Sheet("all annotators together, by kind", ["kind", *numbers], 1, kinds, notes),
    ]


def _group(annotators: Sequence[str]) -> str:
    return " & ".join(annotators) if len(annotators) <= ALL_GROUPS_UP_TO else f"all {len(annotators):,}"


def _cohen_notes(agreement: Agreement) -> list[str]:
    """A line for each two annotators; of many annotators the least and the most alike, and what is left out."""
    if len(agreement.judged) <= ALL_GROUPS_UP_TO:
        pairs = agreement.cohen.items()
        return [f"Cohen's kappa of {annotator} and {other}: {_kappa(value)}" for (annotator, other), value in pairs]
    known = {pair: value for pair, value in agreement.cohen.items() if value is not None}
    notes = []
    for what, choose in (("lowest", min), ("highest", max)) if known else ():
        annotator, other = choose(known, key=known.__getitem__)
        notes.append(f"Cohen's kappa, {what}: {annotator} and {other}: {known[annotator, other]:.3f}")
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
