"""The options of the commands ``retrokit vectors``."""

from dataclasses import dataclass

from retrokit.cli.api import Settings, setting


@dataclass(frozen=True)
class CanarySettings(Settings):
    """The options of a comparison with the sample of an export."""

    export: str = setting(help="Folder of retrokit export.", argument=True)
    encoder: str = setting(help="Encoder to compare with it.", argument=True)
    device: str | None = setting(None)
