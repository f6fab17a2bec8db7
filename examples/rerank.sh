#!/usr/bin/env bash
# What does a second stage add? Reranking on BEIR folders, fusion, a run as a filter, and near-misses. No network for
# local encoders and data.
#
#     bash examples/rerank.sh OUTPUT_FOLDER ENCODER "RERANKER ..." BEIR_FOLDER [DEPTH]
#     bash examples/rerank.sh reranking minilm "maxsim cross-encoder:models/ce" data/scifact 100
#
# Scores are cached in OUTPUT_FOLDER/work: a second or resumed call computes only what is missing.
set -euo pipefail
out=$1 encoder=$2 rerankers=$3 data=$4 depth=${5:-100}
with=()
for reranker in $rerankers; do
    with+=(--with "$reranker")
done
mkdir -p "$out/runs"
common=(--on "beir:$data" --depth "$depth" --work "$out/work")

# Each reranker alone, with the pictures and a run of each.
retrokit rerank "$encoder" "${common[@]}" "${with[@]}" --plot "$out/plots" --save-run "$out/runs"

# The same scores, fused with the first stage's in two ways. Nothing is scored again.
retrokit rerank "$encoder" "${common[@]}" "${with[@]}" --blend 0.3 --format markdown >"$out/blend.md"
retrokit rerank "$encoder" "${common[@]}" "${with[@]}" --fusion rrf --format markdown >"$out/rrf.md"

# Three stages in a pipe: words, then each reranker on fewer documents than the one before.
retrokit eval bm25 --on "beir:$data" --metrics ndcg@10,recall@"$depth" --save-run "$out/stage.trec" >/dev/null
for reranker in $rerankers; do
    retrokit rerank --run - --on "beir:$data" --with "$reranker" --depth "$depth" --save-run - \
        <"$out/stage.trec" >"$out/next.trec"
    mv "$out/next.trec" "$out/stage.trec"
    depth=$(((depth + 1) / 2))
done

# Which near-misses would the rerankers let through? Positives are the queries' relevant documents.
retrokit augment near-misses "$data/corpus.jsonl" -o "$out/near-misses.jsonl" --per-family 100
retrokit rerank "$encoder" --on "pairs:$out/near-misses.jsonl" "${with[@]}" --paraphrases "beir:$data,split=test" \
    --plot "$out/plots"
