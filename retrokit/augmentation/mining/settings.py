"""Which candidates become negatives, and the record of what was mined."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.augmentation.settings import FLAGS, OUTPUT, SEED
from retrokit.core.settings import FILE, PRECISION, PRECISIONS, Settings, number_or, setting

SAMPLINGS = ("top", "random")

COUNTS = (
    *("rows", "anchors", "candidates", "candidates_repeated", "candidates_without_text", "positives_not_candidates"),
    *("excluded", "within_absolute_margin", "within_relative_margin", "above_max_score", "below_min_score"),
    *("negatives", "rows_complete", "rows_short", "rows_without", "rows_dropped"),
)
"""``candidates`` are distinct texts; ``positives_not_candidates``, known positives that the corpus lacks; ``excluded``,
anchors, known positives and given negatives among the best candidates; the four bounds, what each took out of the rest;
``rows_complete`` have all wanted negatives, ``rows_short`` some, ``rows_without`` none."""


@dataclass(frozen=True)
class MinedFiles(Settings):
    """Which searcher mines for which pairs, in which texts."""

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
class Mined:
    """What was mined: ``counts`` by the names in :data:`COUNTS`, and mean scores over rows and over mined negatives,
    ``None`` where there are none."""

    encoder: str
    similarity: str
    judge: str | None
    settings: MiningSettings
    counts: dict[str, int]
    mean_positive_score: float | None
    mean_negative_score: float | None

    def summary(self) -> str:
        """What came of it, in a line."""
        counts, wanted = self.counts, self.settings.negatives
        line = f"{counts['negatives']:,} negatives for {counts['rows']:,} rows from {counts['candidates']:,} candidates"
        if counts["rows_short"]:
            line += f"; {counts['rows_short']:,} rows got fewer than {wanted}"
        if counts["rows_without"]:
            fate = "left out" if counts["rows_dropped"] else "kept without"
            line += f"; {counts['rows_without']:,} rows got none ({fate})"
        if self.mean_positive_score is not None and self.mean_negative_score is not None:
            line += f"; mean score {self.mean_negative_score:.3f}, of positives {self.mean_positive_score:.3f}"
        return line
