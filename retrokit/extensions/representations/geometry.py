"""How do embeddings lie in their space? Anisotropy, effective rank, hubness; whole and per fragment (SFS, 5.4 and 7).

All three are taken of the embeddings at unit length, as cosine sees them; of a fragment at its own unit length, as
``sfs`` does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from retrokit import similarities
from retrokit.core.errors import DataError
from retrokit.core.notices import notice, progress
from retrokit.core.settings import taking
from retrokit.core.sheet import Column, Sheet, columns_of, grouped
from retrokit.data.beir import corpus_file, is_beir
from retrokit.data.corpus import read_corpus
from retrokit.data.labelled import short_name
from retrokit.data.records import plain
from retrokit.data.tables import read_rows
from retrokit.extensions.representations.entries import corpora
from retrokit.extensions.representations.settings import GeometrySettings
from retrokit.probing import SEED
from retrokit.probing.base import Findings, encoders_of, parse_names
from retrokit.ranking.retrieval.exact import top_k

_ROWS = 2048  # that are widened to float64 at a time


def texts_of_jsonl(path: str, sample: int) -> tuple[str, list[str]]:
    """The ``text`` of every line, after its ``title`` where it has one."""
    rows = read_rows(path, 'texts, one {"text": …} a line')
    texts = [(row.text("title", "") + " " + row.content).strip() for _, row in rows]
    return _sampled(short_name(path), texts, sample)


def texts_of_beir(path: str, sample: int) -> tuple[str, list[str]]:
    """The documents of a BEIR folder."""
    if not is_beir(path):
        raise DataError(path, "is no BEIR folder: it contains no corpus.jsonl")
    return _sampled(short_name(path), [document.full_text for document in read_corpus(corpus_file(path))], sample)


def _sampled(name: str, texts: list[str], sample: int) -> tuple[str, list[str]]:
    unique = [text for text in dict.fromkeys(texts) if text]
    left_out = len(texts) - len(unique)
    rows = np.random.default_rng(SEED).permutation(len(unique))[:sample]
    line = f"{name}: {len(rows):,} of {len(unique):,} different texts"
    notice(line + (f"; {left_out:,} empty or repeated ones left out" if left_out else ""))
    return name, [unique[i] for i in sorted(rows.tolist())]


@dataclass(frozen=True)
class Geometry:
    """How the texts lie in one part of an embedding: a fragment (from 1), or all of it (fragment 0).

    Attributes:
        anisotropy: mean cosine of two different texts; 0: all directions, 1: one direction.
        effective_rank: ``exp(H(p))``, p being the singular values around the mean over their sum (Roy and Vetterli,
            "The effective rank", 2007); at most ``dimensions``.
        hubness: skewness of how often a text is among the nearest of the others (Radovanović et al., "Hubs in space",
            2010); above 1, a few texts are near to everything.
        largest_hub: share of the other texts that have the same one among their nearest.
    """

    encoder: Annotated[str, Column("encoder")]
    fragment: Annotated[int, Column("part", lambda row: str(row.fragment or "whole"))]
    dimensions: Annotated[int, Column("dimensions")]
    anisotropy: Annotated[float, Column("anisotropy", ".4f")]
    effective_rank: Annotated[float, Column("effective rank", ".1f")]
    hubness: Annotated[float, Column("hubness", ".2f")]
    largest_hub: Annotated[float, Column("largest hub", ".1%")]


@dataclass(frozen=True)
class GeometryProbe(Findings):
    """What ``probe geometry`` measured over ``texts`` texts."""

    pictures: ClassVar = {"geometry": "Anisotropy, effective rank and hubness"}

    data: str
    texts: int
    neighbours: int
    parts: list[Geometry]

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        return {"geometry": plain(self.parts)}

    @property
    def conclusion(self) -> str:
        sentences = []
        for encoder, (whole, *fragments) in grouped(self.parts, "encoder").items():
            sentence = f"{encoder}: mean cosine {whole.anisotropy:.3f}, effective rank {whole.effective_rank:.0f} of "
            sentence += f"{whole.dimensions}, largest hub near {whole.largest_hub:.1%} of texts"
            if fragments:
                mean = np.mean([fragment.anisotropy for fragment in fragments])
                sentence += f"; mean cosine within fragments {mean:.3f}"
            sentences.append(sentence)
        return "; ".join(sentences) + "."

    def sheets(self) -> list[Sheet]:
        columns = columns_of(Geometry)
        rows = []
        for encoder, (whole, *fragments) in grouped(self.parts, "encoder").items():
            rows.append([column.cell(whole, field) for field, column in columns])
            if not fragments:
                continue
            cells = [encoder, f"{len(fragments)} fragments, lowest to highest", str(fragments[0].dimensions)]
            for field, column in columns[len(cells) :]:
                ordered = sorted(fragments, key=attrgetter(field))
                cells.append(f"{column.cell(ordered[0], field)} to {column.cell(ordered[-1], field)}")
            rows.append(cells)
        note = (
            "anisotropy: mean cosine of two texts; effective rank: of at most the dimensions; hubness: skewness of how "
            f"often a text is among the {self.neighbours} nearest; largest hub: share of texts that have it there"
        )
        headings = [column.heading for _, column in columns]
        return [Sheet(f"geometry of {self.texts:,} texts: {self.data}", headings, 2, rows, note)]

    def plot(self, folder: str | Path) -> list[Path]:
        """Each measure by fragment, with the whole as a line."""
        from retrokit.core.figures import CURVES, MARKERS, color_of, fitting, legend_above, panels, save, shown

        encoders = fitting(list(grouped(self.parts, "encoder").items()), CURVES, "encoders", "geometry")
        figure, every_axes = panels(len(_MEASURES), 2.2)
        for axes, (name, label) in zip(every_axes, _MEASURES, strict=True):
            for index, (encoder, (whole, *fragments)) in enumerate(encoders):
                color = color_of(index)
                axes.axhline(_measure(whole, name), color=color, linestyle="--", linewidth=1)
                numbers = [fragment.fragment for fragment in fragments]
                values = [_measure(fragment, name) for fragment in fragments]
                axes.plot(numbers, values, MARKERS[index % 3], color=color, markersize=5, label=shown(encoder))
            axes.set_ylabel(label, fontsize=8)
            axes.grid(alpha=0.3, axis="y")
        every_axes[-1].set_xlabel("fragment (dashed: the whole)")
        legend_above(figure, every_axes[0])
        return save(figure, folder, "geometry")


_MEASURES = (
    ("anisotropy", "mean cosine of two texts"),
    ("effective_rank", "effective rank / dimensions"),
    ("hubness", "hubness (skewness)"),
)


def _measure(geometry: Geometry, name: str) -> float:
    value = float(getattr(geometry, name))
    return value / geometry.dimensions if name == "effective_rank" else value


@taking(GeometrySettings)
def probe_geometry(settings: GeometrySettings) -> GeometryProbe:
    """Measure how the texts of ``on`` lie in the embedding space of every encoder, and within each fragment.

    Raises:
        UsageError: an unknown name, or a size that does not divide an encoder's dimensions.
        DataError: the file, or no more texts than neighbours.
    """
    (source,) = parse_names(settings.encoders, (corpora, settings.on))
    name, texts = corpora.create(settings.on)
    if len(texts) <= settings.neighbours:
        problem = f"{len(texts)} different texts, but {settings.neighbours} neighbours of each; expected more"
        raise DataError(str(source.params["path"]), problem)
    probe = GeometryProbe(name, len(texts), settings.neighbours, [])
    for encoder in encoders_of(settings):
        if settings.size is not None:
            encoder.use_with(similarities.registry.create(f"sfs:{settings.size}"))
        embeddings = encoder.embed(texts, "document", settings.precision)
        bounds = [(0, encoder.dimension)]
        if settings.size:
            bounds += [(start, start + settings.size) for start in range(0, encoder.dimension, settings.size)]
        with progress("measuring geometry", len(bounds), "parts") as advance:
            for fragment, (start, stop) in enumerate(bounds):
                measured = geometry(embeddings[:, start:stop], settings.neighbours, encoder.device)
                probe.parts.append(Geometry(encoder.name, fragment, stop - start, **measured))
                advance(1)
    return probe


def geometry(embeddings: np.ndarray, neighbours: int, device: torch.device | str = "cpu") -> dict[str, float]:
    """Anisotropy, effective rank, hubness and the largest hub of raw embeddings ``[n, d]``."""
    from scipy.stats import skew

    counts = k_occurrences(embeddings, neighbours, device)
    return {
        "anisotropy": anisotropy(embeddings),
        "effective_rank": effective_rank(embeddings),
        "hubness": float(skew(counts)) if np.ptp(counts) else 0.0,
        "largest_hub": float(counts.max() / (len(counts) - 1)),
    }


def unit_blocks(embeddings: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of ``[n, d]`` in float64, of length 1, some at a time; zero rows stay."""
    for start in range(0, len(embeddings), _ROWS):
        rows = embeddings[start : start + _ROWS].astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        yield np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def anisotropy(embeddings: np.ndarray) -> float:
    """Mean cosine over all couples of different rows of ``[n, d]``: what that of random couples estimates.

    >>> anisotropy(np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]))  # (0 + 1 + 0) / 3
    0.3333333333333333
    """
    count = len(embeddings)
    total, squares = np.zeros(embeddings.shape[1]), 0.0
    for rows in unit_blocks(embeddings):
        total += rows.sum(axis=0)
        squares += float((rows**2).sum())
    # ‖Σx‖² counts every couple twice, and every row with itself
    return float((total @ total - squares) / (count * (count - 1)))


