"""The registry of similarity functions: the table of names. Behaviour lives in the entries' modules."""

from typing import Any

from retrokit.core.registry import Entry, Param, Spec, SpecRegistry
from retrokit.core.settings import COMMON

_HERE = "retrokit.similarities"


def _gamma(role: str) -> Param:
    return Param(role, 0.5, minimum=0.001, maximum=0.999, help=f"γ of the {role} side at the start")


class SimilarityRegistry(SpecRegistry):
    """A registry whose products are similarities with all members that their class must have."""

    def create(self, spec: str | Spec, **context: Any) -> Any:
        """Make the similarity that ``spec`` names; raises :class:`UsageError` for a faulty class."""
        similarity = super().create(spec, **context)
        similarity.check_members()
        return similarity


registry = SimilarityRegistry(
    "similarity",
    "retrokit.similarities",
    [
        Entry("cosine", "angle alone", f"{_HERE}.magnitude:cosine"),
        Entry("dot", "inner product: both magnitudes count", f"{_HERE}.magnitude:dot"),
        Entry("qnorm", "query normalised: document magnitude counts", f"{_HERE}.magnitude:qnorm"),
        Entry("dnorm", "document normalised: query magnitude counts", f"{_HERE}.magnitude:dnorm"),
        Entry(
            "learn",
            "how much of each magnitude counts is learned",
            f"{_HERE}.magnitude:learn",
            (_gamma("query"), _gamma("document")),
        ),
        Entry(
            "sfs",
            "mean similarity of fragments of equal size",
            f"{_HERE}.fragment:sfs",
            (
                Param("size", int, required=True, minimum=1, help="dimensions of a fragment"),
                Param("base", "cosine", choices=("cosine", "dot", "l2", "l1"), help="similarity of a fragment"),
                COMMON["dims"],
            ),
            positional="size",
        ),
        Entry("l2", "minus the Euclidean distance", f"{_HERE}.distance:l2"),
        Entry("l1", "minus the Manhattan distance", f"{_HERE}.distance:l1"),
    ],
)
