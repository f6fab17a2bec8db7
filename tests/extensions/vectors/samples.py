"""The command lines of ``retrokit vectors``."""

from tests.samples import Samples

TRAIN = "--steps 1 --batch-size 8 -o out"
REPORTS = {
    "vectors train exported --encoder static:16 --data in/own.jsonl --steps 1 --batch-size 4 -o queries": """
run | queries
steps | 1
training loss | # (mean of steps 1–1)
training data
source | records | anchors | documents | duplicates | weight
own | 16 | 16 | 16 | 0 | 1
plan
steps | 1 (4 an epoch)
trainable parameters | 256 of 256
scale | 20; starts as sharp as cosine at 20 (typical score 1)
export | exported
encoder | static:16
device | …
batch size | 4
lr | #
sim | cosine
""",
    "vectors bridge exported runs/qnorm --texts in/texts.jsonl --sample 10 -o bridged": """
bridge
folder | bridged
map | orthogonal, into the old space
texts in the sample | 10; 8 are enough
known-item MRR | #; without a bridge #
saved | # minutes of embedding, # MB to write
verdict | perhaps: known-item search finds …% of what it finds without a bridge; measure with --on
texts that the map is fitted to
texts | known-item MRR
8 | #
""",
    "vectors identify exported --candidates static:16": """
exported (16 rows of 16 dimensions)
expected | static:16
rows embedded | 16 of 16
rows inferred | 0, from vectors and words of their texts
tolerance | # (cosine distance)
ten nearest neighbours | #% stay when rows that differ are embedded again
rows to embed again | 0
verdict | #% of the rows of exported are as static:16 gives them
shares
explanation | rows embedded | share | at least | at most
as static:16 | 16 | #% | #% | #%
static:16 | 16 | #% | #% | #%
""",
    "vectors verify exported static:16": """
static:16 against exported (16 texts as document, without a prompt)
change | least cosine | norm / export's | order (τ) | texts that agree
as it is | # | # to # | # | 16 of 16
the vectors of static:16 agree with those of exported
""",
    "vectors adopt exported/embeddings.parquet static:16 --on in/task -o adopted": """
folder | adopted
embeddings | 16 of 16 dimensions in float32, role document
similarity | cosine
metric | inner product, higher is better
a document x becomes | x / max(‖x‖, #)
a query x becomes | x / max(‖x‖, #)
queries from a file | retrokit export static:16 --role query --sim cosine --on queries.jsonl --output queries
exported/embeddings.parquet: 16 texts embed to the same vectors here (largest difference 0)
""",
}
SAMPLES = Samples(
    runs={
        "vectors train": [
            *("vectors", "train", "exported", "--encoder", "run", "--data", "pairs.jsonl"),
            *("--steps", "1", "--batch-size", "4", "-o", "queries"),
        ],
        "vectors bridge": [
            *("vectors", "bridge", "exported", "run", "--texts", "corpus.jsonl", "--sample", "10", "-o", "bridged")
        ],
        "vectors identify": ["vectors", "identify", "exported", "--candidates", "run"],
        "vectors verify": ["vectors", "verify", "exported", "run"],
        "vectors adopt": [
            *("vectors", "adopt", "exported/embeddings.parquet", "run"),
            *("--on", "corpus.jsonl", "-o", "adopted"),
        ],
    },
    inputs={
        "vectors train": "in/beir --encoder in/bert --data in/pairs.jsonl --eval beir:in/beir",
        "vectors adopt": "in/beir in/bert --on in/texts.jsonl",
        "vectors identify": "in/beir --candidates in/bert --texts in/texts.jsonl --on beir:in/beir",
        "vectors bridge": "in/beir in/bert --texts in/texts.jsonl --queries in/pairs.jsonl --on beir:in/beir",
    },
    damaged={
        "export, query side": ("ex/export.json", f"vectors train ex --data pairs.jsonl {TRAIN}"),
        "export, bridge": ("ex/export.json", "vectors bridge ex static:dim=16 -o out --into new"),
        "export, identify": ("ex/export.json", "vectors identify ex --candidates static:dim=16"),
        "export, verify": ("ex/export.json", "vectors verify ex static:dim=16"),
        "canaries": ("ex/canaries.json", "vectors verify ex static:dim=16"),
    },
    reports=REPORTS,
)
