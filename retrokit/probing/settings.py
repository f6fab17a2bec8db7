"""Settings of the probes: for Python, and as the options of ``retrokit probe``, whose help is a class's docstring."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from retrokit.core.settings import PRECISION, PRECISIONS, Settings, setting

IRRELEVANT = ("top", "all")
PAIRS = 1000  # of Fisher information
DEPTH = 100  # irrelevant documents are looked for so far down
SEED = "Seed of what is drawn at random: samples, bootstrap."
METRIC = "Metric to measure by; default: the task's main one."
FRAGMENT = "Dimensions of a fragment."
_IRRELEVANT = "Documents not judged relevant: of a query's top 100 by angle (top), or all there are (all)."


@dataclass(frozen=True)
class ProbeSettings(Settings):
    """Of which encoders, and how they encode.

    Attributes:
        names: the kinds of registered names that its help lists.
        needs_folder: whether there is nothing to see without pictures.
    """

    names: ClassVar[tuple[str, ...]] = ("encoders", "tasks")
    needs_folder: ClassVar[bool] = False

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

    irrelevant: str = setting("top", _IRRELEVANT, choices=IRRELEVANT)
    proxies: int | None = setting(None, minimum=1, maximum=DEPTH - 1)
    precision: str = setting("auto", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)
    seed: int = setting(0, SEED, minimum=0)


@dataclass(frozen=True)
class MagnitudeSettings(ProbeSettings):
    """Lengths of embeddings: do relevant documents have longer ones, and can qnorm use that? (MAG 4.3)

    retrokit probe magnitude minilm runs/qnorm --on beir:data/scifact --plot pictures
    """

    first = (
        *("on", "irrelevant", "without_labels", "proxies", "checkpoints", "plot"),
        *("device", "seed", "as_json"),
    )

    on: Sequence[str] = setting(help="Task, e.g. beir:data/scifact or beir:PATH,split=dev. Repeatable.")
    _: KW_ONLY
    irrelevant: str = setting("top", _IRRELEVANT, choices=IRRELEVANT)
    seed: int = setting(0, SEED, minimum=0)
    without_labels: bool = setting(False, "Use no judgements: a query's best by angle count as relevant.")
    proxies: int | None = setting(
        None, "Without labels: how many of the best. Default: 10.", minimum=1, maximum=DEPTH - 1
    )
    baseline: str | None = setting(
        None, "Encoder over which gains are: both as trained. Default: qnorm over cosine, same embeddings."
    )
    cv_baseline: str | None = setting(
        None, "Encoder over whose spread (CV) of query lengths each one's is; for MAG's ΔCV a dot run."
    )
    checkpoints: bool = setting(False, "The encoder is a run: probe its start, checkpoints and end.")

    def problems(self) -> Iterator[str]:
        """As the base class, and options that contradict each other."""
        yield from super().problems()
        if self.proxies is not None and not self.without_labels:
            yield "`proxies=` is for `without_labels=`: give both"
        if self.checkpoints and (len(self.encoders) > 1 or self.baseline is not None or self.cv_baseline is not None):
            yield "`checkpoints=` is about one run: give one encoder, no `baseline=` and no `cv_baseline=`"


@dataclass(frozen=True)
class FisherSettings(ProbeSettings):
    """What training can move, by similarity, and whether qnorm or dnorm will train better (MAG 4.1, 4.5).

    retrokit probe fisher minilm --on beir:data/scifact,split=train
    """

    names = ("encoders", "tasks", "data")

    on: Sequence[str] = setting((), "Task whose queries and relevant documents to use. Repeatable.")
    data: Sequence[str] = setting((), "Training data whose pairs to use, as finetune takes it. Repeatable.")
    pairs: int = setting(PAIRS, "Pairs to draw; all where there are fewer.", minimum=10)
    _: KW_ONLY
    seed: int = setting(0, SEED, minimum=0)
    precision: str = setting("fp32", "Rounding shows in the smallest eigenvalues.", choices=PRECISIONS)


@dataclass(frozen=True)
class FragmentSettings(ProbeSettings):
    """What each fragment holds by itself, and how few are enough (SFS 6).

    retrokit probe fragments minilm runs/sfs16 --on classify:labelled.jsonl --size 64 --size 16 --plot pictures
    """

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
    seed: int = setting(0, "Seed of the random slices that stand beside the fragments.", minimum=0)


@dataclass(frozen=True)
class ContrastSettings(ProbeSettings):
    """Which fragments and dimensions respond to what the texts of a pair differ in (SFS Figure 3).

    retrokit probe contrast minilm --on pairs:paradetox.jsonl,a=toxic,b=neutral --size 32
    """

    names = ("encoders", "contrasts")

    on: str = setting(help="pairs:FILE,a=FIELD,b=FIELD, e.g. pairs:paradetox.jsonl,a=toxic,b=neutral.")
    size: int = setting(help=FRAGMENT)


@dataclass(frozen=True)
class NearMissProbeSettings(ProbeSettings):
    """Does the score fall when the meaning changes and the words hardly do? (COMP Figure 1)

    retrokit probe near-miss minilm runs/a --on pairs:near-misses.jsonl --reference beir:data/scifact,split=train
    """

    # the reference's anchors and positives take the place of the file's own as positives, and anchors with other pairs'
    # positives that of the random pairs

    names = ("encoders", "similarities", "data")

    on: str = setting(help="pairs:FILE of near-misses: from augment near-misses, or text, near_miss, family.")
    sim: str = setting("cosine", "Similarity that scores.")
    reference: str | None = setting(
        None, "Pairs that do mean the same, e.g. beir:PATH,split=train. Default: the file's own positives."
    )
    reference_pairs: int = setting(10_000, "At most so many of them, at random.", minimum=2)


@dataclass(frozen=True)
class LayerSettings(ProbeSettings):
    """How good is an encoder after each layer, and how far did training move it? (CROP 4)

    retrokit probe layers minilm runs/crops --on knn:labelled.jsonl --plot pictures
    """

    names = ("encoders", "similarities", "tasks")

    on: str = setting(help="Task, e.g. knn:FILE or beir:PATH.")
    metric: str | None = setting(None, METRIC)
    sim: str | None = setting(None, "Similarity to score with; default: the encoder's own.")
    start: str | None = setting(
        None, "Encoder that training started from, to compare weights with. Default: what a run says."
    )


@dataclass(frozen=True)
class GeometrySettings(ProbeSettings):
    """How embeddings lie in their space: anisotropy, effective rank, hubness (SFS 5.4).

    retrokit probe geometry minilm runs/sfs16 --on beir:data/scifact --size 16
    """

    names = ("encoders", "corpora")

    on: str = setting(help="Texts: beir:PATH, or JSON lines with a field text.")
    size: int | None = setting(None, f"{FRAGMENT[:-1]}; default: the whole alone.")
    neighbours: int = setting(10, "Neighbours that count for hubness.", minimum=1)


@dataclass(frozen=True)
class MapSettings(ProbeSettings):
    """A picture of labelled texts in two dimensions (CROP Figure 2).

    retrokit probe map minilm runs/crops --on knn:labelled.jsonl,sample=5000 --plot pictures
    """

    needs_folder = True

    on: str = setting(help="knn:FILE, labelled texts; knn:FILE,sample=5000 draws some.")
    seed: int = setting(42, "Seed of the layout.", minimum=0)
