#!/usr/bin/env bash
# When should a search give no answer? Calibrate on the train split, check on the test split, then search. No network for
# local encoders and data.
#
#     bash examples/abstain.sh BEIR_FOLDER SYSTEM [ERROR] [OUTPUT_FOLDER]
#     bash examples/abstain.sh data/scifact minilm 0.05 abstention
#
# ERROR is the share of queries with nothing relevant in the corpus that may be answered.
set -euo pipefail
data=$1 system=$2 error=${3:-0.05} out=${4:-abstention}
mkdir -p "$out"

# The signals of the train queries, with and without their relevant documents.
retrokit calibrate "$system" --on "beir:$data,split=train" --abstain "$error" -o "$out/calibration.json"
abstain=(--abstain "$error" --calibration "$out/calibration.json")

# The realised error on queries that the calibration has not seen, and what the answers are worth.
retrokit eval "$system" --on "beir:$data" --metrics ndcg@10,accuracy@1 "${abstain[@]}"

# A line of JSON for each query; "abstained": true is in those without an answer.
retrokit search "$system" --corpus "$data" --queries "$data" -k 3 "${abstain[@]}" -o "$out/answers.jsonl"
