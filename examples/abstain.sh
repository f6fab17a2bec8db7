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
retrokit abstain calibrate "$system" --on "beir:$data,split=train" --error "$error" -o "$out/calibration.json"

# The realised error on queries that the calibration has not seen, and what the answers are worth.
retrokit abstain report "$out/calibration.json" --on "beir:$data" --error "$error" --metrics ndcg@10,accuracy@1

# A line of JSON for each query; "empty" has the reason of those without an answer.
abstain=abstain:$out/calibration.json,error=$error
retrokit search "$abstain" --corpus "$data" --queries "$data" -k 3 -o "$out/answers.jsonl"
