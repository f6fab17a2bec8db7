#!/usr/bin/env bash
# Fine-tune a small retriever on a few hundred pairs and see whether it got better. A few minutes on two idle cores.
#
#     bash examples/quickstart.sh [OUTPUT_FOLDER]        (from the repository root; default: quickstart)
set -euo pipefail
out=${1:-quickstart}

# A real benchmark without a download: first sentences of docstrings as queries, the rest as documents.
# Train and test share no source file. An existing one is reused.
[ -e "$out/docstrings" ] || python examples/docstring_benchmark.py "$out/docstrings" --documents 1500

# One pass over the train split, the same steps on every machine. --max-length 64: short inputs are quick.
# An interrupted run is resumed.
grep -qs '"status": "training"' "$out/run/retrokit.json" && mode=--resume || mode=--overwrite
retrokit finetune minilm --data "beir:$out/docstrings,split=train" --sim cosine --lr 5e-5 \
    --batch-size 16 --max-length 64 --seed 0 -o "$out/run" "$mode"

# Both models side by side on the test split, with the difference and a paired significance test over the test queries.
retrokit eval minilm "$out/run" --on "beir:$out/docstrings" --metrics ndcg@10,recall@100,mrr@10

echo "Benchmark: $out/docstrings    trained model: $out/run"
