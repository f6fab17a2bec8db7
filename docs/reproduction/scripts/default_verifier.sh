#!/usr/bin/env bash
# The verifier that comes with retrokit (`rerank verify default`), trained from near_miss_data.sh: first on all of
# it, then on equal parts of each family. An hour and a quarter on two cores. Existing results are not recomputed.
#
#   bash docs/reproduction/scripts/default_verifier.sh OUT
set -euo pipefail
bash "$(dirname "$0")/near_miss_data.sh" "$1"
cd "$1"

train() { # FOLDER STEPS EVAL_EVERY LR ENCODER_LR, then what to begin with and to learn from
    grep -q '"finished"' "$1/retrokit.json" 2>/dev/null ||
        retrokit rerank train cnn "${@:6}" --data texts.jsonl,weight=0.25 --data scenes.jsonl,weight=0.1 --dev choose.jsonl \
            --in-batch 2 --batch-size 16 --steps "$2" --eval-every "$3" --end-to-end --lora "${LORA:-rank=32,last=6}" \
            --encoder-dropout 0 --lr "$4" --encoder-lr "$5" -o "$1" --resume
}

train first "${STEPS:-4000}" "${EVAL_EVERY:-250}" 1e-3 5e-4 "${ENCODER:-minilm}" --data written.jsonl
for family in binding relations negation; do # three of five written triplets are of binding
    grep "\"family\": \"$family\"" written.jsonl > "written-$family.jsonl"
done
train run "${MORE:-1200}" "${EVAL_EVERY:-200}" 5e-4 2.5e-4 first --start first --data written-binding.jsonl,weight=0.35 \
    --data written-relations.jsonl --data written-negation.jsonl
[ -d small ] || retrokit rerank shrink run -o small --encoder "${ENCODER:-minilm}"
retrokit rerank calibrate ./small calibrate.jsonl --false-accept-rate 0.1
