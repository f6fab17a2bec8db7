#!/usr/bin/env bash
# Looks inside an encoder and the runs trained from it with different similarities (those of seed 0 that the study
# docs/reproduction/studies/similarities_on_scifact.toml leaves in the folder STUDY): norms and Fisher information (MAG, Tables 2, 3, 26 and Figure
# 4), fragments, contrast and geometry (SFS, Figures 2 and 3, Table 7), near-misses (COMP, Figure 1), layers (CROP, Figure
# 4b). OUT/NAME.json and OUT/NAME/ (CSV, PNG, SVG) for each probe; existing results are not recomputed. DATA
# contains scifact/, banking77/, counterfactual/, paradetox/ and near-misses.jsonl (what `retrokit augment near-misses` writes).
#
#   bash docs/reproduction/scripts/probe_runs.sh DATA STUDY OUT "magnitude fisher fragments contrast near-miss geometry layers"
set -euo pipefail
data=$1 study=$2 out=$3 parts=$4
mkdir -p "$out"
encoders=(minilm)
for sim in cosine dnorm qnorm dot learn sfs_16; do encoders+=("$study/finetune/$sim-0-"*); done
fragments=(minilm "${encoders[6]}")

probe() { # NAME PROBE ENCODERS-AND-OPTIONS...
    local name=$1 probe=$2
    shift 2
    [ -f "$out/$name.json" ] && return
    retrokit probe "$probe" "$@" --plot "$out/$name" --json >"$out/$name.json.part"
    mv "$out/$name.json.part" "$out/$name.json"
}

for part in $parts; do
    case $part in
    magnitude)
        probe magnitude magnitude "${encoders[@]}" --on "beir:$data/scifact" --cv-reference "${encoders[4]}"
        probe magnitude-gain magnitude "${encoders[@]:2}" --on "beir:$data/scifact" --reference-encoder "${encoders[1]}"
        probe magnitude-proxies magnitude "${encoders[@]}" --on "beir:$data/scifact" --without-labels
        ;;
    fisher) probe fisher fisher "${encoders[@]}" --on "beir:$data/scifact,split=train" ;;
    fragments)
        for labelled in counterfactual banking77; do
            for size in 64 16; do
                probe "fragments-$labelled-$size" fragments "${fragments[@]}" --size $size \
                    --on "classify:$data/$labelled/train.jsonl,test=$data/$labelled/test.jsonl"
            done
        done
        ;;
    contrast) probe contrast contrast "${fragments[@]}" --on "pairs:$data/paradetox/pairs.jsonl,a=toxic,b=neutral" --size 16 ;;
    near-miss)
        probe near-miss near-miss "${encoders[@]}" --on "pairs:$data/near-misses.jsonl" \
            --paraphrases "beir:$data/scifact,split=train"
        ;;
    geometry) probe geometry geometry "${encoders[@]}" --on "beir:$data/scifact" --size 16 ;;
    layers) probe layers layers "${encoders[@]:0:4}" --on "classify:$data/banking77/test.jsonl" --sim cosine ;;
    *)
        echo "unknown part $part: magnitude, fisher, fragments, contrast, near-miss, geometry, layers" >&2
        exit 2
        ;;
    esac
done
