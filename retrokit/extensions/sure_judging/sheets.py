"""Tables of how far annotators agree."""

from statistics import median

from retrokit.core.sheet import Sheet
from retrokit.extensions.sure_judging.annotators import ALL_GROUPS_UP_TO, Agreement


def agreement_sheets(agreement: Agreement) -> list[Sheet]:
    """Qualified and unqualified by each annotator and together (SURE, Table 2), by kind, and the kappas."""
    joint = []
    for verdicts in agreement.joint:
        several = len(verdicts.annotators)
        who = " & ".join(verdicts.annotators) if several <= ALL_GROUPS_UP_TO else f"all {several:,}"
        joint.append([who, f"{verdicts.qualified:,}", f"{verdicts.unqualified:,}"])
    kinds = [
        [kind, f"{verdicts.qualified:,}", f"{verdicts.unqualified:,}"] for kind, verdicts in agreement.kinds.items()
    ]
    notes = []
    if len(agreement.judged) > 1:
        notes += [f"all say the same of {agreement.same:.1%}", *_cohen_notes(agreement)]
        notes.append(f"Fleiss' kappa of all: {_kappa(agreement.fleiss)}")
    more = [f"{name} {count:,}" for name, count in agreement.judged.items() if count > agreement.common]
    if more:
        notes.append(f"judged in all, others' gaps left out: {', '.join(more)}")
    numbers = ["qualified", "unqualified"]
    return [
        Sheet(f"{agreement.common:,} variants that all have judged", ["annotators", *numbers], 1, joint),
        Sheet("all annotators together, by kind", ["kind", *numbers], 1, kinds, notes),
    ]


def _cohen_notes(agreement: Agreement) -> list[str]:
    """A line for each two annotators; of many annotators the lowest, the median and the highest kappa."""
    if len(agreement.judged) <= ALL_GROUPS_UP_TO:
        pairs = agreement.cohen.items()
        return [f"Cohen's kappa of {annotator} and {other}: {_kappa(value)}" for (annotator, other), value in pairs]
    defined = [value for value in agreement.cohen.values() if value is not None]
    if not defined:
        return []
    shares = f"{min(defined):.3f}, median {median(defined):.3f}, highest {max(defined):.3f}"
    return [f"Cohen's kappa of {len(defined):,} pairs: lowest {shares}; each: --json"]


def _kappa(value: float | None) -> str:
    return "undefined (all verdicts are the same)" if value is None else f"{value:.3f}"
