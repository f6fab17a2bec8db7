#!/usr/bin/env bash
# Fine-tune a small retriever for one minute and see whether it got better. On two CPU cores, a few minutes in all.
#
#     bash examples/quickstart.sh [OUTPUT_FOLDER]        (from the repository root; default: quickstart)
set -euo pipefail
out=${1:-quickstart}

# A real benchmark without a download: first sentences of docstrings as queries, the rest as documents.
# Train and test share no source file. One that is there already is kept.
[ -e "$out/docstrings" ] || python examples/docstring_benchmark.py "$out/docstrings"

# Before: how well the general model does on this domain, on the test split.
retrokit eval minilm --on "beir:$out/docstrings"

# One minute of training on the train split. --max-length 128: the documents are short, and short inputs are quick.
retrokit finetune minilm --data "beir:$out/docstrings,split=train" --sim cosine \
    --time-budget 60s --batch-size 32 --max-length 128 --seed 0 -o "$out/run" --overwrite

# After: both models side by side, with the difference and a paired significance test over the test queries.
retrokit eval minilm "$out/run" --on "beir:$out/docstrings" --metrics ndcg@10,recall@100,mrr@10

echo "Benchmark: $out/docstrings    trained model: $out/run"
