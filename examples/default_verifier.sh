#!/usr/bin/env bash
# The verifier that comes with retrokit (`rerank verify default`), made anew from near_miss_data.sh. Half an hour on two
# cores that have nothing else to do. What is there already is not done again.
#
#   bash examples/default_verifier.sh OUT
set -euo pipefail
bash "$(dirname "$0")/near_miss_data.sh" "$1"
cd "$1"

grep -q '"finished"' run/retrokit.json 2>/dev/null ||
    retrokit rerank train cnn "${ENCODER:-minilm}" --data written.jsonl --data texts.jsonl,weight=0.25 \
        --data scenes.jsonl,weight=0.1 --dev choose.jsonl --in-batch 2 --batch-size 16 --steps "${STEPS:-3000}" \
        --eval-every "${EVAL_EVERY:-250}" --end-to-end --lora "${LORA:-rank=32,last=6}" --encoder-dropout 0 --lr 1e-3 \
        --encoder-lr 5e-4 -o run --resume
[ -d small ] || retrokit rerank shrink run -o small --language en
retrokit rerank calibrate ./small calibrate.jsonl --false-accept-rate 0.1
