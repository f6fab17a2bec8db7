#!/usr/bin/env bash
# Does a teacher help? Mine, score, and distil against plain InfoNCE, on SciFact without what its training and test claims
# share; every loss with each seed, then all of them on the test claims. Existing results are not recomputed.
#
#   bash docs/reproduction/scripts/teachers_on_scifact.sh data/scifact OUT static:384 "0 1 2" --epochs 3 --lr 0.05
#   FIRST=3 bash docs/reproduction/scripts/teachers_on_scifact.sh data/scifact OUT minilm "0 1 2" --epochs 1 --lr 2e-5
#
# With FIRST the test looks among the judged documents and BM25's first FIRST of every claim, for a student that is slow;
# LOSSES, a line each, are others than all four.
set -euo pipefail
data=$1 out=$2 student=$3 seeds=$4
shift 4

mkdir -p "$out"
[ -d "$out/clean" ] || python "$(dirname "$0")/scifact_without_leaks.py" "$data" "$out/clean"
test=$out/clean
if [ -n "${FIRST:-}" ]; then
    test=$out/first-$FIRST
    [ -d "$test" ] || python "$(dirname "$0")/scifact_without_leaks.py" "$data" "$test" "$FIRST"
fi
test=$(realpath "$test")
cd "$out"
[ -f hard.jsonl ] || retrokit augment mine beir:clean,split=train --encoder bm25 --corpus clean --negatives 4 -o hard.jsonl
[ -f taught.jsonl ] || retrokit augment score hard.jsonl --with 'maxsim:"minilm:max_length=128"' -o taught.jsonl
mapfile -t losses <<< "${LOSSES:-infonce
infonce+kl:temperature=0.05
kl:temperature=0.05
margin-mse}"
runs=()
for seed in $seeds; do
    for loss in "${losses[@]}"; do
        run=runs/${loss%%:*}-$seed
        runs+=("$run")
        grep -q '"finished"' "$run/retrokit.json" 2>/dev/null && continue
        # shellcheck disable=SC2086 # a loss
        retrokit finetune "$student" --data taught.jsonl --loss $loss --seed "$seed" "$@" -o "$run" --resume
    done
done
retrokit eval "${runs[@]}" "$student" bm25 --on "beir:$test" --metrics ndcg@10 --results results