def effective_rank(embeddings: np.ndarray) -> float:
    """``exp`` of the entropy of the singular values, over their sum, of ``[n, d]`` at unit length around its mean; 1
    where all rows are one point.

    >>> round(effective_rank(np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])), 4)
    2.0
    """
    mean = sum(rows.sum(axis=0) for rows in unit_blocks(embeddings)) / len(embeddings)
    triangle = np.empty((0, embeddings.shape[1]))
    for rows in unit_blocks(embeddings):  # R of QR has the singular values of all rows so far
        triangle = np.asarray(np.linalg.qr(np.vstack([triangle, rows - mean]), mode="r"))
    values = np.linalg.svd(triangle, compute_uv=False)
    if values.sum() <= 1e-12:
        return 1.0
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def k_occurrences(embeddings: np.ndarray, neighbours: int, device: torch.device | str = "cpu") -> np.ndarray:
    """How often each row of ``[n, d]`` is among the nearest of the others by cosine: int64 ``[n]``.

    >>> k_occurrences(np.array([[1.0, 0.0], [1.0, 0.1], [1.0, 0.3]]), 1).tolist()
    [1, 2, 0]
    """
    _, nearest = top_k(similarities.registry.create("cosine"), embeddings, embeddings, neighbours + 1, device)
    is_itself = nearest == np.arange(len(nearest))[:, None]
    is_itself[~is_itself.any(axis=1), -1] = True  # a row's exact copies may take all ranks, also the row's
    return np.bincount(nearest[~is_itself], minlength=len(nearest))
