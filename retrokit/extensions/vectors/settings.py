"""The options of the commands ``retrokit vectors``."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, fields

from retrokit.cli.api import Settings, setting
from retrokit.core.registry import Registry
from retrokit.training.config import (
    BATCHES,
    CHECKPOINTS,
    EVALUATION,
    LOSS,
    OPTIMIZER,
    OUTPUT,
    TRAINED,
    EncoderTrainingConfig,
)

SIZES = r"low-rank:[1-9]\d{0,3}|mlp(:[1-9]\d{0,4})?"
LARGEST = "at most low-rank:9999 and mlp:99999"
QUERY_SIDES = rf"map|{SIZES}|encoder"
OF_ENCODERS = ("lora", "freeze", "dropout", "max_length")
"""Options of a query side that is an encoder."""
QUERY_SIDE = "Query side"


@dataclass(frozen=True)
class _Export(Settings):
    """The first argument."""

    export: str = setting(help="Folder of retrokit export, of documents.", argument=True)


@dataclass(frozen=True)
class VectorsConfig(EncoderTrainingConfig, _Export):
    """The options of training a query side."""

    panels = (None, QUERY_SIDE, EVALUATION, LOSS, BATCHES, OPTIMIZER, TRAINED, CHECKPOINTS, OUTPUT)
    first = (
        *("data", "output", "encoder", "query_side", "eval", "holdout", "epochs", "batch_size", "lr", "seed"),
        *("dry_run", "resume"),
    )

    _: KW_ONLY
    encoder: str = setting("", "Encoder of the queries at the start. Default: the export's.")
    query_side: str = setting("map", "Train map, low-rank:16, mlp or encoder.", QUERY_SIDE)
    mined: int = setting(4, "Draw N negatives of a query from the index.", QUERY_SIDE, minimum=0)
    mine_every: int = setting(250, "Search for negatives every N steps.", QUERY_SIDE, above=0)
    batch_size: int = setting(64, "Batch N examples.", BATCHES, above=0)
    lr: float | None = setting(
        None, "Set the peak learning rate. Default: 1e-4 (encoder: 2e-5).", OPTIMIZER, above=0, maximum=100
    )

    def specs(self) -> list[tuple[Registry, str]]:
        return [(registry, spec) for registry, spec in super().specs() if spec]

    def combination_problems(self) -> list[str | None]:
        problems = super().combination_problems()
        if not re.fullmatch(QUERY_SIDES, self.query_side):
            problems.append(f"`query_side=` {self.query_side}: expected map, low-rank:N, mlp or encoder; {LARGEST}")
        defaults = {field.name: field.default for field in fields(self)}
        for name in OF_ENCODERS if self.query_side != "encoder" else ():
            if getattr(self, name) != defaults[name]:
                problems.append(f"`{name}=` does not go with `query_side=` {self.query_side}")
        return problems


@dataclass(frozen=True)
class CanarySettings(_Export):
    """The options of a comparison with the sample of an export."""

    encoder: str = setting(help="Encoder to compare with it.", argument=True)
    device: str | None = setting(None)
