#!/usr/bin/env bash
# A cross-encoder from the body of `minilm`, trained on relevance (titles and abstracts of papers, with mined negatives) and
# on near-misses, and compared with the verifiers on relevance of other sources and on near-misses.
#
#   python examples/studies_data.py ABSTRACTS SURE papers
#   bash examples/cross_encoder.sh papers/titles OUT "data/scifact data/cisi" --steps 450
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
titles=$(realpath "$1") out=$2 sets=$(realpath $3)
shift 3
bash "$here/near_miss_data.sh" "$out"
cd "$out"

[ -f mined.jsonl ] ||
    retrokit augment mine "beir:$titles,split=train" --encoder bm25 --corpus "$titles" --negatives 2 --margin none \
        --first-rank 2 -o mined.jsonl
grep -q '"finished"' cross/retrokit.json 2>/dev/null ||
    retrokit rerank train cross-encoder minilm --data mined.jsonl --data written.jsonl --data texts.jsonl,weight=0.5 \
        --dev choose.jsonl --in-batch 1 --max-length 96 --lr 1e-4 --eval-every 100 "$@" -o cross --resume
retrokit rerank minilm --on "pairs:$here/near_misses/test.jsonl" --with maxsim --with default --with cross-encoder:cross
for set in $sets; do
    retrokit rerank bm25 --on "beir:$set" --depth 20 --with maxsim --with default --with cross-encoder:cross
done
