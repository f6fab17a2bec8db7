"""How good each single fragment of an embedding is, and how few fragments are enough (SFS, 6.1.1 and 6.2).

Each fragment, under cosine, is compared with the whole: under cosine, and as the mean of the fragments' cosines (SFS,
Figure 2 and Table 7). Two baselines are ours: the majority class, and random slices, which are fragments of the
embedding with its dimensions shuffled. The first fragments under the fragment similarity are compared with the same
dimensions under cosine, as in Matryoshka representations (SFS, Figure 4 and Table 19).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from retrokit import evaluation, similarities
from retrokit.core.errors import UsageError
from retrokit.core.notices import progress
from retrokit.core.settings import taking
from retrokit.core.sheet import Sheet, digits, grouped
from retrokit.encoders.base import Encoder
from retrokit.encoders.views import EncoderSlice, MemoizedEncoder
from retrokit.evaluation.task import Task
from retrokit.metrics.significance import paired_t_test
from retrokit.probing.base import Findings, Quality, encoders_of, parse_names, quality, read_task
from retrokit.probing.settings import FragmentSettings
from retrokit.similarities.base import Similarity

PREFERRED_METRIC = "knn_accuracy"  # SFS classifies by neighbours (Appendix C)
PREFIXES = 8
BOXES = 64  # fragments up to which each has an edge in the picture
SIGNIFICANCE = 0.05

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """The metric of fragment ``fragment`` of ``fragments`` (from 1), dimensions ``first`` to ``last`` (from 1).

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
    """The metric of ``size`` random dimensions: every dimension is in one slice of a size."""

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

    pictures: ClassVar = {
        "fragments": "Fragments alone, against the whole",
        "prefixes": "Quality of the first dimensions",
    }

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
        # about the first encoder, and the size whose best fragment is best
        encoder, cosine = self.wholes[0].encoder, self.wholes[0].value
        best = max((row for row in self.fragments if row.encoder == encoder), key=lambda row: row.value)
        in_fragments = self.whole(encoder, f"sfs:{best.size}")
        return (
            f"{encoder}: fragment {best.fragment} of {best.fragments} alone is best ({best.value:.4f}), the whole has "
            f"{cosine:.4f}, the best random slice {max(self.at_random(encoder, best.size)):.4f}; sfs:{best.size} "
            f"instead of cosine: {in_fragments - cosine:+.4f}."
        )

    def sheets(self) -> list[Sheet]:
        return [self._fragments_sheet(), self._prefixes_sheet()]

    def _fragments_sheet(self) -> Sheet:
        rows = []
        for (encoder, size), fragments in grouped(self.fragments, "encoder", "size").items():
            ranked = sorted(fragments, key=lambda row: -row.value)
            best, median, worst = ranked[0], ranked[len(ranked) // 2], ranked[-1]
            star = "*" if best.p is not None and best.p < SIGNIFICANCE else " "
            random = self.at_random(encoder, size)
            rows.append(
                [
                    encoder,
                    str(size),
                    str(len(fragments)),
                    f"{self.whole(encoder, 'cosine'):.4f}",
                    f"{self.whole(encoder, f'sfs:{size}'):.4f}",
                    f"{best.value:.4f}{star}",
                    str(best.fragment),
                    f"{median.value:.4f}",
                    f"{worst.value:.4f}",
                    f"{min(random):.4f} to {max(random):.4f}",
                    str(sum(row.difference > 0 for row in fragments)),
                ]
            )
        columns = ["encoder", "size", "fragments", "cosine", "sfs", "best alone", "its number", "median", "worst"]
        columns += ["random slices", "above the whole"]
        notes = [f"* differs from the whole, p < {SIGNIFICANCE} (paired t-test, Bonferroni over fragments)"]
        if (guess := self.wholes[0].guess) is not None:
            notes.append(f"majority-class baseline: {guess:.4f}")
        return Sheet(f"{self.metric} of the whole and of single fragments: {self.task}", columns, 1, rows, notes)

    def _prefixes_sheet(self) -> Sheet:
        sizes = list(dict.fromkeys(row.size for row in self.prefixes))
        rows = []
        for encoder, prefixes in grouped(self.prefixes, "encoder").items():
            for dims, of_dims in sorted(grouped(prefixes, "dims").items()):
                by_size = {row.size: row.as_fragments for row in of_dims}
                cells = [digits(by_size.get(size), absent="") for size in sizes]
                rows.append([encoder, str(dims), f"{of_dims[0].as_one:.4f}", *cells])
        columns = ["encoder", "dimensions", "cosine", *(f"sfs:{size}" for size in sizes)]
        return Sheet(f"{self.metric} of the first dimensions", columns, 1, rows)

    def plot(self, folder: str | Path) -> list[Path]:
        """The heat map of fragments and the curves of prefixes; returns the files written."""
        return [*_heat_map(self, folder), *_prefix_curves(self, folder)]


def _heat_map(probe: FragmentProbe, folder: str | Path) -> list[Path]:
    """SFS, Figure 2: a row per size, a cell per fragment, its distance from the whole under cosine."""
    import matplotlib as mpl
    from matplotlib.colors import TwoSlopeNorm

    from retrokit.core.figures import PANELS, fitting, panels, save, shown

    encoders = fitting(list(grouped(probe.fragments, "encoder").items()), PANELS, "encoders", "fragments")
    sizes = sorted({row.size for row in probe.fragments}, reverse=True)
    figure, every_axes = panels(len(encoders), 1.3 + 0.42 * len(sizes))
    reach = max(1e-6, *(abs(row.difference) for row in probe.fragments))
    norm = TwoSlopeNorm(0, -reach, reach)
    colors = mpl.colormaps["PuOr"]
    for axes, (encoder, fragments) in zip(every_axes, encoders, strict=True):
        dimension = max(row.last for row in fragments)
        for index, size in enumerate(sizes):
            rows = [row for row in fragments if row.size == size]
            axes.barh(
                index,
                size,
                left=[row.first - 1 for row in rows],
                height=0.92,
                color=[colors(norm(row.difference)) for row in rows],
                edgecolor="white" if len(rows) <= BOXES else "none",
                linewidth=0.6,
            )
            if size / fragments[-1].last > 0.06:
                _write_differences(axes, index, rows, reach)
        axes.set_yticks(range(len(sizes)), [str(size) for size in sizes])
        axes.invert_yaxis()
        axes.set_xlim(0, dimension)
        axes.set_ylabel("fragment size")
        axes.set_title(f"{shown(encoder)}: whole {probe.whole(encoder, 'cosine'):.4f}", fontsize=9)
    every_axes[-1].set_xlabel("dimension of the embedding")
    image = mpl.cm.ScalarMappable(norm=norm, cmap=colors)
    figure.colorbar(image, ax=every_axes, label=f"{shown(probe.metric)}: fragment − whole", shrink=0.9)
    return save(figure, folder, "fragments")


def _write_differences(axes: Axes, height: int, rows: Sequence[FragmentScore], reach: float) -> None:
    """Write each fragment's difference into its cell, in white on a dark one."""
    from retrokit.core.figures import FIXED

    for row in rows:
        color = "white" if abs(row.difference) > 0.65 * reach else "black"
        middle = row.first - 1 + row.size / 2
        text = f"{row.difference:+.2f}"
        axes.text(middle, height, text, ha="center", va="center", fontsize=7, color=color, gid=FIXED)


def _prefix_curves(probe: FragmentProbe, folder: str | Path) -> list[Path]:
    """SFS, Figure 4: quality over the number of first dimensions."""
    from retrokit.core.figures import CURVES, LINES, MARKERS, Curve, color_of, curves_figure, fitting, save, shown

    encoders = fitting(list(grouped(probe.prefixes, "encoder").items()), CURVES, "encoders", "prefixes")
    sizes = list(dict.fromkeys(row.size for row in probe.prefixes))
    curves = []
    for index, (encoder, prefixes) in enumerate(encoders):
        color, name = color_of(index), shown(encoder, 30)
        as_one = sorted({row.dims: row.as_one for row in prefixes}.items())
        curves.append(Curve(f"{name}, cosine", as_one, color, ":", "x"))
        for size, marker, line in zip(sizes, cycle(MARKERS), cycle(LINES[:3]), strict=False):
            points = [(row.dims, row.as_fragments) for row in prefixes if row.size == size]
            curves.append(Curve(f"{name}, sfs:{size}", points, color, line, marker, size=4))
    figure, _ = curves_figure(curves, "first dimensions used", shown(probe.metric))
    return save(figure, folder, "prefixes")


@taking(FragmentSettings)
def probe_fragments(settings: FragmentSettings) -> FragmentProbe:
    """Measure every single fragment of every size, the whole, and prefixes, on the task ``on``.

    Raises:
        UsageError: an unknown name, a size that does not divide (the message lists those that do), or a prefix that
            is no multiple of a size or is longer than the embedding.
        DataError: the task's files.
    """
    if not settings.sizes:
        raise UsageError("no fragment size is given")
    parse_names(settings.encoders, (evaluation.registry, settings.on))
    task, chosen = read_task(settings.on, settings.metric, PREFERRED_METRIC)
    probe = FragmentProbe(task.spec, chosen, [], [], [], [])
    guess = task.guessed(chosen)
    for encoder in map(MemoizedEncoder, encoders_of(settings)):
        for size in dict.fromkeys(settings.sizes):
            _check(task, encoder, size, settings.prefixes)
        score = partial(quality, task, metric=chosen, precision=settings.precision)
        in_full = score(encoder, similarities.registry.create("cosine"))
        order = np.random.default_rng(settings.seed).permutation(encoder.dimension).tolist()
        probe.wholes.append(_whole(encoder, "cosine", in_full, guess))
        for size in dict.fromkeys(settings.sizes):
            sliced = similarities.registry.create(f"sfs:{size}")
            probe.wholes.append(_whole(encoder, sliced.spec, score(encoder, sliced), guess))
            probe.fragments.extend(_fragments(score, encoder, size, in_full))
            probe.prefixes.extend(_prefixes(score, encoder, size, settings.prefixes))
            values = [alone.value for alone in _slices(score, encoder, size, "random slice", order)]
            probe.random.extend(RandomSlice(encoder.name, size, i, value) for i, value in enumerate(values, 1))
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


def _whole(encoder: Encoder, similarity: str, in_full: Quality, guess: Mapping[str, float] | None) -> WholeScore:
    if guess is None:
        return WholeScore(encoder.name, similarity, in_full.value)
    p = paired_t_test(guess, in_full.per_item).p
    return WholeScore(encoder.name, similarity, in_full.value, sum(guess.values()) / len(guess), p)


def _slices(
    measure: Measure, encoder: MemoizedEncoder, size: int, what: str, order: Sequence[int] | None = None
) -> Iterator[Quality]:
    """The quality of each slice of ``size`` dimensions, in their order or another."""
    cosine, count = similarities.registry.create("cosine"), encoder.dimension // size
    with progress(f"measuring {what}s of {size}", count, f"{what}s") as advance:
        for i in range(count):
            name = f"{what} {i + 1} of {count}"
            yield measure(EncoderSlice(encoder, i * size, (i + 1) * size, name, order), cosine)
            advance(1)


def _fragments(measure: Measure, encoder: MemoizedEncoder, size: int, in_full: Quality) -> Iterator[FragmentScore]:
    count = encoder.dimension // size
    for i, alone in enumerate(_slices(measure, encoder, size, "fragment")):
        p = None
        if in_full.per_item:
            p = min(1.0, count * paired_t_test(in_full.per_item, alone.per_item).p)
        yield FragmentScore(
            encoder=encoder.name,
            size=size,
            fragments=count,
            fragment=i + 1,
            first=i * size + 1,
            last=(i + 1) * size,
            value=alone.value,
            difference=alone.value - in_full.value,
            p=p,
        )


def _prefixes(measure: Measure, encoder: MemoizedEncoder, size: int, prefixes: Sequence[int]) -> list[PrefixScore]:
    cosine, sliced = (similarities.registry.create(spec) for spec in ("cosine", f"sfs:{size}"))
    results = []
    for dims in prefixes or usual_prefixes(encoder.dimension, size):
        prefix = EncoderSlice(encoder, 0, dims, f"first {dims} dimensions")
        values = [measure(prefix, similarity).value for similarity in (sliced, cosine)]
        results.append(PrefixScore(encoder.name, size, dims, *values))
    return results


def usual_prefixes(dimension: int, size: int) -> list[int]:
    """Up to eight multiples of ``size``, evenly spaced up to ``dimension``.

    >>> usual_prefixes(384, 64), usual_prefixes(768, 16)
    ([64, 128, 192, 256, 320, 384], [96, 192, 288, 384, 480, 576, 672, 768])
    """
    count = dimension // size
    return sorted({size * -(-count * i // PREFIXES) for i in range(1, PREFIXES + 1)})
