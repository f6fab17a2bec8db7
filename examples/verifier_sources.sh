#!/usr/bin/env bash
# What each source brings to a verifier such as the default one: the same short training with all of them (`none` left out)
# and without one at a time, for several seeds; then near-misses written apart from the training, edits of people's sentences
# (PEOPLE), and the ranking of a BEIR folder (SET). OUT holds the data that relevance_and_identity.sh puts there, without
# any share. Existing results are not recomputed.
#
#   bash examples/relevance_and_identity.sh papers/titles OUT scifact ""
#   python examples/peoples_near_misses.py build DATA people.jsonl
#   bash examples/verifier_sources.sh OUT people.jsonl scifact "0 1 2" --steps 240
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
people=$(realpath "$2") set=$(realpath "$3") seeds=$4
cd "$1"
shift 4

sources=(written.jsonl texts.jsonl,weight=0.25 scenes.jsonl,weight=0.1 relevance.jsonl,weight=0.3)
systems=()
for left_out in none written texts scenes relevance; do
    data=()
    for source in "${sources[@]}"; do
        [[ $source == $left_out.jsonl* ]] || data+=(--data "$source")
    done
    for seed in $seeds; do
        run=without-$left_out-$seed
        grep -q '"finished"' "$run/retrokit.json" 2>/dev/null ||
            retrokit rerank train cnn minilm:max_length=32 "${data[@]}" --dev choose.jsonl --in-batch 2 --batch-size 16 \
                --end-to-end --lora rank=32,last=4 --encoder-dropout 0 --lr 1e-3 --encoder-lr 5e-4 --eval-every 1000000 \
                --seed "$seed" "$@" -o "$run" --resume
        systems+=(--with "cnn:$run,precision=auto")
    done
done
retrokit rerank minilm:max_length=128 --on "beir:$set" --depth 10 --metrics ndcg@10 "${systems[@]}" --results results --json >ranking.json
python "$here/verifier_sources.py" ranking.json "$here/near_misses/test.jsonl" "$people"
