"""Where in an embedding does one attribute of a text show? Pairs of texts that differ in it (SFS, 6.1.2, Figure 3).

Per dimension, the standard deviation over pairs of the difference of the two embeddings, grouped by fragment: a few
outlying dimensions carry the attribute. Per fragment, the mean cosine between the two texts, and the shift: an SD
does not separate a dimension that moves to and fro from one that moves one way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from retrokit import similarities
from retrokit.core.errors import DataError, UsageError
from retrokit.core.files import named
from retrokit.core.notices import notice
from retrokit.core.settings import taking
from retrokit.core.sheet import Column, Sheet, grouped, record_sheet
from retrokit.data.labelled import short_name
from retrokit.data.tables import read_rows
from retrokit.extensions.representations.entries import contrasts
from retrokit.extensions.representations.settings import ContrastSettings
from retrokit.probing.base import Findings, encoders_of, parse_names
from retrokit.ranking.retrieval.embeddings import DistinctTexts

ALL_FRAGMENTS = 12  # of an encoder in a table: those whose texts are furthest apart
BOXES = 64  # fragments in a picture
OUTLIER = 1.5  # quartile distances above the upper quartile from which a dimension stands out (Tukey's box plot)


@dataclass(frozen=True)
class ContrastPairs:
    """Texts two by two: row i of ``first`` has what the field ``a`` says, row i of ``second`` what ``b`` says."""

    name: str
    a: str
    b: str
    first: list[str]
    second: list[str]


def read_pairs(path: str, a: str, b: str) -> ContrastPairs:
    """Read the two fields of every line; two pairs or more must differ."""
    if a == b:
        raise UsageError(f"{named(path)}: a and b are the same field, {a!r}")
    lines = read_rows(path, f'pairs, one {{"{a}": …, "{b}": …}} a line')
    rows = [(row.text(a), row.text(b)) for _, row in lines]
    differing = [(first, second) for first, second in rows if first != second]
    if len(differing) < 2:
        raise DataError(path, f"{len(differing)} pairs whose texts differ; expected two or more")
    same = len(rows) - len(differing)
    notice(
        f"{short_name(path)}: {len(differing):,} pairs of {a} and {b}"
        + (f"; {same:,} pairs of one and the same text, left out" if same else "")
    )
    return ContrastPairs(short_name(path), a, b, *(list(side) for side in zip(*differing, strict=True)))


@dataclass(frozen=True)
class FragmentContrast:
    """How one fragment (from 1; dimensions ``first`` to ``last``, from 1) responds to the attribute.

    Attributes:
        mean_cosine: of the two texts' fragments, over pairs; a zero fragment has cosine 0.
        deviation, largest_deviation: median and maximum, over dimensions, of the SD of the difference.
        outliers: dimensions that are outliers by Tukey's rule over all dimensions of the embedding.
        shift: norm of the mean difference over the root mean square norm of the differences: 1 if all pairs move alike,
            about 1/√pairs by chance.
    """

    encoder: Annotated[str, Column("encoder")]
    fragment: Annotated[int, Column("fragment")]
    first: Annotated[int, Column("dimensions", lambda row: f"{row.first}-{row.last}")]
    last: int
    mean_cosine: Annotated[float, Column("mean cosine", ".4f")]
    deviation: Annotated[float, Column("median SD", ".4f")]
    largest_deviation: Annotated[float, Column("largest", ".4f")]
    outliers: Annotated[int, Column("outliers")]
    shift: Annotated[float, Column("shift", ".3f")]


@dataclass(frozen=True)
class DimensionContrast:
    """The difference ``a − b`` in one dimension (from 1), over pairs: its mean and its population deviation."""

    encoder: str
    dimension: int
    fragment: int
    mean: float
    deviation: float


@dataclass(frozen=True)
class ContrastProbe(Findings):
    """What ``probe contrast`` measured over ``pairs`` pairs."""

    pictures: ClassVar = {"contrast": "Deviations and cosines by fragment"}

    data: str
    a: str
    b: str
    pairs: int
    size: int
    fragments: list[FragmentContrast]
    dimensions: list[DimensionContrast]

    @property
    def conclusion(self) -> str:
        sentences = []
        for encoder, fragments in grouped(self.fragments, "encoder").items():
            apart = min(fragments, key=lambda row: row.mean_cosine)
            shifted = max(fragments, key=lambda row: row.shift)
            sentences.append(
                f"{encoder}: {self.a} and {self.b} are furthest apart in fragment {apart.fragment} of "
                f"{len(fragments)} (mean cosine {apart.mean_cosine:.3f}) and move most alike in fragment "
                f"{shifted.fragment} (shift {shifted.shift:.2f}, chance {self.pairs**-0.5:.2f})"
            )
        return "; ".join(sentences) + "."

    def sheets(self) -> list[Sheet]:
        rows: list[FragmentContrast] = []
        for fragments in grouped(self.fragments, "encoder").values():
            furthest = sorted(fragments, key=lambda row: row.mean_cosine)[:ALL_FRAGMENTS]
            rows += sorted(furthest, key=lambda row: row.fragment)
        note = (
            f"{self.pairs:,} pairs; SD: of the difference over pairs, by dimension; outliers: by Tukey's rule; "
            f"shift: 1 where all pairs move alike; up to {ALL_FRAGMENTS} fragments an encoder, all in CSV and JSON"
        )
        return [record_sheet(f"{self.a} against {self.b}: {self.data}", rows, note)]

    def plot(self, folder: str | Path) -> list[Path]:
        """SFS, Figure 3: deviations by fragment as box plots, and the mean cosine of each fragment."""
        from retrokit.core.figures import BLUE, RED, WIDTH, fitting, plt, save, shown

        written = []
        encoders = grouped(self.fragments, "encoder")
        for number, (encoder, rows) in enumerate(encoders.items(), start=1):
            figure, (upper, lower) = plt.subplots(2, 1, figsize=(WIDTH, 5.6), layout="constrained", sharex=True)
            fragments = fitting(rows, BOXES, "fragments", "contrast")
            numbers = [row.fragment for row in fragments]
            deviations = np.array([row.deviation for row in self.dimensions if row.encoder == encoder])
            upper.boxplot(
                [deviations[row.first - 1 : row.last] for row in fragments],
                positions=numbers,
                widths=0.6,
                flierprops={"marker": ".", "markersize": 5, "markerfacecolor": RED, "markeredgecolor": RED},
                medianprops={"color": BLUE, "linewidth": 1.5},
            )
            upper.set_ylabel(f"SD of {shown(self.a, 20)}\n− {shown(self.b, 20)}, by dimension", fontsize=9)
            upper.set_title(f"{shown(encoder)}: {self.pairs:,} pairs\nof {shown(self.data)}", fontsize=9, loc="left")
            lower.plot(numbers, [row.mean_cosine for row in fragments], "o", color=BLUE)
            lower.set_ylabel("mean cosine of the two texts", fontsize=9)
            lower.set_xlabel(f"fragment of {self.size} dimensions")
            ticks = numbers[:: max(1, len(numbers) // 24)]
            lower.set_xticks(ticks, list(map(str, ticks)))
            for axes in (upper, lower):
                axes.grid(alpha=0.3, axis="y")
            written += save(figure, folder, "contrast" if len(encoders) == 1 else f"contrast-{number}")
        return written


@taking(ContrastSettings)
def probe_contrast(settings: ContrastSettings) -> ContrastProbe:
    """Measure how each fragment of ``size`` dimensions responds to what the pairs of ``on`` differ in.

    Raises:
        UsageError: an unknown name, or a size that does not divide an encoder's dimensions.
        DataError: the file.
    """
    parse_names(settings.encoders, (contrasts, settings.on))
    data: ContrastPairs = contrasts.create(settings.on)
    probe = ContrastProbe(data.name, data.a, data.b, len(data.first), settings.size, [], [])
    for encoder in encoders_of(settings):
        encoder.use_with(similarities.registry.create(f"sfs:{settings.size}"))
        texts = DistinctTexts()
        first, second = texts.add(data.first), texts.add(data.second)
        embeddings = encoder.embed(texts.texts, "document", settings.precision)
        dimensions = dimension_contrasts(encoder.name, embeddings[first], embeddings[second], settings.size)
        probe.dimensions.extend(dimensions)
        probe.fragments.extend(
            fragment_contrasts(encoder.name, embeddings[first], embeddings[second], settings.size, dimensions)
        )
    return probe


def dimension_contrasts(encoder: str, first: np.ndarray, second: np.ndarray, size: int) -> list[DimensionContrast]:
    """Mean and deviation, over pairs, of each dimension of ``first − second``, both ``[n, d]``."""
    difference = first.astype(np.float64) - second.astype(np.float64)
    measured = zip(difference.mean(axis=0).tolist(), difference.std(axis=0).tolist(), strict=True)
    return [
        DimensionContrast(encoder, i + 1, i // size + 1, mean, deviation)
        for i, (mean, deviation) in enumerate(measured)
    ]


def fragment_contrasts(
    encoder: str, first: np.ndarray, second: np.ndarray, size: int, dimensions: Sequence[DimensionContrast]
) -> list[FragmentContrast]:
    """The fragments of ``size`` of pairs ``[n, d]``, given what each dimension does."""
    deviations = np.array([row.deviation for row in dimensions])
    lower, upper = np.quantile(deviations, [0.25, 0.75])
    limit = upper + OUTLIER * (upper - lower)
    results = []
    for start in range(0, first.shape[1], size):
        a, b = (side[:, start : start + size].astype(np.float64) for side in (first, second))
        norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
        cosines = np.divide((a * b).sum(axis=1), norms, np.zeros(len(a)), where=norms > 0)
        spread = deviations[start : start + size]
        results.append(
            FragmentContrast(
                encoder=encoder,
                fragment=start // size + 1,
                first=start + 1,
                last=start + size,
                mean_cosine=float(cosines.mean()),
                deviation=float(np.median(spread)),
                largest_deviation=float(spread.max()),
                outliers=int((spread > limit).sum()),
                shift=shift(a - b),
            )
        )
    return results


def shift(difference: np.ndarray) -> float:
    """Norm of the mean of ``[n, d]`` over the root mean square norm of its rows; 0 where all rows are 0.

    >>> shift(np.array([[1.0, 1.0], [1.0, 1.0]])), round(shift(np.array([[1.0, 0.0], [0.0, 1.0]])), 4)
    (1.0, 0.7071)
    """
    spread = np.sqrt((difference**2).sum(axis=1).mean())
    return float(np.linalg.norm(difference.mean(axis=0)) / spread) if spread > 0 else 0.0
