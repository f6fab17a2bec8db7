"""What near-misses of a file are asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrokit.augmentation.settings import FIELD, FLAGS, OUTPUT, SEED
from retrokit.core.settings import FILE, Settings, listed, setting

POSITIVES = ("anchor", "paraphrase")
BUDGET = 10_000_000
"""Tokens of prompts and answers, unless another number is given."""


@dataclass(frozen=True)
class NearMissSettings(Settings):
    """Near-misses of the texts in ``path``, or of the anchors of its pairs, into ``output``."""

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
