#!/usr/bin/env bash
# A gate for continuous integration: has a change to the encoder made retrieval worse? No network for local encoders and
# data.
#
#     bash examples/ci_gate.sh OUTPUT_FOLDER ENCODER BEIR_FOLDER [BASELINE_FILE]
#     bash examples/ci_gate.sh ci runs/new data/scifact scifact.json
#
# The first time the baseline is stored; keep it in the repository. From then on the exit code is 1 where nDCG@10 has
# fallen by more than 0.01 and by more than chance, or recall@100 is under 0.5. Either way OUTPUT_FOLDER has junit.xml,
# for the CI's page of tests, and summary.md, for the comment on the pull request.
set -euo pipefail
out=$1 encoder=$2 data=$3 baseline=${4:-$1/baseline.json}

gates=(--fail-under recall@100=0.5 --junit "$out/junit.xml" --markdown-summary "$out/summary.md")
if [[ -e $baseline ]]; then
    gates+=(--baseline "$baseline" --max-drop 0.01 --gate-metric ndcg@10)
else
    gates+=(--save-baseline "$baseline")
fi
retrokit eval "$encoder" --on "beir:$data" --metrics ndcg@10,recall@100 "${gates[@]}"
