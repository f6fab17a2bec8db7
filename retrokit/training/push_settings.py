"""Which run goes to the model hub, under which name, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.core.settings import FOLDER, Settings, setting


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
