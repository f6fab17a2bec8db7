"""Static encoders: a table with an embedding for each token, in place of a transformer."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.static.distil import distil_static as distil_static

EXTENSION = Extension(
    "static",
    "Distil static encoders from transformers.",
    commands=(
        CommandEntry(
            "distil-static",
            "Distil a static encoder from a transformer: about 100 times faster on a CPU (Model2Vec).",
            "retrokit.extensions.static.cli:distil_static",
        ),
    ),
    python={"distil_static": "retrokit.extensions.static.distil:distil_static"},
)
__getattr__ = EXTENSION.attribute
