"""Vectors: encoders that search an existing export, and which encoder gives the vectors of an export or a table."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry, GroupEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.vectors.adoption import adopt as adopt
    from retrokit.extensions.vectors.bridging import bridge as bridge
    from retrokit.extensions.vectors.canaries import verify as verify
    from retrokit.extensions.vectors.engines import embed_batches as embed_batches
    from retrokit.extensions.vectors.identification import identify as identify
    from retrokit.extensions.vectors.query_side import train as train
    from retrokit.extensions.vectors.settings import VectorsConfig as VectorsConfig

EXTENSION = Extension(
    "vectors",
    "Train, map and check encoders for the vectors of an export.",
    commands=(
        GroupEntry("vectors", "Train, map and check encoders for the vectors of an export.", ""),
        CommandEntry(
            "vectors train",
            "Train queries only, against the vectors of an export, which stay as they are.",
            "retrokit.extensions.vectors.cli:train",
            processes="every",
        ),
        CommandEntry(
            "vectors bridge",
            "Search old vectors with a new encoder, by a map learned from texts that both embed.",
            "retrokit.extensions.vectors.cli:bridge",
        ),
        CommandEntry(
            "vectors identify",
            "Find which encoder, prompt, pooling or length gave each vector of a table.",
            "retrokit.extensions.vectors.cli:identify",
            prints="json",
        ),
        CommandEntry(
            "vectors verify",
            "Check that another server or model folder gives the vectors of an export.",
            "retrokit.extensions.vectors.cli:verify",
            prints="json",
        ),
        CommandEntry(
            "vectors adopt",
            "Register vectors that Ray, Daft or another job wrote as an export.",
            "retrokit.extensions.vectors.cli:adopt",
        ),
    ),
    entries={
        "retrokit.records": {
            "bridge": "retrokit.extensions.vectors.records:BRIDGE",
            "vectors-identify": "retrokit.extensions.vectors.records:IDENTIFICATION",
            "vectors-verify": "retrokit.extensions.vectors.records:VERIFICATION",
        }
    },
    python={
        "VectorsConfig": "retrokit.extensions.vectors.settings:VectorsConfig",
        "adopt": "retrokit.extensions.vectors.adoption:adopt",
        "bridge": "retrokit.extensions.vectors.bridging:bridge",
        "embed_batches": "retrokit.extensions.vectors.engines:embed_batches",
        "identify": "retrokit.extensions.vectors.identification:identify",
        "train": "retrokit.extensions.vectors.query_side:train",
        "verify": "retrokit.extensions.vectors.canaries:verify",
    },
)
__getattr__ = EXTENSION.attribute
