#!/usr/bin/env bash
# A gate for continuous integration: has a change to the encoder made retrieval worse? No network for local encoders and
# data.
#
#     bash examples/ci/gate.sh OUTPUT_FOLDER ENCODER BEIR_FOLDER [BASELINE_FILE]
#     bash examples/ci/gate.sh ci runs/new data/scifact scifact.json
#
# The first run stores the baseline; commit it. Later runs exit with 1 if nDCG@10 has fallen by more than 0.02 and
# significantly, or if recall@100 is below 0.5. OUTPUT_FOLDER gets junit.xml and summary.md.
set -euo pipefail
out=$1 encoder=$2 data=$3 baseline=${4:-$1/baseline.json}

gates=(--fail-under recall@100=0.5 --junit "$out/junit.xml" --markdown-summary "$out/summary.md")
if [[ -e $baseline ]]; then
    gates+=(--baseline "$baseline" --max-drop 0.02 --gate-metric ndcg@10)
else
    gates+=(--save-baseline "$baseline")
fi
retrokit eval "$encoder" --on "beir:$data" --metrics ndcg@10,recall@100 "${gates[@]}"
