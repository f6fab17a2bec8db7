"""What each probe is asked for: for Python, and as the options of ``retrokit probe``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import PRECISION, PRECISIONS, Settings, setting

IRRELEVANT = ("top", "all")
PAIRS = 1000  # of Fisher information
DEPTH = 100  # irrelevant documents are looked for so far down
SEED = "Seed of what is drawn at random: samples, bootstrap."
METRIC = "Metric to measure by; default: the task's main one."
FRAGMENT = "Dimensions of a fragment."


@dataclass(frozen=True)
class ProbeSettings(Settings):
    """Of which encoders, and how they encode."""

    encoders: Sequence[str] = setting(help="Encoders to look into.", argument=True)
    _: KW_ONLY
    precision: str = setting("auto", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)


@dataclass(frozen=True)
class MagnitudeOptions(Settings):
    """How documents are told apart whose lengths are compared.

    Attributes:
        irrelevant: ``top``: of a query's best 100 documents by angle those that are not judged relevant; ``all``: of
            all documents.
        proxies: without labels, how many of a query's best documents by angle stand in for relevant ones; ``None``:
            use labels.
    """

    irrelevant: str = setting(
        "top",
        "Documents not judged relevant: of a query's top 100 by angle (top), or all there are (all).",
        choices=IRRELEVANT,
    )
    proxies: int | None = setting(None, least=1, most=DEPTH - 1)
    precision: str = setting("auto", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)
    seed: int = setting(0, SEED, least=0)


@dataclass(frozen=True)
class FisherSettings(ProbeSettings):
    """Of which pairs, drawn from all data together."""

    on: Sequence[str] = setting((), "Task whose queries and relevant documents to use. Repeatable.")
    data: Sequence[str] = setting((), "Training data whose pairs to use, as finetune takes it. Repeatable.")
    pairs: int = setting(PAIRS, "Pairs to draw; all where there are fewer.", least=10)
    _: KW_ONLY
    seed: int = setting(0, SEED, least=0)
    precision: str = setting("fp32", "Rounding shows in the smallest eigenvalues.", choices=PRECISIONS)


@dataclass(frozen=True)
class FragmentSettings(ProbeSettings):
    """Fragments of which sizes, measured how."""

    on: str = setting(help="Task, e.g. classify:FILE or beir:PATH; knn:FILE only with metric=similarity.")
    sizes: Sequence[int] = setting(help=f"{FRAGMENT} Repeatable.", flags=("--size",))
    prefixes: Sequence[int] = setting(
        (),
        "First dimensions to measure alone. Repeatable. Default: up to eight, evenly spaced.",
        flags=("--prefix",),
    )
    metric: str | None = setting(
        None, "Metric to measure by; default: knn_accuracy where there is one, else the task's main one."
    )
    _: KW_ONLY
    seed: int = setting(0, "Seed of the random slices that stand beside the fragments.", least=0)


@dataclass(frozen=True)
class ContrastSettings(ProbeSettings):
    """Pairs of which file, and fragments of which size."""

    on: str = setting(help="pairs:FILE,a=FIELD,b=FIELD, e.g. pairs:paradetox.jsonl,a=toxic,b=neutral.")
    size: int = setting(help=FRAGMENT)


@dataclass(frozen=True)
class NearMissProbeSettings(ProbeSettings):
    """Which near-misses, beside which pairs, scored how; COMP's figure is of cosine.

    Attributes:
        reference: pairs whose anchors and positives take the place of the file's own as ``positives``, and anchors with
            other pairs' positives that of the ``random pairs``.
    """

    on: str = setting(help="pairs:FILE of near-misses: from augment negatives, or text, near_miss, family.")
    sim: str = setting("cosine", "Similarity that scores.")
    reference: str | None = setting(
        None, "Pairs that do mean the same, e.g. beir:PATH,split=train. Default: the file's own positives."
    )
    reference_pairs: int = setting(10_000, "At most so many of them, at random.", least=2)


@dataclass(frozen=True)
class LayerSettings(ProbeSettings):
    """By which task. A neighbour task with a distance of its own keeps it, whatever ``sim``."""

    on: str = setting(help="Task, e.g. knn:FILE or beir:PATH.")
    metric: str | None = setting(None, METRIC)
    sim: str | None = setting(None, "Similarity to score with; default: the encoder's own.")
    start: str | None = setting(
        None, "Encoder that training started from, to compare weights with. Default: what a run says."
    )


@dataclass(frozen=True)
class GeometrySettings(ProbeSettings):
    """Of which texts."""

    on: str = setting(help="Texts: beir:PATH, or JSON lines with a field text.")
    size: int | None = setting(None, f"{FRAGMENT[:-1]}; default: the whole alone.")
    neighbours: int = setting(10, "Neighbours that count for hubness.", least=1)


@dataclass(frozen=True)
class MapSettings(ProbeSettings):
    """Of which texts, laid out from which seed."""

    on: str = setting(help="knn:FILE, labelled texts; knn:FILE,sample=5000 draws some.")
    seed: int = setting(42, "Seed of the layout.", least=0)
