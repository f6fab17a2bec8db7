"""What a trained verifier is asked for: for Python, and as the options of ``rerank calibrate`` and ``verify``."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import FILE, FOLDER, PRECISION, PRECISIONS, Settings, setting

KEEP = ("all", "accepted", "rejected")
_RUN = "Folder that rerank train has made."
_JUDGE = "Folder that rerank train has made; or default, which comes with retrokit."


@dataclass(frozen=True)
class CalibrationSettings(Settings):
    """Which threshold is looked for, and on which pairs."""

    folder: str = setting(help=_RUN, argument=True, metavar="RUN")
    pairs: str = setting(
        help="Held-out pairs: what augment negatives writes; text, near_miss, positive; or labels.", argument=True
    )
    false_accept_rate: float = setting(0.05, "Share of pairs to reject that may be accepted.", above=0)
    _: KW_ONLY
    precision: str = setting("fp32", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.false_accept_rate >= 1:
            yield f"`false_accept_rate=` {self.false_accept_rate} must be below 1"


@dataclass(frozen=True)
class ShrinkSettings(Settings):
    """Which verifier a small copy is made of, and how small."""

    folder: str = setting(
        help="Folder of a verifier that rerank train --end-to-end has made.", argument=True, metavar="RUN"
    )
    output: str = setting(help="Folder to write.", flags=("--output", "-o"), writes=FOLDER)
    rank: int = setting(32, "Of the matrices that hold what training has changed of a weight.", above=0)
    encoder: str | None = setting(
        None, "Encoder to begin with, of the same shape. Default: what the training began with."
    )
    language: str | None = setting(None, "en: it was trained on English alone, and is to tell of other texts.")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.language not in (None, "en"):
            yield f"`language=` {self.language} is not en, the one that is told from others"


@dataclass(frozen=True)
class VerifySettings(Settings):
    """Which pairs are judged, and what is written of them."""

    folder: str = setting(help=_JUDGE, argument=True, metavar="RUN")
    pairs: str = setting("-", "JSON lines with two texts each; - is standard input.", argument=True)
    output: str = setting("-", "JSON lines to write; - is standard output.", flags=("--output", "-o"), writes=FILE)
    threshold: float | None = setting(None, "Score from which on a pair is accepted. Default: the calibrated one.")
    keep: str = setting("all", "Lines to write.", choices=KEEP)
    _: KW_ONLY
    precision: str = setting("fp32", PRECISION, choices=PRECISIONS)
    device: str | None = setting(None)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
