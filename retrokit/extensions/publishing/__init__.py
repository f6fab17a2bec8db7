"""Publishing: model folders on the Hugging Face Hub, with a card of their results, and submissions to MTEB."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.publishing.upload import push as push

EXTENSION = Extension(
    "publishing",
    "Publish model folders on the Hugging Face Hub.",
    commands=(
        CommandEntry(
            "push",
            "Upload a model folder to the Hugging Face Hub in one commit, with a model card.",
            "retrokit.extensions.publishing.cli:push",
            prints="json",
        ),
    ),
    python={"push": "retrokit.extensions.publishing.upload:push"},
)
__getattr__ = EXTENSION.attribute
