"""The command lines and pictures of the probes of embeddings."""

from typing import Any

from tests.samples import Samples

ENCODER = "static:dim=16,tokenizer=bert"
PRINTED = {
    "geometry": f"probe geometry {ENCODER} --on beir:beir --json",
    "map": f"probe map {ENCODER} --on knn:labels.jsonl --plot drawn --json",
    "contrast": f"probe contrast {ENCODER} --on pairs:triplets.jsonl,a=anchor,b=positive --size 8 --json",
    "layers": "probe layers bert --on beir:beir --json",
}
PICTURES = ("contrast", "layers", "geometry", "geometry-fragments", "map")


def drawing(picture: str) -> Any:
    """How a picture is drawn with names of the caller's choice."""

    def draw(names: Any) -> Any:
        from tests.extensions.representations.gallery import pictures

        return pictures(names)[picture]

    return draw


SAMPLES = Samples(
    inputs={
        **dict.fromkeys(("probe layers", "probe geometry", "probe map"), "in/bert --on beir:in/beir"),
        "probe contrast": "in/bert --on pairs:in/pairs.jsonl,a=anchor,b=positive --size 16",
    },
    without_extra={
        "map": ["probe", "map", "static:dim=8,tokenizer=bert", "--on", "knn:labelled.jsonl", "--plot", "plots"]
    },
    probes={
        "contrast": ("--on pairs:{pairs},a=toxic,b=neutral --size 4", {"fragments", "dimensions"}, {"contrast"}),
        "layers": ("--on knn:{labelled},k=3", {"layers"}, {"layers"}),
        "geometry": ("--on {labelled} --size 4 --neighbours 3", {"geometry"}, {"geometry"}),
        "map": ("--on knn:{labelled},k=3", {"map"}, {"map"}),
    },
    damaged={f"probe {name} --json": (f"probe-{name}.json", f"report probe-{name}.json -o out") for name in PRINTED},
    printed=PRINTED,
    pictures={picture: drawing(picture) for picture in PICTURES},
)
