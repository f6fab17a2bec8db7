#!/usr/bin/env bash
# What do structural negatives cost a retriever, and what do they buy? (COMP, Table 1 and Figure 1.) Trains model A on a
# BEIR folder's training pairs, each with a negative from BM25 (D.1: triplets), and model B on the same with 19.2% structural near-misses,
# for the same time and with the paper's settings; evaluates both on two BEIR folders and on held-out near-misses. Existing results
# are not recomputed. Results: OUT/SEED.json, shown as a table by examples/structural_negatives_table.py. BUDGET is a time, or the
# steps of A and B that fit into one where the machine is idle ("51:42"), which a busy machine does not change. With the word
# pairs at the end, the training pairs have no negatives.
#
#   bash examples/structural_negatives.sh data/scifact data/cisi OUT "42 43 44" 4m [pairs]
set -euo pipefail
data=$1 other=$2 out=$3 seeds=$4 budget=$5
mkdir -p "$out"

if [ ! -f "$out/mixture.jsonl" ]; then
    retrokit augment near-misses "$data/corpus.jsonl" --per-family 1000 --split 0.8 -o "$out/near.jsonl"
    if [ "${6:-triplets}" = triplets ]; then
        retrokit augment mine "beir:$data,split=train" --encoder bm25 --corpus "$data" --negatives 1 --margin none --first-rank 2 \
            -o "$out/pairs.jsonl"
    else
        python - "beir:$data,split=train" "$out/pairs.jsonl" <<'PYTHON'
import sys

from retrokit.data.jsonl import write_jsonl
from retrokit.data.pairs import read_source

records = read_source(sys.argv[1], "pairs").records
write_jsonl(sys.argv[2], ({"anchor": pair.anchor, "positive": pair.positive} for pair in records))
PYTHON
    fi
    pairs=$(wc -l <"$out/pairs.jsonl")
    structural=$(((pairs * 192 + 404) / 808)) # 19.2% of the mixture
    retrokit augment mix "$out/pairs.jsonl" "$out/near.train.jsonl,count=$structural" -o "$out/mixture.jsonl"
fi

case $budget in
*:*) budget_a=(--steps "${budget%:*}") budget_b=(--steps "${budget#*:}") ;;
*) budget_a=(--time-budget "$budget") budget_b=(--time-budget "$budget") ;;
esac

train() { # NAME DATA SEED BUDGET...
    local name=$1 data=$2 seed=$3
    shift 3
    [ -f "$out/run-$name/retrokit.json" ] && grep -q '"finished"' "$out/run-$name/retrokit.json" && return
    retrokit finetune minilm --data "$data" --temperature 0.1 --max-length 128 --batch-size 64 --lr 2e-5 \
        "$@" --seed "$seed" -o "$out/run-$name" --overwrite
}

for seed in $seeds; do
    [ -f "$out/$seed.json" ] && continue
    train "A-$seed" "$out/pairs.jsonl" "$seed" "${budget_a[@]}"
    train "B-$seed" "$out/mixture.jsonl" "$seed" "${budget_b[@]}"
    retrokit eval minilm "$out/run-A-$seed" "$out/run-B-$seed" --on "beir:$data" --on "beir:$other" \
        --on "pairs:$out/near.test.jsonl" --json >"$out/$seed.json.part"
    mv "$out/$seed.json.part" "$out/$seed.json"
done
