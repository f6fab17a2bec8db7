"""Settings of the probes: for Python, and as the options of ``retrokit probe``, whose help is a class's docstring."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from retrokit.core.settings import PRECISIONS, Settings, common, setting
from retrokit.metrics.names import metric_names

PAIRS = 1000  # of Fisher information
UNDECIDED = "learn"
"""What to train with where two similarities lie within the sampling error: MAG's safe default (5.1)."""
DEPTH = 100  # irrelevant documents are looked for so far down
SEED = "Random seed of samples and bootstrap."
METRIC = "Metric. Default: the task's main one."
FRAGMENT = "Dimensions of a fragment."


@dataclass(frozen=True)
class ProbeSettings(Settings):
    """Of which encoders, and how they encode.

    Attributes:
        needs_folder: whether there is nothing to see without pictures.
        on_retrieval: whether it takes any task of retrieval.
    """

    needs_folder: ClassVar[bool] = False
    on_retrieval: ClassVar[bool] = False

    encoders: Sequence[str] = setting(help="Encoders to probe.", argument=True, names="encoders")
    _: KW_ONLY
    precision: str = common("precision")
    device: str | None = common("device")


@dataclass(frozen=True)
class MagnitudeSettings(ProbeSettings):
    """Compare the norms of relevant and irrelevant documents by Cohen's d; qnorm can use a difference (MAG 4.3).

    retrokit probe magnitude minilm runs/qnorm --on beir:data/scifact --plot pictures
    """

    on_retrieval = True
    first = (*("on", "irrelevant", "without_labels", "proxies", "checkpoints", "plot"), *("device", "seed", "as_json"))

    on: Sequence[str] = common("on", help="Task, e.g. beir:data/scifact or beir:PATH,split=dev. Repeatable.")
    _: KW_ONLY
    irrelevant: str = setting(
        "top", f"Irrelevant documents: others of a query's top {DEPTH} by angle, or all.", choices=("top", "all")
    )
    seed: int = common("seed", help=SEED)
    without_labels: bool = setting(False, "Ignore judgements: a query's best by angle count as relevant.")
    proxies: int | None = setting(
        None,
        "Documents that count as relevant without labels. Default: 10.",
        minimum=1,
        maximum=DEPTH - 1,
        needs=("without_labels",),
    )
    reference_encoder: str | None = setting(
        None,
        "Encoder that gains are over, each as trained. Default: qnorm over cosine.",
        names="encoders",
        excludes=("without_labels",),
    )
    cv_reference: str | None = setting(
        None, "Encoder whose CV of query norms is the divisor; for MAG's ΔCV: dot.", names="encoders"
    )
    checkpoints: bool = setting(
        False,
        "Probe the start, checkpoints and end of one model folder.",
        excludes=("reference_encoder", "cv_reference"),
    )

    @property
    def stand_ins(self) -> int | None:
        """How many of a query's best documents count as relevant; ``None``: those judged so."""
        return (self.proxies or 10) if self.without_labels else None

    def problems(self) -> Iterator[str]:
        """As the base class, and options that contradict each other."""
        yield from super().problems()
        if self.checkpoints and len(self.encoders) > 1:
            yield "`checkpoints=` takes one model folder"


@dataclass(frozen=True)
class FisherSettings(ProbeSettings):
    """Compute Fisher information by similarity, and predict whether qnorm or dnorm trains better (MAG 4.1, 4.5).

    retrokit probe fisher minilm --on beir:data/scifact,split=train
    """

    on_retrieval = True

    on: Sequence[str] = common("on", default=(), help="Task with queries and relevant documents. Repeatable.")
    data: Sequence[str] = setting((), "Training data with pairs, as in finetune. Repeatable.", names="data")
    pairs: int = setting(PAIRS, "Maximum of pairs, a random sample.", minimum=10)
    _: KW_ONLY
    seed: int = common("seed", help=SEED)
    precision: str = setting("fp32", "Precision; rounding distorts small eigenvalues.", choices=PRECISIONS)


@dataclass(frozen=True)
class FragmentSettings(ProbeSettings):
    """Score each fragment of an embedding, its prefixes and random slices (SFS 6).

    retrokit probe fragments minilm runs/sfs16 --on classify:labelled.jsonl --size 64 --size 16 --plot pictures
    """

    on: str = setting(
        help="Task, e.g. classify:FILE or beir:PATH; knn:FILE only with metric=similarity.", names="tasks"
    )
    sizes: Sequence[int] = setting(help=f"{FRAGMENT} Repeatable.", flags=("--size",))
    prefixes: Sequence[int] = setting((), "First dimensions. Repeatable. Default: up to eight.", flags=("--prefix",))
    metric: str | None = setting(
        None, "Metric. Default: knn_accuracy, or the task's main one.", canonical=metric_names, names="metrics"
    )
    _: KW_ONLY
    seed: int = common("seed", help="Random seed of the random slices.")


@dataclass(frozen=True)
class NearMissProbeSettings(ProbeSettings):
    """Test whether the score falls if the meaning changes and the words hardly do (COMP Figure 1).

    retrokit probe near-miss minilm runs/a --on pairs:near-misses.jsonl --paraphrases paraphrases.jsonl
    """

    on: str = common("on", help="pairs:FILE of near-misses, e.g. from augment near-misses.")
    sim: str = setting("cosine", "Similarity.", names="similarities")
    paraphrases: str | None = setting(
        None, "Pairs that mean the same, as training data. Default: the file's positives.", names="data"
    )
    max_paraphrases: int = setting(10_000, "Maximum of paraphrase pairs, a random sample.", minimum=2)
