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
    numbers,
    setting,
)

SHARES = (0.8, 0.1, 0.1)
POSITIVES = ("anchor", "paraphrase")
BUDGET = 10_000_000  # tokens of prompts and answers, unless another number is given
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
