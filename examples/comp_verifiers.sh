#!/usr/bin/env bash
# COMP's own networks over token maps (F3 and F4, Eqs. 8 and 9) on one mixture (D.1): relevance data (titles and
# abstracts of papers, a negative from BM25 each) with 19.1% of triplets (s, s, near-miss), both in each batch; frozen and end to end,
# with the rates and the patience of D.3, the weights of the best nDCG@10. Then reranking of other sources, and
# near-misses (Figures 2 and 3). Existing results are not recomputed. STEPS are of the frozen and of the joint trainings.
# RATE is the verifier's, ten times the encoder's. OPTIONS go to `retrokit rerank train`, in place of --mix.
#
#   python examples/studies_data.py ABSTRACTS SURE papers
#   bash examples/comp_verifiers.sh papers/titles OUT "scifact data/cisi" STEPS STEPS [RATE [OPTIONS...]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
titles=$(realpath "$1") sets=$(realpath $3) frozen=$4 together=$5 rate=${6:-1e-4}
options=("${@:7}")
[ $# -gt 6 ] || options=(--mix)
mkdir -p "$2" && cd "$2"

[ -f near.train.jsonl ] || retrokit augment near-misses "$titles/corpus.jsonl" --per-family 630 --split 0.8 -o near.jsonl
mine() { # OUTPUT SPLIT NEGATIVES
    [ -f "$1" ] || retrokit augment mine "beir:$titles,split=$2" --encoder bm25 --corpus "$titles" --negatives "$3" \
        --margin none --first-rank 2 -o "$1"
}
mine relevance.jsonl train 1
mine relevance-dev.jsonl test 5
head -100 relevance-dev.jsonl >dev.jsonl

train() { # RUN NETWORK STEPS OPTIONS...
    grep -q '"finished"' "$1/retrokit.json" 2>/dev/null ||
        retrokit rerank train "$2" minilm:max_length=64 --data relevance.jsonl --data near.train.jsonl --dev dev.jsonl --lr "$rate" \
            --best-metric ndcg@10 --steps "$3" --eval-every "$(($3 / 8))" --patience "$((40000 / $3))" "${options[@]}" \
            "${@:4}" -o "$1" --resume
}
systems=(--with 'maxsim:"minilm:max_length=64",precision=auto')
for network in cnn transformer; do
    train "$network-frozen" "$network:plain" "$frozen"
    train "$network-end-to-end" "$network:plain" "$together" --end-to-end --encoder-lr "$(python -c "print($rate / 10)")"
    systems+=(--with "$network:$network-frozen,precision=auto" --with "$network:$network-end-to-end,precision=auto")
done
retrokit rerank minilm --on "pairs:near.test.jsonl" --on "pairs:$here/near_misses/test.jsonl" "${systems[@]}"
for set in $sets; do
    retrokit rerank minilm:max_length=128 --on "beir:$set" --depth 20 --metrics ndcg@10 "${systems[@]}" --results results
done
