#!/usr/bin/env bash
# A verifier that separates near-misses from paraphrases (COMP, 3.2): triplets whose positives are rewritten too, training on
# them, further training on triplets that were written one by one, calibration on pairs of other texts, and verdicts. Existing results
# are not recomputed, and an interrupted training resumes. CORPUS and OTHER are JSON lines with a
# field "text"; OTHER is for calibration and must hold other texts. MODE is end-to-end (70 minutes on two cores) or frozen;
# VERIFIER is cnn or transformer.
#
#   bash examples/verifier.sh corpus.jsonl other.jsonl OUT [MODE]
set -euo pipefail
corpus=$1 other=$2 out=$3 mode=${4:-end-to-end}
here=$(dirname "$0")
verifier=${VERIFIER:-cnn} encoder=${ENCODER:-minilm}
case $mode in
frozen) how=(--cache "$out/tokens") ;;
end-to-end) how=(--end-to-end --encoder-lr 1e-4) ;;
*)
    echo "unknown mode $mode: end-to-end, frozen" >&2
    exit 2
    ;;
esac
mkdir -p "$out"

make() { # OUTPUT WORDS...
    local output=$1
    shift
    [ -f "$output" ] || python "$here/$1" "${@:2}" -o "$output"
}
make "$out/texts.jsonl" verifier_pairs.py texts "$corpus" --per-family "${PER_FAMILY:-2000}"
make "$out/scenes.jsonl" verifier_scenes.py --count "${SCENES:-20000}"
make "$out/written.jsonl" verifier_pairs.py mirrored "$here/near_misses/train.jsonl"
make "$out/heldout.jsonl" verifier_pairs.py texts "$other" --per-family "${HELD_OUT:-200}" --seed 1

train() { # RUN WORDS...
    grep -q '"finished"' "$1/retrokit.json" 2>/dev/null ||
        retrokit rerank train "$verifier" "${@:2}" --in-batch 2 "${how[@]}" -o "$1" --resume
}
first="$out/$verifier-$mode-first" run="$out/$verifier-$mode"
train "$first" "$encoder" --data "$out/texts.jsonl" --data "$out/scenes.jsonl" --lr 1e-3 --steps "${STEPS:-1500}"
[ "$mode" = frozen ] || encoder=$first # which has learned too
train "$run" "$encoder" --start "$first" --data "$out/written.jsonl" --data "$out/texts.jsonl,weight=0.2" \
    --data "$out/scenes.jsonl,weight=0.1" --lr 5e-4 --steps "${MORE_STEPS:-700}"

retrokit rerank calibrate "$run" "$out/heldout.jsonl" --false-accept-rate 0.05
printf '%s\n' '{"text": "The dog bit the man.", "candidate": "The man was bitten by the dog."}' \
    '{"text": "The dog bit the man.", "candidate": "The man bit the dog."}' | retrokit rerank verify "$run"
