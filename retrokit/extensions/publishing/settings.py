"""The options of ``retrokit push``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.cli.api import FOLDER, Settings, setting
from retrokit.core.settings import EITHER


@dataclass(frozen=True)
class PushSettings(Settings):
    """The options of publishing a model or data."""

    folder: str = setting(
        help="Model folder, SURE or BEIR folder, repaired data, or JSON lines.",
        argument=True,
        metavar="PATH",
        names="runs",
        reads=EITHER,
    )
    repo: str = setting(help="Repository on the Hub: OWNER/NAME.", argument=True)
    _: KW_ONLY
    private: bool = setting(False, "Create a private repository.")
    license: str | None = setting(None, "Name the licence: apache-2.0.")
    languages: Sequence[str] = setting((), "Name a language as MTEB does: eng-Latn. Repeatable.")
    base_model: str | None = setting(None, "Name the base model's Hub id. Default: the encoder's.")
    results: Sequence[str] = setting((), "Add results (of eval --results) to the card. Repeatable.")
    mteb: str | None = setting(
        None,
        "Write the MTEB submission of `results=` to this new folder.",
        writes=FOLDER,
    )
    dry_run: str | None = setting(None, "Write the upload to this new folder, and stop.", writes=FOLDER)

    @property
    def card_languages(self) -> list[str]:
        """The languages as the cards of the Hub name them, without their scripts."""
        return [language.partition("-")[0] for language in self.languages]
