#!/usr/bin/env bash
# Does an asymmetric similarity fit a symmetric task once a model is trained with it? (MAG, 5.3, Table 5.) Trains an
# encoder on STS-B's scored pairs with each similarity and seed, and compares the runs with the untrained encoder, each
# scored with its own similarity. STSB contains train.jsonl and test.jsonl. Existing results are not recomputed.
#
#   bash docs/reproduction/scripts/sts_training.sh STSB OUT static:128 "cosine dot qnorm dnorm learn sfs:16" "0 1 2" --epochs 4
set -euo pipefail
data=$1 out=$2 encoder=$3 similarities=$4 seeds=$5
shift 5

runs=()
for sim in $similarities; do
    for seed in $seeds; do
        run=$out/${sim//:/}-$seed
        runs+=("$run")
        [ -f "$run/done" ] && continue
        # --scale auto: scores of every similarity start on the labels' scale.
        retrokit finetune "$encoder" --data "$data/train.jsonl" --loss mse --sim "$sim" --scale auto --batch-size 64 \
            --warmup 0.1 --seed "$seed" -o "$run" --overwrite "$@"
        touch "$run/done"
    done
done
retrokit eval "${runs[@]}" "$encoder" --on "sts:$data/test.jsonl"
