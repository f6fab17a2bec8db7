"""The options of ``retrokit distil-static``."""

from dataclasses import KW_ONLY, dataclass

from retrokit.cli.api import FOLDER, Settings, common, setting


@dataclass(frozen=True)
class DistilSettings(Settings):
    """The options of distillation into a static encoder."""

    encoder: str = setting(help="Encoder to distil.", argument=True, names="encoders")
    output: str = common("output", help="New folder to write.", writes=FOLDER)
    _: KW_ONLY
    dims: int | None = setting(256, "Keep N dimensions, the first principal components.", minimum=1)
    sif: float = setting(1e-4, "Weight tokens by x / (x + frequency); 0: all alike.", minimum=0)
    corpus: str | None = setting(None, "Count frequencies in these texts. Default: by rank.", names="data")
    device: str | None = common("device")
