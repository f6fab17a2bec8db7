"""Settings of ``retrokit augment``, for Python and the command line."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from retrokit.core.settings import (
    EITHER,
    FILE,
    FOLDER,
    Settings,
    common,
    listed,
    number_or,
    numbers,
    setting,
)
from retrokit.llm.settings import Asking

SHARES = (0.8, 0.1, 0.1)
SAMPLINGS = ("top", "random")
POSITIVES = ("anchor", "paraphrase")
BUDGET = 10_000_000  # tokens of prompts and answers, unless another number is given
NONE = "none"
TYPES = ("keywords", "question", "claim", "how-to", "situation")  # of queries
_EPOCHS = "Passes over the texts, each with new pairs."
_INPUT: dict[str, Any] = {"argument": True, "metavar": "INPUT"}


@dataclass(frozen=True)
class PairSettings(Settings):
    """Pairs of which texts, and how many."""

    source: str = setting(help="JSON lines of texts; BEIR folder; -: standard input.", **_INPUT, reads=EITHER)
    output: str = common("output_lines")
    _: KW_ONLY
    per_text: int = setting(1, "Pairs per text and epoch.", minimum=1)
    epochs: int = setting(1, _EPOCHS, minimum=1)
    field: str = common("field")
    seed: int = common("seed")


@dataclass(frozen=True)
class MaskSettings(Settings):
    """Which texts are masked, and how much of them."""

    source: str = setting(help="JSON lines of pairs or texts; BEIR folder; -: standard input.", **_INPUT, reads=EITHER)
    output: str = common("output_lines")
    _: KW_ONLY
    encoder: str = setting(help="Encoder whose tokenizer is used.", names="encoders")
    fraction: float = setting(0.15, "Share of the tokens to mask.", minimum=0, maximum=1)
    epochs: int = setting(1, _EPOCHS, minimum=1)
    field: str = common("field")
    seed: int = common("seed")


@dataclass(frozen=True)
class SplitSettings(Settings):
    """Pairs to split into a BEIR folder, or labelled texts to split into two files."""

    data: Sequence[str] = setting(
        help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME; or labelled texts.", **_INPUT, names="data"
    )
    output: str | None = common("output", default=None, help="Write a BEIR folder of train, dev, test.", writes=FOLDER)
    _: KW_ONLY
    shares: tuple[float, float, float] | None = setting(
        None, "Shares of train, dev and test. Default: 0.8,0.1,0.1.", read=numbers(float, 3), minimum=0
    )
    seed: int = common("seed")
    train: str | None = setting(None, "Write nine tenths of labelled texts to this file.", writes=FILE)
    test: str | None = setting(None, "Write the other tenth to this file.", writes=FILE)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        files = (self.train, self.test)
        if (self.output is None) == (files == (None, None)) or (self.output is None and None in files):
            yield "give `output=` for a folder of pairs, or both `train=` and `test=` for two files of labelled texts"
        elif self.output is None and (len(self.data) != 1 or self.shares is not None or self.seed):
            yield "`train=` and `test=` divide one file 9:1; several, `shares=` and `seed=` are for `output=`"


@dataclass(frozen=True)
class TeacherSettings(Settings):
    """Which pairs a teacher scores."""

    data: Sequence[str] = setting(
        help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME. Repeatable.", argument=True, names="data"
    )
    output: str = common("output_lines")
    _: KW_ONLY
    teacher: str = setting(
        help="Reranker, e.g. maxsim or a cross-encoder's folder.", flags=("--with",), names="rerankers,encoders"
    )
    device: str | None = common("device")


@dataclass(frozen=True)
class MixSettings(Settings):
    """Which parts become a mixture."""

    parts: Sequence[str] = setting(
        help="JSON lines: FILE, FILE,weight=0.5, FILE,count=1000.",
        argument=True,
        names="mixture",
        missing="a mixture needs at least one part",
    )
    output: str = common("output_lines")
    _: KW_ONLY
    field: str | None = setting(
        "source", "Add the part's name as this field; empty: none.", read=lambda text: text or None
    )
    seed: int = common("seed")


@dataclass(frozen=True)
class MinedFiles(Settings):
    """Which searcher mines for which pairs, in which texts."""

    first = ("output", "searcher", "corpus", "sim", "judge")

    searcher: str = setting(
        help="Encoder or another searcher, such as bm25.", flags=("--encoder",), names="encoders,searchers"
    )
    data: Sequence[str] = setting(
        help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME. Repeatable.", argument=True, names="data"
    )
    output: str = common("output_lines")
    _: KW_ONLY
    sim: str | None = common("sim")
    corpus: str | None = setting(None, "Candidates: JSONL or BEIR folder. Default: the data's documents.", names="data")
    index: str | None = common("index")
    judge: str | None = setting(None, "Apply the margins to the scores of this reranker.", names="rerankers,encoders")
    precision: str = common("precision")
    device: str | None = common("device")


@dataclass(frozen=True)
class MiningSettings(Settings):
    """Which candidates become negatives; the defaults are those of SFS, B.2. ``None`` turns a bound off.

    ``keep_negatives`` puts the mined negatives after those that a row has, else they replace them.
    """

    first = ("negatives", "sampling", "first_rank", "last_rank", "absolute_margin", "scores", "seed")

    negatives: int = setting(7, "Negatives per pair.", minimum=1)
    sampling: str = setting("top", "Take the best of the ranks, or a random sample.", choices=SAMPLINGS)
    first_rank: int = setting(1, "Best rank to take.")
    last_rank: int = setting(100, "Worst rank to take.")
    absolute_margin: float | None = setting(
        "0.04",
        "Least score difference from the positive; none: any.",
        flags=("--margin",),
        minimum=0,
        read=lambda text: None if text == "none" else number_or("none")(text),
    )
    relative_margin: float | None = setting(None, "The same, as a share of the positive's score.", minimum=0)
    max_score: float | None = setting(None, "Highest score of a negative.", canonical=float)
    min_score: float | None = setting(None, "Lowest score of a negative.", canonical=float)
    keep_negatives: bool = setting(True, is_option=False)
    drop_rows_without: bool = setting(False, "Drop pairs without negatives.")
    scores: bool = setting(False, "Add positive_score and negative_scores.")
    seed: int = common("seed")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        window = self.last_rank - self.first_rank + 1
        if not 1 <= self.first_rank <= self.last_rank:
            yield f"ranks {self.first_rank} to {self.last_rank} are not a range from 1 upwards"
        elif self.negatives > window:
            yield f"{self.negatives} negatives cannot come from {window} ranks; widen the range of ranks"
        if self.max_score is not None and self.min_score is not None and self.min_score > self.max_score:
            yield f"min_score {self.min_score} is above max_score {self.max_score}"


@dataclass(frozen=True)
class NearMissSettings(Settings):
    """Near-misses of the texts in ``path``, or of the anchors of its pairs, into ``output``."""

    first = ("output", "families", "positive", "per_family", "split", "llm", "max_tokens", "field", "seed", "dry_run")

    path: str = setting(
        help="JSON lines of texts, or of pairs for paraphrases; BEIR folder; -: standard input.",
        **_INPUT,
        reads=EITHER,
    )
    output: str = common("output_lines")
    families: Sequence[str] = setting(
        "negation,binding,spatial", "Families, comma-separated.", read=listed, names="edits"
    )
    positive: str = setting("anchor", "Positive: the sentence (COMP), or the pair's paraphrase.", choices=POSITIVES)
    per_family: int | None = setting(None, "Near-misses per family. Default: all.", minimum=1)
    split: float | None = setting(
        None, "Share of NAME.train.jsonl; the rest: NAME.test.jsonl.", above=0, below=1, needs=("output",)
    )
    llm: str | None = setting(None, "Language model that writes near-misses. Default: rules.", names="llms")
    prompts: str | None = common("prompts", needs=("llm",))
    store: str | None = setting(None, "Answer cache. Default: OUTPUT.answers.sqlite.", writes=FILE, needs=("llm",))
    max_tokens: int | None = common(
        "max_tokens", help="Budget in tokens, prompts and answers. Default: 10,000,000.", needs=("llm",)
    )
    concurrency: int = common("concurrency")
    field: str = common("field")
    seed: int = common("seed")


@dataclass(frozen=True)
class QuerySettings(Asking):
    """Passages, the model that writes queries for them, and the filters."""

    first = (
        *("llm", "output", "types", "searcher", "k", "negatives", "judge", "existing", "limit", "max_tokens", "seed"),
        "dry_run",
    )

    source: str = setting(
        help="JSON lines of id, text and title, .gz too; BEIR folder; -: standard input.",
        argument=True,
        metavar="CORPUS",
        names="data",
    )
    output: str = common("output_lines")
    _: KW_ONLY
    llm: str = setting(help="Language model, e.g. openai:MODEL,url=ADDRESS.", names="llms")
    types: Sequence[str] = setting(",".join(TYPES), "Types of queries, comma-separated.", read=listed)
    searcher: str = setting(
        "minilm",
        "Encoder or searcher of the round trip; none: skip it.",
        flags=("--encoder",),
        names="encoders,searchers",
    )
    k: int = setting(10, "Keep queries whose passage is among the top k.", flags=("-k",), minimum=1)
    negatives: int = setting(
        0, "Hard negatives per query, from the round trip.", minimum=0, maximum=1000, excludes=("searcher=none",)
    )
    judge: str | None = setting(None, "Language model that grades 0 to 3; none: skip. Default: `llm=`.", names="llms")
    grade: int = setting(2, "Least grade to keep.", minimum=0, maximum=3)
    existing: Sequence[str] = setting((), "Skip these queries: JSONL, TSV or BEIR folder. Repeatable.", reads=EITHER)
    limit: int | None = setting(None, "Passages, a random sample. Default: all.", minimum=1)
    retries: int = setting(2, "Retries of a rejected answer.", minimum=0, maximum=100)
    prompts: str | None = common("prompts")
    seed: int = common("seed", help="Random seed of `limit=`.")
    device: str | None = common("device")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if unknown := [name for name in self.types if name not in TYPES]:
            yield f"`types=` {', '.join(unknown)}: unknown type of query; known: {', '.join(TYPES)}"
        elif len(set(self.types)) < len(self.types):
            yield "`types=`: a type is given twice"
