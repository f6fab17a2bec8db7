#!/usr/bin/env bash
# Which of several encoders is better, at what, and is it significant? Tables, a CSV file, plots, and a page. No network for local
# encoders and data.
#
#     bash examples/compare.sh OUTPUT_FOLDER "ENCODER ..." TASK [TASK ...]
#     bash examples/compare.sh comparison "minilm runs/qnorm" beir:data/scifact beir:data/fiqa sts:stsb-test.jsonl
#
# The first encoder is what the others are compared with. A TASK without a name is a BEIR folder. Existing results are not recomputed;
# encoders added later join the table.
set -euo pipefail
out=$1 encoders=$2
shift 2
tasks=()
for task in "$@"; do
    [[ $task == *:* ]] || task=beir:$task
    tasks+=(--on "$task")
done
mkdir -p "$out"

# shellcheck disable=SC2086 # one word an encoder
retrokit eval $encoders "${tasks[@]}" --results "$out/results" --plot "$out/plots"

# What is in the folder, in other forms, without computing anything again.
retrokit eval --results "$out/results" "${tasks[@]}" --format markdown >"$out/comparison.md"
retrokit eval --results "$out/results" "${tasks[@]}" --format csv >"$out/comparison.csv"

# One page to read.
retrokit report "$out/results" -o "$out/report.html"
