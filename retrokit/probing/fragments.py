"""What each fragment of an embedding holds by itself, and how few fragments are enough (SFS, 6.1.1 and 6.2).

Each fragment alone, under cosine, is set against the whole embedding: under cosine, and as the mean of the fragments'
cosines (SFS, Figure 2 and Table 7). Two baselines, which are ours, say how much that is: always the most frequent
label, and random slices, which are fragments of the same embedding with its dimensions shuffled. The first fragments
under the fragment similarity are set against the same dimensions under cosine, as in Matryoshka representations (SFS,
Figure 4 and Table 19).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from retrokit import encoders as encoder_names
from retrokit import evaluation, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import progress
from retrokit.core.registry import parse_all
from retrokit.core.settings import taking
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import EncoderSlice, MemoizedEncoder
from retrokit.evaluation.task import Task
from retrokit.metrics.significance import paired_t_test
from retrokit.probing.findings import Findings
from retrokit.probing.quality import Quality, quality, read_task
from retrokit.probing.settings import FragmentSettings
from retrokit.similarities.base import Similarity

PREFERRED_METRIC = "knn_accuracy"  # SFS classifies by neighbours (Appendix C)
PREFIXES = 8
SIGNIFICANCE = 0.05

Measure = Callable[[Encoder, Similarity], Quality]


@dataclass(frozen=True)
class WholeScore:
    """The metric over all dimensions under ``similarity``.

    ``guess`` is that of always the most frequent label, and ``p`` that of a paired t-test against it: ``None`` where
    there are no labels, and for a metric that is no mean over items.
    """

    encoder: str
    similarity: str
    value: float
    guess: float | None = None
    p: float | None = None


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
class RandomSlice:
    """The metric of ``size`` dimensions alone that were drawn at random: every dimension is in one slice of a size."""

    encoder: str
    size: int
    slice: int
    value: float


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
    random: list[RandomSlice]

    def whole(self, encoder: str, similarity: str) -> float:
        """The metric of a whole embedding."""
        return next(row.value for row in self.wholes if (row.encoder, row.similarity) == (encoder, similarity))

    def at_random(self, encoder: str, size: int) -> list[float]:
        """The metric of each random slice of that size."""
        return [row.value for row in self.random if (row.encoder, row.size) == (encoder, size)]

    @property
    def conclusion(self) -> str:
        """One sentence on what the numbers mean, about the first encoder and the size whose best fragment is best."""
        first = self.wholes[0]  # under cosine
        encoder, whole, guess = first.encoder, first.value, first.guess
        own = [row for row in self.fragments if row.encoder == encoder]
        best = max(own, key=lambda row: row.value)
        drawn = self.at_random(encoder, best.size)
        named, all_of_it = (
            f"fragment {best.fragment} of {best.fragments} ({best.value:.4f})",
            f"the whole ({whole:.4f})",
        )
        is_clear = best.p is not None and best.p < SIGNIFICANCE
        if best.difference > 0 and is_clear:
            alone = "so it specialises in this task" if best.value > max(drawn) else "and so does a random slice"
            text = f"{named} alone does better than {all_of_it}, {alone}"
        elif guess is not None and first.p is not None and (whole <= guess or first.p >= SIGNIFICANCE):
            text = (
                f"{all_of_it} cannot be told from always the most frequent label ({guess:.4f}), nor what fragments keep"
            )
        elif best.difference > 0:
            text = f"{named} alone is above {all_of_it}, but no more than chance may do"
        else:
            floor = guess or 0.0
            share = f"{max(0.0, best.value - floor) / (whole - floor):.0%}" if whole > floor else "none"
            beyond = f" what it has above the most frequent label ({guess:.4f})" if guess is not None else " it"
            text = f"no fragment alone reaches {all_of_it}; the best, {named}, keeps {share} of{beyond}"
        spread, other = np.ptp([row.value for row in own if row.size == best.size]), np.ptp(drawn)
        text += f"; fragments of that size differ by {spread:.4f}, random slices by {other:.4f} (best {max(drawn):.4f})"
        gain = self.whole(encoder, f"sfs:{best.size}") - whole
        effect = f"gains {gain:.4f}" if gain > 0 else f"loses {-gain:.4f}" if gain < 0 else "changes nothing"
        return f"{encoder}: {text}; scoring the whole with sfs:{best.size} instead of cosine {effect}."


@taking(FragmentSettings)
def probe_fragments(settings: FragmentSettings) -> FragmentProbe:
    """Measure every fragment of every size alone, the whole, and prefixes, on the task ``on``.

    Raises:
        UsageError: an unknown name, a size that does not divide (the message lists those that do), or a prefix that
            is no multiple of a size or is longer than the embedding.
        DataError: the task's files.
    """
    if not settings.sizes:
        raise UsageError("no fragment size is given")
    parse_all([*((encoder_names.registry, spec) for spec in settings.encoders), (evaluation.registry, settings.on)])
    task, chosen = read_task(settings.on, settings.metric, PREFERRED_METRIC)
    probe = FragmentProbe(task.spec, chosen, [], [], [], [])
    guess = task.guessed(chosen)
    for spec in settings.encoders:
        encoder = MemoizedEncoder(encoder_names.registry.create(spec, device=settings.device))
        for size in dict.fromkeys(settings.sizes):
            _check(task, encoder, size, settings.prefixes)
        score = partial(quality, task, metric=chosen, precision=settings.precision)
        whole = score(encoder, similarities.registry.create("cosine"))
        order = np.random.default_rng(settings.seed).permutation(encoder.dimension).tolist()
        probe.wholes.append(_whole(encoder, "cosine", whole, guess))
        for size in dict.fromkeys(settings.sizes):
            sliced = similarities.registry.create(f"sfs:{size}")
            probe.wholes.append(_whole(encoder, sliced.spec, score(encoder, sliced), guess))
            probe.fragments.extend(_fragments(score, encoder, size, whole))
            probe.prefixes.extend(_prefixes(score, encoder, size, settings.prefixes))
            values = [alone.value for alone in _slices(score, encoder, size, "random slice", order)]
            probe.random.extend(RandomSlice(encoder.spec, size, i, value) for i, value in enumerate(values, 1))
    return probe


def _check(task: Task, encoder: Encoder, size: int, prefixes: Sequence[int]) -> None:
    sliced = similarities.registry.create(f"sfs:{size}")
    sliced.check_dimension(encoder.dimension)
    if task.scored_with(encoder, [sliced])[0] is not sliced:
        raise UsageError(f"{task.spec} has its own distance and leaves {sliced.spec} out; add metric=similarity")
    for dims in prefixes:
        if dims > encoder.dimension or dims < 1 or dims % size:
            problem = f"a multiple of the fragment size {size}, and at most {encoder.dimension} for {encoder.spec}"
            raise UsageError(f"a prefix of {dims} dimensions: it must be {problem}")


def _whole(encoder: Encoder, similarity: str, whole: Quality, guess: Mapping[str, float] | None) -> WholeScore:
    if guess is None:
        return WholeScore(encoder.spec, similarity, whole.value)
    p = paired_t_test(guess, whole.per_item).p
    return WholeScore(encoder.spec, similarity, whole.value, sum(guess.values()) / len(guess), p)


def _slices(
    measure: Measure, encoder: MemoizedEncoder, size: int, what: str, order: Sequence[int] | None = None
) -> Iterator[Quality]:
    """Each slice of ``size`` dimensions alone, of the dimensions in their order or in another."""
    cosine, count = similarities.registry.create("cosine"), encoder.dimension // size
    with progress(f"measuring {what}s of {size}", count, f"{what}s") as advance:
        for i in range(count):
            name = f"{what} {i + 1} of {count}"
            yield measure(EncoderSlice(encoder, i * size, (i + 1) * size, name, order), cosine)
            advance(1)


def _fragments(measure: Measure, encoder: MemoizedEncoder, size: int, whole: Quality) -> Iterator[FragmentScore]:
    count = encoder.dimension // size
    for i, alone in enumerate(_slices(measure, encoder, size, "fragment")):
        p = min(1.0, count * paired_t_test(whole.per_item, alone.per_item).p) if whole.per_item else None
        at = encoder.spec, size, count, i + 1, i * size + 1, (i + 1) * size
        yield FragmentScore(*at, alone.value, alone.value - whole.value, p)


def _prefixes(measure: Measure, encoder: MemoizedEncoder, size: int, prefixes: Sequence[int]) -> list[PrefixScore]:
    cosine, sliced = (similarities.registry.create(spec) for spec in ("cosine", f"sfs:{size}"))
    results = []
    for dims in prefixes or usual_prefixes(encoder.dimension, size):
        prefix = EncoderSlice(encoder, 0, dims, f"first {dims} dimensions")
        values = [measure(prefix, similarity).value for similarity in (sliced, cosine)]
        results.append(PrefixScore(encoder.spec, size, dims, *values))
    return results


def usual_prefixes(dimension: int, size: int) -> list[int]:
    """Up to eight multiples of ``size``, evenly spaced up to ``dimension``.

    >>> usual_prefixes(384, 64), usual_prefixes(768, 16)
    ([64, 128, 192, 256, 320, 384], [96, 192, 288, 384, 480, 576, 672, 768])
    """
    count = dimension // size
    return sorted({size * -(-count * i // PREFIXES) for i in range(1, PREFIXES + 1)})
