"""What each fragment of an embedding holds by itself, and how few fragments are enough (SFS, 6.1.1 and 6.2).

Each fragment alone, under cosine, is set against the whole embedding: under cosine, and as the mean of the fragments'
cosines (SFS, Figure 2 and Table 7). The first fragments under the fragment similarity are set against the same
dimensions under cosine, as in Matryoshka representations (SFS, Figure 4 and Table 19).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import EncoderSlice, MemoizedEncoder
from retrokit.errors import UsageError
from retrokit.evaluation.task import Task
from retrokit.metrics.significance import paired_t_test
from retrokit.notices import progress
from retrokit.probing.findings import Findings
from retrokit.probing.quality import Quality, quality, read_task
from retrokit.probing.settings import FragmentSettings
from retrokit.registry import parse_all
from retrokit.settings import taking
from retrokit.similarities.base import Similarity

PREFERRED_METRIC = "knn_accuracy"  # SFS classifies by neighbours (Appendix C)
PREFIXES = 8
SIGNIFICANCE = 0.05

Measure = Callable[[Encoder, Similarity], Quality]


@dataclass(frozen=True)
class WholeScore:
    """The metric over all dimensions under ``similarity``."""

    encoder: str
    similarity: str
    value: float


@dataclass(frozen=True)
class FragmentScore:
    """The metric of fragment ``fragment`` of ``fragments`` (from 1), dimensions ``first`` to ``last`` (from 1), alone.

    ``difference`` is its distance from the whole under cosine; ``p`` that of a paired t-test, times the number of
    fragments of that size (Bonferroni), or ``None`` for a metric that is no mean over items.
    """

    encoder: str
    size: int
    fragments: int
    fragment: int
    first: int
    last: int
    value: float
    difference: float
    p: float | None


@dataclass(frozen=True)
class PrefixScore:
    """The metric of the first ``dims`` dimensions: as fragments of ``size``, and as one vector under cosine."""

    encoder: str
    size: int
    dims: int
    as_fragments: float
    as_one: float


@dataclass(frozen=True)
class FragmentProbe(Findings):
    """What ``probe fragments`` measured on ``task`` by ``metric``; higher is better."""

    task: str
    metric: str
    wholes: list[WholeScore]
    fragments: list[FragmentScore]
    prefixes: list[PrefixScore]

    def whole(self, encoder: str, similarity: str) -> float:
        """The metric of a whole embedding."""
        return next(row.value for row in self.wholes if (row.encoder, row.similarity) == (encoder, similarity))

    @property
    def conclusion(self) -> str:
        """One sentence on what the numbers mean, about the first encoder and the size whose best fragment is best."""
        encoder = self.wholes[0].encoder
        own = [row for row in self.fragments if row.encoder == encoder]
        best = max(own, key=lambda row: row.value)
        same_size = [row for row in own if row.size == best.size]
        whole, sliced = self.whole(encoder, "cosine"), self.whole(encoder, f"sfs:{best.size}")
        named = f"fragment {best.fragment} of {best.fragments} ({best.value:.4f})"
        if best.difference > 0 and best.p is not None and best.p < SIGNIFICANCE:
            first = f"{encoder}: {named} alone does better than the whole ({whole:.4f}), so it specialises in this task"
        elif best.difference > 0:
            first = f"{encoder}: {named} alone is above the whole ({whole:.4f}), but no more than chance may do"
        else:
            share = f"keeps {best.value / whole:.0%} of it" if whole > 0 else "holds as little"
            spread = np.ptp([row.value for row in same_size])
            first = (
                f"{encoder}: no fragment alone reaches the whole ({whole:.4f}); the best, {named}, {share}, "
                f"and fragments of that size differ by {spread:.4f}"
            )
        gain = sliced - whole
        effect = f"gains {gain:.4f}" if gain > 0 else f"loses {-gain:.4f}" if gain < 0 else "changes nothing"
        return f"{first}; scoring the whole with sfs:{best.size} instead of cosine {effect}."


@taking(FragmentSettings)
def probe_fragments(asked: FragmentSettings) -> FragmentProbe:
    """Measure every fragment of every size alone, the whole, and prefixes, on the task ``on``.

    Raises:
        UsageError: an unknown name, a size that does not divide (the message lists those that do), or a prefix that
            is no multiple of a size or is longer than the embedding.
        DataError: the task's files.
    """
    if not asked.sizes:
        raise UsageError("no fragment size is given")
    parse_all([*((encoder_names.registry, spec) for spec in asked.encoders), (evaluation.registry, asked.on)])
    task, chosen = read_task(asked.on, asked.metric, PREFERRED_METRIC)
    found = FragmentProbe(task.spec, chosen, [], [], [])
    for spec in asked.encoders:
        encoder = MemoizedEncoder(encoder_names.registry.create(spec, device=asked.device))
        for size in dict.fromkeys(asked.sizes):
            _check(task, encoder, size, asked.prefixes)
        one = partial(quality, task, metric=chosen, precision=asked.precision)
        whole = one(encoder, similarities.registry.create("cosine"))
        found.wholes.append(WholeScore(encoder.spec, "cosine", whole.value))
        for size in dict.fromkeys(asked.sizes):
            sliced = similarities.registry.create(f"sfs:{size}")
            found.wholes.append(WholeScore(encoder.spec, sliced.spec, one(encoder, sliced).value))
            found.fragments.extend(_fragments(one, encoder, size, whole))
            found.prefixes.extend(_prefixes(one, encoder, size, asked.prefixes))
    return found


def _check(task: Task, encoder: Encoder, size: int, prefixes: Sequence[int]) -> None:
    sliced = similarities.registry.create(f"sfs:{size}")
    sliced.check_dimension(encoder.dimension)
    if task.scored_with(encoder, [sliced])[0] is not sliced:
        raise UsageError(f"{task.spec} has its own distance and leaves {sliced.spec} out; add metric=similarity")
    for dims in prefixes:
        if dims > encoder.dimension or dims < 1 or dims % size:
            problem = f"a multiple of the fragment size {size}, and at most {encoder.dimension} for {encoder.spec}"
            raise UsageError(f"a prefix of {dims} dimensions: it must be {problem}")


def _fragments(measure: Measure, encoder: MemoizedEncoder, size: int, whole: Quality) -> list[FragmentScore]:
    cosine, count = similarities.registry.create("cosine"), encoder.dimension // size
    found = []
    with progress(f"measuring fragments of {size}", count, "fragments") as advance:
        for i in range(count):
            first, last = i * size, (i + 1) * size
            alone = measure(EncoderSlice(encoder, first, last, f"fragment {i + 1} of {count}"), cosine)
            p = min(1.0, count * paired_t_test(whole.per_item, alone.per_item).p) if whole.per_item else None
            difference = alone.value - whole.value
            found.append(FragmentScore(encoder.spec, size, count, i + 1, first + 1, last, alone.value, difference, p))
            advance(1)
    return found


def _prefixes(measure: Measure, encoder: MemoizedEncoder, size: int, prefixes: Sequence[int]) -> list[PrefixScore]:
    cosine, sliced = (similarities.registry.create(spec) for spec in ("cosine", f"sfs:{size}"))
    found = []
    for dims in prefixes or usual_prefixes(encoder.dimension, size):
        prefix = EncoderSlice(encoder, 0, dims, f"first {dims} dimensions")
        values = [measure(prefix, similarity).value for similarity in (sliced, cosine)]
        found.append(PrefixScore(encoder.spec, size, dims, *values))
    return found


def usual_prefixes(dimension: int, size: int) -> list[int]:
    """Up to eight multiples of ``size``, evenly spaced up to ``dimension``.

    >>> usual_prefixes(384, 64), usual_prefixes(768, 16)
    ([64, 128, 192, 256, 320, 384], [96, 192, 288, 384, 480, 576, 672, 768])
    """
    count = dimension // size
    return sorted({size * -(-count * i // PREFIXES) for i in range(1, PREFIXES + 1)})
