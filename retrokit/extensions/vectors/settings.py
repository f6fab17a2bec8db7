"""The options of the commands ``retrokit vectors``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from retrokit.cli.api import FILE, FOLDER, Settings, common, setting
from retrokit.core.registry import Registry
from retrokit.core.settings import EITHER
from retrokit.data.dtypes import DTYPES
from retrokit.metrics.names import metric_names
from retrokit.ranking.settings import ROLES
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
MAPS = rf"auto|orthogonal|affine|{SIZES}"
OF_ENCODERS = ("lora", "freeze", "dropout", "max_length")
"""Options of a query side that is an encoder."""
QUERY_SIDE = "Query side"
DIRECTIONS = ("query-to-document", "document-to-query", "both")


@dataclass(frozen=True)
class _Export(Settings):
    """The first argument."""

    export: str = setting(help="Folder of retrokit export, of documents.", argument=True, reads=FOLDER)


@dataclass(frozen=True)
class VectorsConfig(EncoderTrainingConfig, _Export):
    """The options of training a query side."""

    panels = (None, QUERY_SIDE, EVALUATION, LOSS, BATCHES, OPTIMIZER, TRAINED, CHECKPOINTS, OUTPUT)
    first = (
        *("data", "output", "encoder", "query_side", "eval", "holdout", "epochs", "batch_size", "lr", "seed"),
        *("dry_run", "resume"),
    )

    _: KW_ONLY
    encoder: str | None = setting(  # type: ignore[assignment] # the export's by default
        None, "Encoder of the queries at the start. Default: the export's.", names="encoders"
    )
    directions: str = setting("query-to-document", "Rank in this direction.", LOSS, choices=DIRECTIONS)
    query_side: str = setting(
        "map",
        "Train map, low-rank:16, mlp or encoder.",
        QUERY_SIDE,
        pattern=QUERY_SIDES,
        form=f"map, low-rank:N, mlp or encoder; {LARGEST}",
    )
    mined: int = setting(4, "Draw N negatives of a query from the index.", QUERY_SIDE, minimum=0)
    mine_every: int = setting(250, "Search for negatives every N steps.", QUERY_SIDE)
    lr: float | None = setting(
        None, "Set the peak learning rate. Default: 1e-4 (encoder: 2e-5).", OPTIMIZER, above=0, maximum=100
    )

    @property
    def start(self) -> str:
        """The spec of the encoder, which a plan has."""
        assert self.encoder is not None
        return self.encoder

    def specs(self) -> list[tuple[Registry, str]]:
        return [(registry, spec) for registry, spec in super().specs() if spec is not None]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.query_side != "encoder":
            for name in filter(self.has, OF_ENCODERS):
                yield f"`{name}=` needs `query_side=` encoder"


@dataclass(frozen=True)
class CanarySettings(_Export):
    """The options of a comparison with the sample of an export."""

    encoder: str = setting(help="Encoder to compare with it.", argument=True, names="encoders")
    device: str | None = common("device")


@dataclass(frozen=True)
class AdoptSettings(Settings):
    """The options of registering vectors that another job wrote."""

    first = ("source", "output", "sim", "role", "dtype", "sample", "precision", "as_json")

    vectors: str = setting(
        help="Parquet file, or folder of such files, with the columns id and embedding.",
        argument=True,
        metavar="PARQUET",
        reads=EITHER,
    )
    encoder: str = setting(help="Encoder that the job used.", argument=True, names="encoders")
    source: str = setting(
        help="Texts that were embedded: JSON lines of id and text; or a BEIR folder.", flags=("--on",), names="data"
    )
    output: str = common("output", help="New folder to write.", writes=FOLDER)
    _: KW_ONLY
    sim: str | None = setting(None, "Similarity that prepared them; default: the encoder's own.", names="similarities")
    role: str = setting("document", "What the texts are.", choices=ROLES)
    dtype: str = setting("float32", "Storage dtype; float16 takes half of float32, int8 a quarter.", choices=DTYPES)
    sample: int = setting(64, "Embed N of the texts again, and compare.", minimum=1)
    precision: str = common("precision")
    device: str | None = common("device")


@dataclass(frozen=True)
class BridgeSettings(Settings):
    """The options of a bridge between two encoders."""

    first = ("output", "into", "map", "queries", "texts", "sample", "on", "metrics", "seed", "as_json")

    export: str = setting(
        help="Folder of retrokit export, of the old encoder's documents.", argument=True, reads=FOLDER
    )
    encoder: str = setting(help="New encoder.", argument=True, names="encoders")
    output: str = common("output", help="New folder to write.", writes=FOLDER)
    _: KW_ONLY
    into: str = setting(
        "old", "Map new queries into the old space, or old vectors into the new.", choices=("old", "new")
    )
    map: str = setting(
        "auto",
        "Learn orthogonal, affine, low-rank:N or mlp. auto: the best of two.",
        pattern=MAPS,
        form=f"auto, orthogonal, affine, low-rank:N or mlp; {LARGEST}",
    )
    queries: str | None = setting(
        None, "Learn from these queries too, without labels: JSON lines or a BEIR folder.", needs=("into=old",)
    )
    texts: str | None = setting(
        None, "Texts of the export: JSON lines or a BEIR folder. Default: its source.", names="data"
    )
    sample: int = setting(5000, "Embed N of the texts with the new encoder.", minimum=10)
    on: Sequence[str] = common(
        "on", default=(), help="Measure old, bridged and embedded again on this task. Repeatable."
    )
    metrics: Sequence[str] = common(
        "metrics",
        help="Metrics to show. Default: the task's usual ones.",
        canonical=metric_names,
        needs=("on",),
    )
    seed: int = common("seed", help="Seed the sample and an mlp.")
    precision: str = common("precision")
    device: str | None = common("device")


@dataclass(frozen=True)
class IdentifySettings(Settings):
    """The options of a search for what gave the vectors of a table."""

    first = ("candidates", "texts", "sample", "rows", "again", "on", "fail_under", "as_json")

    table: str = setting(
        help="Ids and vectors: Parquet, Arrow, JSON lines, .npy with NAME.ids.txt, LanceDB, an export.",
        argument=True,
    )
    candidates: Sequence[str] = setting(
        help="Encoder that may have given the vectors; expect the first. Repeatable.",
        names="encoders",
        missing="give `candidates=`: encoders that may have given the vectors",
    )
    _: KW_ONLY
    texts: str | None = setting(None, "Texts by id: JSON lines or a BEIR folder. Default: the table's.", names="data")
    sample: int = setting(1000, "Embed N random rows of a table with more than 5,000, or all.", minimum=100)
    rows: str | None = setting(None, "Write the explanation of each row as JSON lines.", writes=FILE)
    again: str | None = setting(None, "Write the ids of rows to embed again, for export --only.", writes=FILE)
    on: Sequence[str] = common("on", default=(), help="Measure stored and repaired vectors on this task. Repeatable.")
    fail_under: float | None = setting(
        None, "Exit 1 if the first candidate gives a lower share of the rows.", minimum=0, maximum=1
    )
    junit: str | None = setting(None, "Write the gate's result as JUnit XML.", writes=FILE, needs=("fail_under",))
    seed: int = common("seed", help="Seed the sample.")
    device: str | None = common("device")
