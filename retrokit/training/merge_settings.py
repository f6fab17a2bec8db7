"""Which encoders are averaged, and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit import encoders, similarities
from retrokit.core.registry import parse_all
from retrokit.core.settings import FOLDER, Settings, numbers, setting


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
        None, "What each one counts: 0.7,0.3. Default: all alike.", least=-1e6, most=1e6, read=numbers("weights", float)
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
