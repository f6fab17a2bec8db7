"""Settings of the probes of embeddings, for Python and as the options of ``retrokit probe``."""

from dataclasses import dataclass

from retrokit.core.settings import common, setting
from retrokit.metrics.names import metric_names
from retrokit.probing.settings import FRAGMENT, METRIC, ProbeSettings


@dataclass(frozen=True)
class ContrastSettings(ProbeSettings):
    """Find dimensions that change between the two texts of a pair (SFS Figure 3).

    retrokit probe contrast minilm --on pairs:paradetox.jsonl,a=toxic,b=neutral --size 32
    """

    on: str = setting(
        help="pairs:FILE,a=FIELD,b=FIELD, e.g. pairs:paradetox.jsonl,a=toxic,b=neutral.", names="contrasts"
    )
    size: int = setting(help=FRAGMENT)


@dataclass(frozen=True)
class LayerSettings(ProbeSettings):
    """Score an encoder after each layer, and measure how far training moved each (CROP 4).

    retrokit probe layers minilm runs/crops --on knn:labelled.jsonl --plot pictures
    """

    on: str = common("on", help="Task, e.g. knn:FILE or beir:PATH.")
    metric: str | None = setting(None, METRIC, canonical=metric_names, names="metrics")
    sim: str | None = common("sim")
    start: str | None = setting(None, "Encoder before training. Default: that of the model folder.", names="encoders")


@dataclass(frozen=True)
class GeometrySettings(ProbeSettings):
    """Measure how embeddings lie in their space: anisotropy, effective rank, hubness (SFS 5.4).

    retrokit probe geometry minilm runs/sfs16 --on beir:data/scifact --size 16
    """

    on: str = setting(help="Texts: beir:PATH, or JSON lines with a field text.", names="corpora")
    size: int | None = setting(None, f"{FRAGMENT} Default: only the whole.")
    neighbours: int = setting(10, "Neighbours that count for hubness.", minimum=1)


@dataclass(frozen=True)
class MapSettings(ProbeSettings):
    """Draw labelled texts in two dimensions (CROP Figure 2).

    retrokit probe map minilm runs/crops --on knn:labelled.jsonl,sample=5000 --plot pictures
    """

    needs_folder = True

    on: str = common("on", help="knn:FILE of labelled texts; sample=5000 draws some.")
    seed: int = common("seed", default=42, help="Random seed of the layout.")
