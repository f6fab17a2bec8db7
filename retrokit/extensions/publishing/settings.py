"""The options of ``retrokit push``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.cli.api import FOLDER, Settings, setting


@dataclass(frozen=True)
class PushSettings(Settings):
    """The options of publishing a model."""

    folder: str = setting(help="Model folder.", argument=True, metavar="RUN", names="runs", reads=FOLDER)
    repo: str = setting(help="Repository on the Hub: OWNER/NAME.", argument=True)
    _: KW_ONLY
    private: bool = setting(False, "Create a private repository.")
    license: str | None = setting(None, "Name the licence: apache-2.0.")
    base_model: str | None = setting(None, "Name the base model's Hub id. Default: the encoder's.")
    results: Sequence[str] = setting((), "Add results (of eval --results) to the card. Repeatable.")
    mteb: str | None = setting(
        None,
        "Write the MTEB submission of `results=` to this new folder.",
        writes=FOLDER,
    )
    dry_run: str | None = setting(None, "Write the upload to this new folder, and stop.", writes=FOLDER)
