"""What the filters of ``retrokit augment`` are asked for: for Python, and on the command line."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from retrokit.core.settings import FILE, FOLDER, Settings, numbers, setting

OUTPUT, FLAGS = "JSON lines to write; - is standard output.", ("--output", "-o")
FIELD, SEED = "Field of a line that holds the text.", "The same seed and input give the same output."
SHARES = (0.8, 0.1, 0.1)
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
