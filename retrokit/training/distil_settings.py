"""What a static encoder is distilled from, and how."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import FOLDER, Settings, setting


@dataclass(frozen=True)
class DistilSettings(Settings):
    """Which encoder's tokens, and what is made of them."""

    encoder: str = setting(help="Encoder whose tokens are embedded.", argument=True)
    output: str = setting(help="Folder to write, a new one.", flags=("--output", "-o"), writes=FOLDER)
    _: KW_ONLY
    dims: int | None = setting(256, "Dimensions to keep, the first principal components.", least=1)
    sif: float = setting(
        1e-4, "How much rare tokens count: a token's weight is this / (this + its frequency); 0: all alike.", least=0
    )
    corpus: str | None = setting(
        None, "Texts that frequencies are counted in: JSON lines or a BEIR folder. Default: by rank in the vocabulary."
    )
    device: str | None = setting(None)
