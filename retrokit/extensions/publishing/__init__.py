"""Publishing: models and data on the Hugging Face Hub, each with a card, and submissions to MTEB."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.publishing.upload import push as push

EXTENSION = Extension(
    "publishing",
    "Publish models and data on the Hugging Face Hub.",
    commands=(
        CommandEntry(
            "push",
            "Upload a model or data to the Hugging Face Hub in one commit, with a card.",
            "retrokit.extensions.publishing.cli:push",
            prints="json",
        ),
    ),
    python={"push": "retrokit.extensions.publishing.upload:push"},
)
__getattr__ = EXTENSION.attribute
