"""Vectors: encoders that search an existing export, and whether an encoder gives the vectors of one."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry, GroupEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.vectors.canaries import verify as verify

EXTENSION = Extension(
    "vectors",
    "Train, map and check encoders for the vectors of an export.",
    commands=(
        GroupEntry("vectors", "Train, map and check encoders for the vectors of an export.", ""),
        CommandEntry(
            "vectors verify",
            "Check that another server or model folder gives the vectors of an export.",
            "retrokit.extensions.vectors.cli:verify",
            kinds=("encoders",),
        ),
    ),
    python={"verify": "retrokit.extensions.vectors.canaries:verify"},
)
__getattr__ = EXTENSION.attribute
