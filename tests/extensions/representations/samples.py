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


REPORTS = {
    "probe contrast static:16 --on pairs:in/pairs.jsonl,a=anchor,b=positive --size 8": """
anchor against positive: in/pairs.jsonl
encoder | fragment | dimensions | mean cosine | median SD | largest | outliers | shift
static:16 | 1 | 1-8 | # | # | # | … | #
static:16 | 2 | 9-16 | # | # | # | … | #
59 pairs; SD: of the difference over pairs, by dimension; outliers: by Tukey's rule; shift: 1 …
static:16: anchor and positive are furthest apart in fragment … of 2 (mean cosine #) and move …
in/pairs.jsonl: 59 pairs of anchor and positive
""",
    "probe layers model:in/bert --on knn:in/labelled.jsonl": """
accuracy after each layer on knn:in/labelled.jsonl
layer | bert
0 (embedding) | #
1 | #
2 | #
scored with l2
bert is best after layer … of 2 (accuracy #; last layer #, embedding layer #).
in/labelled.jsonl: 2 test texts, 14 texts to learn from, 2 labels; always the most frequent one is right of #%
""",
    "probe geometry static:16 --on beir:in/task": """
geometry of 16 texts: in/task
encoder | part | dimensions | anisotropy | effective rank | hubness | largest hub
static:16 | whole | 16 | # | # | # | #%
anisotropy: mean cosine of two texts; effective rank: of at most the dimensions; hubness: …
static:16: mean cosine #, effective rank … of 16, largest hub near #% of texts.
in/task: 16 of 16 different texts
""",
    "probe map static:16 --on knn:in/labelled.jsonl --plot map": """
map of in/labelled.jsonl
encoder | laid out by | kNN accuracy (k = 10) | within the picture
static:16 | openTSNE | #% | #%
16 texts, 2 labels
static:16: kNN accuracy #%, within the picture #% (majority class: #%). Distances between …
in/labelled.jsonl: 2 test texts, 14 texts to learn from, 2 labels; always the most frequent one is right of #%
""",
}
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
    reports=REPORTS,
)
