"""Settings of the probes: for Python, and as the options of ``retrokit probe``, whose help is a class's docstring."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from retrokit.core.settings import FILE, PRECISIONS, Settings, common, listed, setting
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


@dataclass(frozen=True)
class StressSettings(ProbeSettings):
    """Find what a retriever does not understand, by edits that must lower its scores and edits that must not.

    retrokit probe stress minilm runs/mine --texts corpus.jsonl

    retrokit probe stress runs/mine --on beir:data/scifact --fail-under negation=0.3 --junit stress.xml
    """

    first = (
        *("texts", "on", "capabilities", "with_", "limit", "all_", "save_edits", "fail_under", "junit", "plot", "seed"),
        "as_json",
    )

    encoders: Sequence[str] = setting(
        (), "Encoders or searchers; the first is compared with.", argument=True, names="encoders,searchers"
    )
    texts: str | None = setting(None, "JSON lines of texts: a sentence is its own query.", reads=FILE)
    on: str | None = setting(None, "Judged queries instead of texts, e.g. beir:data/scifact.", names="tasks")
    _: KW_ONLY
    capabilities: Sequence[str] = setting(
        (), "Capabilities, comma-separated. Default: all.", read=listed, names="edits"
    )
    with_: str | None = setting(
        None,
        "Reranker of what the first fails; none: skip. Default: default.",
        flags=("--with",),
        names="rerankers,encoders",
    )
    limit: int = setting(300, "Texts or queries, a random sample.", minimum=2)
    per_capability: int = setting(100, "Texts of each capability that systems are measured on.", minimum=2)
    all_: bool = setting(False, "Measure all edits, instead of --per-capability.", flags=("--all",))
    tolerance: float = setting(
        0.1, "Share of the way to an unrelated text that a control may cost.", minimum=0, maximum=1
    )
    seed: int = common("seed", help="Random seed of the sample and the edits.")
    field: str = common("field", help="Field of the text in `texts=`.", needs=("texts",))
    translations: str | None = setting(None, "JSON lines of the same texts or queries, by id, in another language.")
    llm: str | None = setting(None, "Language model for more edits of negation, binding, spatial.", names="llms")
    store: str | None = setting(None, "Answer cache of the model. Default: none.", writes=FILE, needs=("llm",))
    max_tokens: int | None = common(
        "max_tokens", help="Budget in tokens, prompts and answers. Default: 10,000,000.", needs=("llm",)
    )
    sure: str | None = setting(None, "SURE next to the rates: FOLDER,reference=RERANKER.", needs=("encoders",))
    save_edits: str | None = setting(None, "Write the edits as JSON lines; systems may be left out.", writes=FILE)
    fail_under: Sequence[str] = setting(
        (), "Exit 1 if a pass rate is below, e.g. negation=0.3. Repeatable.", metavar="NAME=X", needs=("encoders",)
    )
    junit: str | None = setting(None, "Write gate results as JUnit XML.", writes=FILE, needs=("fail_under",))

    def problems(self) -> Iterator[str]:
        """As the base class, and options that contradict each other."""
        yield from super().problems()
        if (self.texts is None) == (self.on is None):
            yield "give `texts=` or `on=`, one of them"
        yield from self._translation_problems()
        if len(set(self.encoders)) < len(self.encoders):
            yield f"a system is named twice: {', '.join(self.encoders)}"
        if self.with_ not in (None, "none") and not self.encoders:
            yield "`with_=` reranks what a system fails: give one"
        if not self.encoders and self.save_edits is None:
            yield "give systems, or `save_edits=` to write only the edits"

    def _translation_problems(self) -> Iterator[str]:
        tests_language = "language" in self.capabilities
        if self.translations is None and tests_language:
            yield "the capability language takes `translations=`, which is not given"
        if self.translations is not None and self.capabilities and not tests_language:
            yield "`translations=` are of the capability language, which is not given"
