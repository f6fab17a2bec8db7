"""The settings of what is made of encoders without training: a static encoder, an average, a model on the hub."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit import encoders, similarities
from retrokit.core.registry import parse_all
from retrokit.core.settings import FOLDER, Settings, numbers, setting


@dataclass(frozen=True)
class DistilSettings(Settings):
    """Which encoder's tokens, and what is made of them."""

    encoder: str = setting(help="Encoder whose tokens are embedded.", argument=True)
    output: str = setting(help="Folder to write, a new one.", flags=("--output", "-o"), writes=FOLDER)
    _: KW_ONLY
    dims: int | None = setting(256, "Dimensions to keep, the first principal components.", minimum=1)
    sif: float = setting(
        1e-4, "How much rare tokens count: a token's weight is this / (this + its frequency); 0: all alike.", minimum=0
    )
    corpus: str | None = setting(
        None, "Texts that frequencies are counted in: JSON lines or a BEIR folder. Default: by rank in the vocabulary."
    )
    device: str | None = setting(None)


@dataclass(frozen=True)
class MergeSettings(Settings):
    """Encoders of one architecture, and what each one counts.

    Raises:
        UsageError: whatever is wrong with it, all at once.
    """

    encoders: Sequence[str] = setting(help="Encoders to average, two or more.", argument=True)
    output: str = setting(help="Folder to write, a new one.", flags=("--output", "-o"), writes=FOLDER)
    _: KW_ONLY
    weights: Sequence[float] | None = setting(
        None,
        "What each one counts: 0.7,0.3. Default: all alike.",
        minimum=-1e6,
        maximum=1e6,
        read=numbers("weights", float),
    )
    as_given: bool = setting(False, "Take `weights=` as they are; else they are divided by their sum.")
    sim: str | None = setting(None, "Similarity of the result. Default: the one that all have.")

    def __post_init__(self) -> None:
        sims = [(similarities.registry, self.sim)] if self.sim is not None else []
        parse_all([*((encoders.registry, spec) for spec in self.encoders), *sims])
        super().__post_init__()

    def problems(self) -> Iterator[str]:
        yield from self.number_problems()
        count, given = len(self.encoders), self.weights
        if count < 2:
            yield f"give two encoders or more, not {count}"
        if given is None:
            if self.as_given:
                yield "`as_given=` needs `weights=`"
        elif len(given) != count:
            yield f"`weights=`: {len(given)} for {count} encoders"
        elif not self.as_given and sum(given) <= 0:
            yield f"`weights=` add up to {sum(given):g}, by which none is divided; `as_given=` takes them as they are"

    @property
    def shares(self) -> list[float]:
        """What each encoder counts, by place."""
        given = self.weights or [1.0] * len(self.encoders)
        return [weight if self.as_given else weight / sum(given) for weight in given]


@dataclass(frozen=True)
class PushSettings(Settings):
    """A finished run, and the repository that it becomes."""

    folder: str = setting(help="Finished run, or what merge has made.", argument=True, metavar="RUN")
    repo: str = setting(help="Repository on the hub: OWNER/NAME.", argument=True)
    _: KW_ONLY
    private: bool = setting(False, "Make the repository a private one, if it is new.")
    license: str | None = setting(None, "Licence of the model, as the hub names it: apache-2.0.")
    base_model: str | None = setting(
        None, "Id of the model that it began with, for the card. Default: the run's encoder, if that is a hub id."
    )
    results: Sequence[str] = setting((), "Folder of results (of eval --results) for the card. Repeatable.")
    mteb: str | None = setting(
        None,
        "Write MTEB's results among `results=` into this new folder, as its submission takes them.",
        writes=FOLDER,
    )
    dry_run: str | None = setting(
        None, "Write what would be uploaded into this new folder, and upload nothing.", writes=FOLDER
    )
