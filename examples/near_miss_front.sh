#!/usr/bin/env bash
# How well encoders separate near-misses, compared with `minilm`, and what that costs in relevance.
#
#   bash examples/near_miss_front.sh "data/scifact data/cisi" OUT/first-structure OUT/first-both
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
near=() systems=(minilm:max_length=128)
for encoder in "${@:2}"; do
    near+=(--with "dense:$encoder")
    systems+=("$encoder,max_length=128")
done
retrokit rerank minilm --on "pairs:$here/near_misses/test.jsonl" "${near[@]}"
for set in $1; do
    retrokit eval "${systems[@]}" --on "beir:$set" --metrics ndcg@10
done
