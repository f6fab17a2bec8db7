#!/usr/bin/env bash
# How much of a first stage can see near-misses, and what that costs in relevance: `minilm` and the encoder of a verifier
# that was trained end to end, side by side in one vector, with one share of the cosine after another.
#
#   bash examples/default_verifier.sh verifier
#   bash examples/near_miss_front.sh verifier/run "data/scifact data/cisi" "0.05 0.1 0.2 0.3 0.5 0.7"
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
plain=minilm:max_length=128
systems=("$plain")
for weight in $3; do
    systems+=("joint:a=\"$plain\",b=\"$1,max_length=128\",weight=$weight")
done
systems+=("$1,max_length=128")
retrokit probe near-miss "${systems[@]}" --on "pairs:$here/near_misses/test.jsonl"
for set in $2; do
    retrokit eval "${systems[@]}" --on "beir:$set" --metrics ndcg@10
done
