#!/usr/bin/env bash
# Relevance and identity in one reranker: the default verifier trained on, end to end, with shares of relevance pairs
# (titles and abstracts of papers) and of near-misses; ranking of other sources, and false-accept rates, for each share.
# Existing results are not recomputed.
#
#   python examples/studies_data.py ABSTRACTS SURE papers
#   python examples/scifact_without_leaks.py data/scifact scifact 2
#   bash examples/relevance_and_identity.sh papers/titles OUT "scifact data/cisi" "0 0.25 0.5 0.75 0.9 1" --steps 80
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
titles=$(realpath "$1") out=$2 sets=$(realpath $3) shares=$4
shift 4
bash "$here/near_miss_data.sh" "$out"
cd "$out"

[ -f relevance.jsonl ] ||
    retrokit augment mine "beir:$titles,split=train" --encoder bm25 --corpus "$titles" --negatives 1 --margin none \
        --first-rank 2 -o relevance.jsonl

encoder=minilm:max_length=96
baseline="maxsim:\"$encoder\",precision=auto"
systems=(--with "$baseline" --with default:precision=auto)
for share in $shares; do
    run=share-$share
    case $share in # of all steps; a batch is of one source
    0) data=(--data written.jsonl) ;;
    1) data=(--data relevance.jsonl) ;;
    *)
        weight=$(python -c "import sys; s, *n = map(float, sys.argv[1:]); print(round(s / (1 - s) * n[0] / n[1], 3))" \
            "$share" "$(wc -l <written.jsonl)" "$(wc -l <relevance.jsonl)")
        data=(--data written.jsonl --data "relevance.jsonl,weight=$weight")
        ;;
    esac
    grep -q '"finished"' "$run/retrokit.json" 2>/dev/null ||
        retrokit rerank train cnn "$encoder" --start default "${data[@]}" --dev choose.jsonl --batch-size 16 --in-batch 8 --end-to-end \
            --lora rank=32,last=4 --encoder-dropout 0 --lr 1e-3 --encoder-lr 5e-4 --eval-every 1000000 "$@" -o "$run" --resume
    systems+=(--with "verifier:$run,precision=auto")
done
retrokit rerank minilm --on "pairs:$here/near_misses/test.jsonl" "${systems[@]}"
for set in $sets; do
    retrokit rerank minilm:max_length=128 --on "beir:$set" --depth 10 --metrics ndcg@10 "${systems[@]}" --results results \
        --baseline-system "minilm:max_length=128 cosine + $baseline, depth 10"
done
