#!/usr/bin/env bash
# Which similarity to train with? Fine-tunes minilm on a BEIR folder's training pairs with each similarity and seed, and
# evaluates every run on the test queries. Results: OUT/SIM-SEED.json. What is there already is not done again.
#
#   bash examples/similarities_on_scifact.sh data/scifact OUT "cosine sfs:16 dot qnorm dnorm learn" "0 1 2"
set -euo pipefail
data=$1 out=$2 similarities=$3 seeds=$4

mkdir -p "$out"
if [ ! -f "$out/minilm.json" ]; then
    retrokit eval minilm --on "beir:$data" --json >"$out/minilm.json.part"
    mv "$out/minilm.json.part" "$out/minilm.json"
fi
for seed in $seeds; do
    for sim in $similarities; do
        name=${sim//:/}-$seed
        [ -f "$out/$name.json" ] && continue
        # --scale auto: every similarity starts as sharp as cosine at scale 20.
        retrokit finetune minilm --data "beir:$data,split=train" --sim "$sim" --scale auto \
            --steps 60 --batch-size 64 --max-length 128 --lr 2e-5 --seed "$seed" -o "$out/run-$name" --overwrite
        retrokit eval "$out/run-$name" --on "beir:$data" --json >"$out/$name.json.part"
        mv "$out/$name.json.part" "$out/$name.json"
        rm -r "$out/run-$name/checkpoints"
    done
done
