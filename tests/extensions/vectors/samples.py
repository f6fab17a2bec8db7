"""The command lines of ``retrokit vectors``."""

from tests.samples import Samples

TRAIN = "--steps 1 --batch-size 8 -o out"
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
)
