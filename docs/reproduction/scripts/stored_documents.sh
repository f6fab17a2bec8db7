#!/usr/bin/env bash
# Improve a search without embedding a document again: export once, train the query side, then move to another encoder
# by a bridge, which the pairs then improve. Needs a BEIR folder with the splits train, dev and test. No network for local encoders and data.
#
#     bash docs/reproduction/scripts/stored_documents.sh OUTPUT_FOLDER OLD_ENCODER NEW_ENCODER BEIR_FOLDER
#     bash docs/reproduction/scripts/stored_documents.sh stored minilm runs/mine data/mine
set -euo pipefail
out=$1 old=$2 new=$3 data=$4
mkdir -p "$out"
retrokit export "$old" --on "beir:$data" -o "$out/documents"
for side in map encoder; do
    retrokit vectors train "$out/documents" --query-side "$side" --data "beir:$data,split=train" \
        --eval "beir:$data,split=dev" --epochs 10 --eval-every 20 -o "$out/$side"
done
retrokit eval "$old" "$out/map" "$out/encoder" --on "beir:$data" --metrics ndcg@10,recall@100
retrokit vectors bridge "$out/documents" "$new" -o "$out/bridge" --on "beir:$data"
retrokit vectors train "$out/documents" --encoder "$out/bridge" --data "beir:$data,split=train" \
    --eval "beir:$data,split=dev" --epochs 10 --eval-every 20 -o "$out/bridge-trained"
systems=()
for queries in "$old" "$out/bridge" "$out/bridge-trained"; do systems+=("dense:$queries,export=$out/documents"); done
retrokit eval "${systems[@]}" --on "beir:$data" --metrics ndcg@10,recall@100
