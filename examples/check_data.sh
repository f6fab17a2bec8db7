#!/usr/bin/env bash
# What is wrong with a test set, what do its judgements not know, and what would a hundred verdicts say? No network for local
# systems and data.
#
#     bash examples/check_data.sh OUTPUT_FOLDER TEST_SET SYSTEM SYSTEM [VERDICTS]
#     bash examples/check_data.sh checked data/scifact bm25 minilm
#     bash examples/check_data.sh checked data/scifact bm25 minilm verdicts.jsonl
#
# The first call writes OUTPUT_FOLDER/pairs.html. Judge the pairs there, export the verdicts, and call again with them: that
# estimates nDCG@10 with intervals, and writes a test set with the verdicts in it.
set -euo pipefail
out=$1 data=$2
systems=(--systems "$3" --systems "$4" --metrics ndcg@10)
verdicts=${5:-}
mkdir -p "$out"

if [[ -z $verdicts ]]; then
    retrokit check "beir:$data" --examples 3
    retrokit judge estimate "beir:$data" "${systems[@]}"
    retrokit judge pool "beir:$data" "${systems[@]}" --sample 100 --pairs "$out/pairs.html"
    exit
fi
retrokit check "beir:$data" --json >"$out/check.json"
retrokit judge estimate "beir:$data" "${systems[@]}" --verdicts "$verdicts" --json >"$out/estimate.json"
retrokit judge repair "beir:$data" --verdicts "$verdicts" -o "$out/repaired"
retrokit report "$out/check.json" "$out/estimate.json" -o "$out/report.html"
