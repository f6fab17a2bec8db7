"""Training data that models make: queries that a language model writes, mined hard negatives, a teacher's scores."""

from typing import TYPE_CHECKING

from retrokit.cli.commands import CommandEntry
from retrokit.core.registry import Extension

if TYPE_CHECKING:
    from retrokit.extensions.weak_supervision.mining import mine as mine
    from retrokit.extensions.weak_supervision.settings import MiningSettings as MiningSettings
    from retrokit.extensions.weak_supervision.teaching import score as score
    from retrokit.extensions.weak_supervision.writing import queries as queries

_HERE = "retrokit.extensions.weak_supervision"
EXTENSION = Extension(
    "weak_supervision",
    "Have models make training data: queries, hard negatives, and a teacher's scores.",
    commands=(
        CommandEntry(
            "augment queries",
            "Have a language model write queries for passages; a search and a judge filter them.",
            f"{_HERE}.cli:queries",
            prints="lines",
        ),
        CommandEntry(
            "augment mine",
            "Mine hard negatives with any encoder and similarity, or another searcher (SFS B.2).",
            f"{_HERE}.cli:mine",
            prints="lines",
        ),
        CommandEntry(
            "augment score",
            "Score pairs and their negatives with a reranker, for finetune --loss kl or margin-mse.",
            f"{_HERE}.cli:score",
            prints="lines",
        ),
    ),
    python={
        "MiningSettings": f"{_HERE}.settings:MiningSettings",
        "mine": f"{_HERE}.mining:mine",
        "queries": f"{_HERE}.writing:queries",
        "score": f"{_HERE}.teaching:score",
    },
)
__getattr__ = EXTENSION.attribute
