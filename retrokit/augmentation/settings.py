"""What the filters of ``retrokit augment`` are asked for: for Python, and on the command line."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from retrokit.core.settings import FILE, FOLDER, PRECISION, PRECISIONS, Settings, listed, number_or, numbers, setting
from retrokit.llm.settings import Asking

OUTPUT, FLAGS = "JSON lines to write; - is standard output.", ("--output", "-o")
FIELD, SEED = "Field of a line that holds the text.", "The same seed and input give the same output."
SHARES = (0.8, 0.1, 0.1)
SAMPLINGS = ("top", "random")
POSITIVES = ("anchor", "paraphrase")
BUDGET = 10_000_000  # tokens of prompts and answers, unless another number is given
NONE = "none"
TYPES = ("keywords", "question", "claim", "how-to", "situation")  # of queries
_EPOCHS = "Passes over the texts, each with fresh pairs."
_INPUT: dict[str, Any] = {"argument": True, "metavar": "INPUT"}


@dataclass(frozen=True)
class PairSettings(Settings):
    """Pairs of which texts, and how many."""

    source: str = setting(help="Texts as JSON lines, .gz too; - is standard input.", **_INPUT)
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    per_text: int = setting(1, "Pairs of a text in an epoch.", minimum=1)
    epochs: int = setting(1, _EPOCHS, minimum=1)
    field: str = setting("text", FIELD)
    seed: int = setting(0, SEED, minimum=0)


@dataclass(frozen=True)
class MaskSettings(Settings):
    """Which texts are masked, and how much of them."""

    source: str = setting(help="Pairs or texts as JSON lines, .gz too; - is standard input.", **_INPUT)
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    encoder: str = setting(help="Encoder whose tokens are masked.")
    fraction: float = setting(0.15, "Share of the tokens that the mask token replaces.", minimum=0, maximum=1)
    epochs: int = setting(1, _EPOCHS, minimum=1)
    field: str = setting("text", FIELD)
    seed: int = setting(0, SEED, minimum=0)


@dataclass(frozen=True)
class SplitSettings(Settings):
    """Which pairs become a BEIR folder; or which labelled texts two files."""

    data: Sequence[str] = setting(
        help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME; or, for two files, labelled texts.", **_INPUT
    )
    output: str | None = setting(None, "BEIR folder of train, dev and test to write.", flags=FLAGS, writes=FOLDER)
    _: KW_ONLY
    shares: tuple[float, float, float] | None = setting(
        None, "Shares of the anchors for train, dev and test. Default: 0.8,0.1,0.1.", read=numbers("shares", float, 3)
    )
    seed: int = setting(0, SEED, minimum=0)
    train: str | None = setting(
        None, "JSON lines to write: nine tenths of the texts, to train on and to learn from.", writes=FILE
    )
    test: str | None = setting(None, "JSON lines to write: the tenth that knn and classify ask about.", writes=FILE)

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

    data: Sequence[str] = setting(help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME. Repeatable.", argument=True)
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    teacher: str = setting(help="Reranker that scores, e.g. maxsim or a cross-encoder's folder.", flags=("--with",))
    device: str | None = setting(None)


@dataclass(frozen=True)
class MixSettings(Settings):
    """Which parts become a mixture."""

    parts: Sequence[str] = setting(help="JSON lines: FILE, FILE,weight=0.5, FILE,count=1000.", argument=True)
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    field: str | None = setting(
        "source", "Field that names each row's part; empty: none.", read=lambda text: text or None
    )
    seed: int = setting(0, SEED, minimum=0)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.parts:
            yield "a mixture needs at least one part"


@dataclass(frozen=True)
class MinedFiles(Settings):
    """Which searcher mines for which pairs, in which texts."""

    first = ("output", "searcher", "corpus", "sim", "judge")

    searcher: str = setting(help="Encoder, or another searcher such as bm25, that searches.", flags=("--encoder",))
    data: Sequence[str] = setting(help="Pairs: FILE.jsonl, -, beir:PATH, hf:NAME. Repeatable.", argument=True)
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    sim: str | None = setting(None, "Similarity that ranks; default: the encoder's own.")
    corpus: str | None = setting(
        None, "Candidates: a JSONL corpus, or the folder of a BEIR data set; default: the data's own documents."
    )
    index: str | None = setting(None, "Search with this index of faiss, e.g. HNSW32, IVF4096,Flat:nprobe=64.")
    judge: str | None = setting(None, "Reranker whose scores the margins then apply to.")
    precision: str = setting("auto", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)


@dataclass(frozen=True)
class MiningSettings(Settings):
    """Which candidates become negatives; the defaults are those of SFS, B.2. ``None`` turns a bound off.

    ``keep_negatives`` puts the mined negatives after those that a row has, else they replace them.
    """

    first = ("negatives", "sampling", "first_rank", "last_rank", "absolute_margin", "scores", "seed")

    negatives: int = setting(7, "Negatives of a pair.", minimum=1)
    sampling: str = setting("top", "top: the best of the range; random: any of it.", choices=SAMPLINGS)
    first_rank: int = setting(1, "Best rank to take, from 1.")
    last_rank: int = setting(100, "Worst rank to take.")
    absolute_margin: float | None = setting(
        "0.04",
        "How much less than the positive a negative scores, at least; none: any score.",
        flags=("--margin",),
        minimum=0,
        read=lambda text: None if text == "none" else number_or("none", "margin")(text),
    )
    relative_margin: float | None = setting(None, "The same as a share of the positive's score, e.g. 0.05.", minimum=0)
    max_score: float | None = setting(None, "Highest score of a negative.")
    min_score: float | None = setting(None, "Lowest score of a negative.")
    keep_negatives: bool = setting(True)
    drop_rows_without: bool = setting(False, "Leave out pairs for which nothing was found.")
    scores: bool = setting(False, "Add positive_score and negative_scores.")
    seed: int = setting(0, SEED, minimum=0)

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
        help="Texts as JSON lines, or pairs with `positive=` paraphrase; .gz too; - is standard input.",
        argument=True,
        metavar="INPUT",
    )
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    families: Sequence[str] = setting(
        "negation,binding,spatial", "Kinds of near-misses, with commas between.", read=listed
    )
    positive: str = setting(
        "anchor", "anchor: the sentence itself (COMP); paraphrase: that of the input's pairs.", choices=POSITIVES
    )
    per_family: int | None = setting(
        None, "How many of each family; reading stops when all are there. Default: all.", minimum=1
    )
    split: float | None = setting(
        None, "Share for training; writes NAME.train.jsonl and NAME.test.jsonl.", minimum=0, maximum=1
    )
    llm: str | None = setting(None, "Language model that makes the near-misses. Default: rules, and no model.")
    store: str | None = setting(
        None, "File that keeps each of its answers. Default: OUTPUT.answers.sqlite.", writes=FILE
    )
    max_tokens: int | None = setting(
        None, "Budget of its prompts and answers together. Default: 10,000,000.", minimum=1, maximum=2**53
    )
    concurrency: int = setting(16, "Calls of it at once.", minimum=1, maximum=1024)
    field: str = setting("text", FIELD)
    seed: int = setting(0, SEED, minimum=0)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.split in (0, 1):
            yield f"the share of the training split must lie between 0 and 1, not {self.split:g}"
        if self.split is not None and self.output == "-":
            yield "`split=` writes two files: give `output=` NAME.jsonl"
        if self.llm is None and (self.store is not None or self.max_tokens is not None):
            yield "`store=` and `max_tokens=` are about the model of `llm=`, which is not given"


@dataclass(frozen=True)
class QuerySettings(Asking):
    """Queries for which passages, by which model, and what they have to stand."""

    first = (
        *("llm", "output", "types", "searcher", "k", "negatives", "judge", "existing", "limit", "max_tokens", "seed"),
        "dry_run",
    )

    source: str = setting(
        help="Passages: JSON lines of id, text and optionally title, .gz too; a BEIR folder; - is standard input.",
        argument=True,
        metavar="CORPUS",
    )
    output: str = setting("-", OUTPUT, flags=FLAGS, writes=FILE)
    _: KW_ONLY
    llm: str = setting(help="Language model that writes the queries, e.g. openai:MODEL,url=ADDRESS.")
    types: Sequence[str] = setting(
        ",".join(TYPES), "Types of queries, each passage one of each, with commas between.", read=listed
    )
    searcher: str = setting(
        "minilm",
        "Encoder, or another searcher such as bm25, that has to bring the passage back; none: no round trip.",
        flags=("--encoder",),
    )
    k: int = setting(10, "How many first hits the passage has to be among.", flags=("-k",), minimum=1)
    negatives: int = setting(
        0, "Hard negatives of a query: the best hits that score below its passage.", minimum=0, maximum=1000
    )
    judge: str | None = setting(
        None, "Language model that grades query and passage from 0 to 3; none: no grades. Default: the one that writes."
    )
    grade: int = setting(2, "Lowest grade that is kept.", minimum=0, maximum=3)
    existing: Sequence[str] = setting(
        (), "Queries that are not to be made again: JSON lines or TSV of id and text, or a BEIR folder. Repeatable."
    )
    limit: int | None = setting(None, "Passages to write queries for, drawn by the seed. Default: all.", minimum=1)
    retries: int = setting(
        2, "How often a rejected answer is asked for again, with the reason.", minimum=0, maximum=100
    )
    prompts: str = setting("ours", "Wording: ours, or a folder whose NAME.toml take the place of ours.")
    seed: int = setting(0, "Seed of the passages that `limit=` draws.", minimum=0)
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if unknown := [name for name in self.types if name not in TYPES]:
            yield f"`types=` {', '.join(unknown)}: no such type of query; the types are {', '.join(TYPES)}"
        elif len(set(self.types)) < len(self.types):
            yield "`types=`: a type is named twice"
        if self.searcher == NONE and self.negatives:
            yield "`negatives=` are hits of the round trip, which `encoder=` none leaves out"
