#!/usr/bin/env bash
# Fine-tune a small retriever on a few hundred pairs and see whether it got better. A few minutes on two idle cores.
#
#     bash examples/quickstart.sh [OUTPUT_FOLDER]        (from the repository root; default: quickstart)
set -euo pipefail
out=${1:-quickstart}

# The built-in docstrings of Python's standard library: a first sentence is a query, the rest its document.
# One pass over the train split, the same steps on every machine. --max-length 64: short inputs are quick.
# An interrupted run is resumed.
grep -qs '"status": "training"' "$out/run/retrokit.json" && mode=--resume || mode=--overwrite
retrokit finetune minilm --data docstrings --sim cosine --lr 5e-5 \
    --batch-size 16 --max-length 64 --seed 0 -o "$out/run" "$mode"

# Both models side by side on the test split, with the difference and a paired significance test over the test queries.
retrokit eval minilm "$out/run" --on docstrings --metrics ndcg@10,recall@100,mrr@10

echo "Trained model: $out/run"
