#!/usr/bin/env bash
# Does the norm of an embedding carry information in an image-text model? (MAG 5.3, Table 6.) Trains two small towers from
# fresh weights on glyphs and their names, with symmetric and one-directional losses, with and without normalisation, and
# measures d and R@1 on both sides. Existing results are not recomputed.
#
#   bash docs/reproduction/scripts/clip.sh OUT "0 1 2" && python docs/reproduction/scripts/clip_table.py OUT
set -euo pipefail
out=$1 seeds=$2
here=$(dirname "$0")

[ -d "$out/data" ] || python "$here/glyphs.py" "$out/data"
[ -d "$out/clip" ] || python "$here/small_clip.py" "$out/data/text-to-image.jsonl" "$out/clip"

train() { # NAME SEED, PAIRS (the anchor is the query), SIMILARITY, DIRECTIONS
    [ -f "$out/$1-$2/model.safetensors" ] && return
    # --scale auto: every similarity starts as sharp as cosine at scale 20.
    retrokit finetune "scratch:$out/clip,seed=$2" --data "$out/data/$3.jsonl" --sim "$4" --loss "infonce:directions=$5" \
        --scale auto --epochs 10 --batch-size 128 --lr 2e-3 --precision fp32 --seed "$2" -o "$out/$1-$2" --overwrite
    rm -r "$out/$1-$2/checkpoints"
}

for seed in $seeds; do
    train norm-sym "$seed" text-to-image cosine both
    train nonorm-sym "$seed" text-to-image dot both
    train imgnorm-i2t "$seed" image-to-text qnorm query-to-document
    train nonorm-i2t "$seed" image-to-text dot query-to-document
    train txtnorm-t2i "$seed" text-to-image qnorm query-to-document
    train nonorm-t2i "$seed" text-to-image dot query-to-document
done

on=(--on "beir:$out/data/image-to-text" --on "beir:$out/data/text-to-image")
retrokit eval "$out"/*-[0-9]* "${on[@]}" --sim cosine --sim dot --metrics accuracy@1 --precision fp32 --json >"$out/eval.json"
retrokit probe magnitude "$out"/*-[0-9]* "${on[@]}" --precision fp32 --json >"$out/probe.json"
