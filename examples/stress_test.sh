#!/usr/bin/env bash
# What does a retriever not understand? A stress test on your texts, with a gate, its edits to read, and a page.
#
#     bash examples/stress_test.sh OUTPUT_FOLDER CORPUS SYSTEM...
#     bash examples/stress_test.sh stress data/scifact/corpus.jsonl minilm runs/mine
#
# CORPUS has a JSON object with a field `text` a line. OUTPUT_FOLDER gets edits.jsonl, stress.json, stress.html and
# pictures/. BM25 and the fusion of the first system with it are tested too. The example exits with 1 if the first
# system passes fewer than 30% of the negations.
set -euo pipefail
out=$1 corpus=$2
shift 2
mkdir -p "$out"

retrokit probe stress "$@" bm25 "hybrid:a=bm25,b=$1,fusion=minmax" --texts "$corpus" \
    --save-edits "$out/edits.jsonl" --plot "$out/pictures" --json > "$out/stress.json"
retrokit report "$out/stress.json" -o "$out/stress.html"
retrokit probe stress "$1" --texts "$corpus" --capabilities negation --with none \
    --fail-under negation=0.3 --junit "$out/stress.xml"
