"""Settings of ``retrokit augment queries``, ``mine`` and ``score``, for Python and the command line."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import EITHER, Settings, common, listed, number_or, setting
from retrokit.llm.settings import Asking

NONE = "none"
TYPES = ("keywords", "question", "claim", "how-to", "situation")  # of queries
SAMPLINGS = ("top", "random")


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
