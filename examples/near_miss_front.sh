#!/usr/bin/env bash
# How much of a first stage can see near-misses, and what that costs in relevance: `minilm` and an encoder that learned
# near-misses, side by side in one vector, with one share of the cosine after another; and what other encoders do.
#
#   bash examples/default_verifier.sh verifier
#   bash examples/near_miss_front.sh verifier/run "data/scifact data/cisi" "0.05 0.1 0.2 0.3 0.5 0.7"
#   bash examples/near_miss_front.sh OUT/first-structure "data/scifact data/cisi" "0.2 0.5" OUT/first-both OUT/first-sfs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
plain=minilm:max_length=128
near=() systems=("$plain")
for weight in $3; do
    near+=(--with "dense:\"joint:a=minilm,b=$1,weight=$weight\"")
    systems+=("joint:a=\"$plain\",b=\"$1,max_length=128\",weight=$weight")
done
for encoder in "$1" "${@:4}"; do
    near+=(--with "dense:$encoder")
    systems+=("$encoder,max_length=128")
done
retrokit rerank minilm --on "pairs:$here/near_misses/test.jsonl" "${near[@]}"
for set in $2; do
    retrokit eval "${systems[@]}" --on "beir:$set" --metrics ndcg@10
done
