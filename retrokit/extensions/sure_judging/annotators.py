"""How far annotators agree on which variants are what they should be (SURE, Table 2).

Verdicts are JSON lines of ``query``, ``kind``, ``qualified``, ``annotator`` and ``sample``, as the audit page exports
them. Counted are the variants that all annotators have judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from retrokit.core.errors import UsageError
from retrokit.core.files import named
from retrokit.core.frames import frame
from retrokit.data.jsonl import checked, read_jsonl, restored
from retrokit.data.records import PrintedRecord
from retrokit.data.sure import VARIANT_FILES

if TYPE_CHECKING:
    from pandas import DataFrame

Variant = tuple[str, str]
"""A query's id and a kind."""

ALL_GROUPS_UP_TO = 4
"""Annotators of whom every group is counted; groups double with each one more, so of more than these the groups between
one and all are left out."""


@dataclass(frozen=True)
class Joint:
    """Of one annotator, or of several together: then qualified is what all of them call so (the paper's rule)."""

    annotators: tuple[str, ...]
    qualified: int
    unqualified: int


@dataclass(frozen=True)
class Agreement(PrintedRecord):
    """What annotators say of the same variants.

    Attributes:
        judged: annotator → how many variants they judged.
        common: how many all judged; everything below is of those.
        joint: of each annotator, then of each two, and so on up to all; of more than :data:`ALL_GROUPS_UP_TO`
            annotators, of each and of all.
        kinds: kind → of all annotators together.
        cohen: two annotators → Cohen's κ, from −1 to 1; ``None`` where both say the same of all variants throughout, so
            that chance explains it.
        fleiss: Fleiss' κ of all annotators, the same; ``None`` also where there is one annotator.
        same: the share of variants that all say the same of.
    """

    judged: dict[str, int]
    common: int
    joint: list[Joint]
    kinds: dict[str, Joint]
    cohen: dict[tuple[str, str], float | None]
    fleiss: float | None
    same: float

    def to_frame(self) -> DataFrame:
        """A row for each annotator, and for each group of them."""
        return frame({**vars(group), "annotators": ", ".join(group.annotators)} for group in self.joint)

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        cohen = [{"annotators": list(pair), "kappa": value} for pair, value in self.cohen.items()]
        return {**super().to_json(), "cohen": cohen}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Agreement:
        """What :meth:`to_json` gave."""
        pairs = restored({"cohen": [{"annotators": list[str], "kappa": float | None}]}, plain)["cohen"]
        cohen = {tuple(pair["annotators"]): pair["kappa"] for pair in pairs}
        return restored(cls, {**plain, "cohen": cohen})


_VERDICT = {"query": str, "kind": tuple(VARIANT_FILES), "annotator": str, "sample": str, "qualified": bool}


def read_verdicts(paths: Sequence[str | Path]) -> dict[str, dict[Variant, bool]]:
    """Annotator → variant → qualified, of files of verdicts.

    Raises:
        DataError: a wrong line, an annotator with two verdicts on a variant, or verdicts on different samples.
    """
    verdicts: dict[str, dict[Variant, bool]] = {}
    first_sample: str | None = None
    first_path: str | Path = ""
    for path in paths:
        for _, row in read_jsonl(path, "verdicts of build-sure audit or judge"):
            checked(_VERDICT, row, path, "a verdict")
            query, kind, sample = row["query"], row["kind"], row["sample"]
            if first_sample is None:
                first_sample, first_path = sample, path
            if sample != first_sample:
                other = f"{named(first_path)} on {first_sample!r}"
                raise row.wrong(f"is on the sample {sample!r}, and {other}: they hold different texts")
            annotator, qualified = row["annotator"], row["qualified"]
            if verdicts.setdefault(annotator, {}).setdefault((query, kind), qualified) != qualified:
                raise row.wrong(f"annotator {annotator!r} has another verdict on {kind} of query {query!r} before")
    return verdicts


def agreement(verdicts: Mapping[str, Mapping[Variant, bool]]) -> Agreement:
    """Compare annotators, in the order given.

    Raises:
        UsageError: there is no variant that all have judged.
    """
    annotators = tuple(verdicts)
    common = sorted(set.intersection(*map(set, verdicts.values())))
    if not common:
        raise UsageError(f"no variant is judged by all annotators: {', '.join(annotators)}")
    table = {name: np.array([verdicts[name][variant] for variant in common]) for name in annotators}
    kind_of_variant = np.array([kind for _, kind in common])
    kinds = {}
    for kind in VARIANT_FILES:
        if kind in kind_of_variant:
            kinds[kind] = _joint(annotators, table, kind_of_variant == kind)
    cohen = {(a, b): _cohen_kappa(table[a], table[b]) for a, b in combinations(annotators, 2)}
    qualified = np.sum(list(table.values()), axis=0)  # by how many annotators
    count = len(annotators)
    return Agreement(
        judged={name: len(verdicts[name]) for name in annotators},
        common=len(common),
        joint=[_joint(names, table) for names in _groups(annotators)],
        kinds=kinds,
        cohen=cohen,
        fleiss=fleiss_kappa(np.column_stack([qualified, count - qualified]).tolist()),
        same=float(np.mean((qualified == 0) | (qualified == count))),
    )


def _cohen_kappa(first: np.ndarray, second: np.ndarray) -> float | None:
    """``None`` if all verdicts are the same, so that chance explains the agreement."""
    from sklearn.metrics import cohen_kappa_score

    if len({*first.tolist(), *second.tolist()}) == 1:
        return None
    return float(cohen_kappa_score(first, second))


def _groups(annotators: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The groups that are counted together, the smallest first."""
    count = len(annotators)
    sizes = range(1, count + 1) if count <= ALL_GROUPS_UP_TO else (1, count)
    for size in sizes:
        yield from combinations(annotators, size)


def _joint(names: tuple[str, ...], table: Mapping[str, np.ndarray], is_counted: np.ndarray | None = None) -> Joint:
    """The verdicts of a group on all variants, or on those counted."""
    qualified = np.all([table[name] for name in names], axis=0)
    if is_counted is not None:
        qualified = qualified[is_counted]
    return Joint(names, int(qualified.sum()), int((~qualified).sum()))


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | None:
    """Fleiss' κ: ``counts[i][j]`` raters put subject i into category j; each subject has the same number of raters.

    1 is perfect agreement, 0 that of chance; ``None`` of one rater, and where all say the same of all subjects.

    Fleiss, "Measuring nominal scale agreement among many raters", 1971.

    >>> fleiss_kappa([[2, 0], [0, 2]]), fleiss_kappa([[2, 0], [2, 0]])
    (1.0, None)
    """
    raters, subjects = sum(counts[0]), len(counts)
    if raters == 1:
        return None
    observed = sum(count * (count - 1) for count in chain.from_iterable(counts)) / (subjects * raters * (raters - 1))
    shares = [sum(column) / (subjects * raters) for column in zip(*counts, strict=True)]
    expected = sum(share * share for share in shares)
    return None if expected == 1 else (observed - expected) / (1 - expected)
