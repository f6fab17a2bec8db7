#!/usr/bin/env bash
# Crops or dropout? Trains without labels on a corpus and measures how well the neighbours of a text share its label
# (CROP, Tables 2, S4, S6 and S7, Figures 1, 4a and S1). DATA is JSON lines with "text" and "label". Existing results
# are not recomputed. Results: OUT/NAME.json, shown as tables by docs/reproduction/scripts/crops_table.py.
#
#   bash docs/reproduction/scripts/crops_vs_dropout.sh DATA OUT "static held-out ten curve sweep minilm masking freezing pooling"
set -euo pipefail
data=$1 out=$2 parts=$3 rows=$1
mkdir -p "$out"

train() { # NAME ENCODER TASK OPTIONS...
    local name=$1 encoder=$2 task=$3
    shift 3
    [ -f "$out/$name.json" ] && return
    retrokit finetune "$encoder" --data "$rows" --eval "$task" --weight-decay 0 "$@" \
        -o "$out/run-$name" --overwrite --json >"$out/$name.json.part"
    mv "$out/$name.json.part" "$out/$name.json"
    rm -r "$out/run-$name"
}

static() { # NAME OPTIONS...: a bare table of embeddings for one epoch, at the paper's learning rate for it
    local name=$1
    shift
    train "static-$name" static:dim=768 "knn:$data" --lr 0.5 "$@"
}

minilm() { # NAME SAMPLE OPTIONS...: evaluated on a sample, for encoding takes longer than training
    local name=$1 sample=$2
    shift 2
    train "minilm-$name" minilm "knn:$data,sample=$sample" --lr 2e-5 "$@"
}

for part in $parts; do
    case $part in
    static) # Table S6, column 11
        for seed in 0 1 2; do
            static "crops-$seed" --augment crops --seed $seed
            static "dropout-$seed" --augment dropout --dropout 0.1 --seed $seed
        done
        ;;
    held-out) # Table S4: trained on the nine tenths that the classifier learns from
        rows=$out/train.jsonl
        [ -f "$rows" ] || retrokit augment split "$data" --train "$rows" --test "$out/test.jsonl"
        for seed in 0 1 2; do
            static "held-out-crops-$seed" --augment crops --seed $seed
            static "held-out-dropout-$seed" --augment dropout --dropout 0.1 --seed $seed
        done
        rows=$data
        ;;
    ten) # Table S6, column 11, with its ten epochs; the warm-up is a tenth of the first, as in the authors' code
        for seed in 0 1 2; do
            static "ten-crops-$seed" --augment crops --epochs 10 --warmup 0.01 --seed $seed
            static "ten-dropout-$seed" --augment dropout --dropout 0.1 --epochs 10 --warmup 0.01 --seed $seed
        done
        ;;
    curve) # Figure 1
        static curve-crops --augment crops --eval-every 50
        static curve-dropout --augment dropout --dropout 0.1 --eval-every 50
        ;;
    sweep) # Figure S1
        for sentences in 1 3 4 6; do static "t-$sentences" --augment crops:$sentences; done
        for temperature in 0.005 0.5 5; do static "tau-$temperature" --augment crops --temperature $temperature; done
        ;;
    minilm) # Table 2
        for augment in crops dropout; do minilm $augment 4000 --augment $augment --steps 100; done
        ;;
    masking) # Figure S1c
        for fraction in 0.1 0.3; do
            minilm "mask-$fraction" 4000 --augment crops --augment "mask:$fraction" --steps 100
        done
        ;;
    freezing) # Figure 4a
        for layers in 1 2 3 6; do
            minilm "last-$layers" 2000 --augment crops --steps 25 --freeze "all-but:$layers"
        done
        ;;
    pooling) # Table S7 before training, Figure S1a after it
        for pooling in mean cls sep token7; do
            train "minilm-$pooling" "minilm:pooling=$pooling" "knn:$data,sample=4000" --lr 2e-5 --augment crops --steps 100
        done
        ;;
    *)
        echo "unknown part $part: static, held-out, ten, curve, sweep, minilm, masking, freezing, pooling" >&2
        exit 2
        ;;
    esac
done
