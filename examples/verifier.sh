#!/usr/bin/env bash
# A verifier that tells near-misses from paraphrases (COMP, 3.2): triplets whose positives are rewritten too, training,
# calibration on pairs of other texts, and verdicts. What is there already is not done again, and a training that was
# interrupted goes on. CORPUS and OTHER are JSON lines with a field "text"; OTHER is for calibration and must hold other
# texts. MODE is end-to-end (an hour on two cores) or frozen; VERIFIER is cnn or transformer.
#
#   bash examples/verifier.sh corpus.jsonl other.jsonl OUT [MODE]
set -euo pipefail
corpus=$1 other=$2 out=$3 mode=${4:-end-to-end}
here=$(dirname "$0")
verifier=${VERIFIER:-cnn}
mkdir -p "$out"

make() { # OUTPUT WORDS...
    local output=$1
    shift
    [ -f "$output" ] || python "$here/$1" "${@:2}" -o "$output"
}
make "$out/texts.jsonl" verifier_pairs.py texts "$corpus" --per-family "${PER_FAMILY:-2000}"
make "$out/scenes.jsonl" verifier_scenes.py --count "${SCENES:-20000}"
make "$out/heldout.jsonl" verifier_pairs.py texts "$other" --per-family "${HELD_OUT:-200}" --seed 1

case $mode in
frozen) how=(--lr 1e-3 --cache "$out/tokens") ;;
end-to-end) how=(--end-to-end --lr 1e-3 --encoder-lr 1e-4) ;;
esac
run="$out/$verifier-$mode"
if ! grep -q '"finished"' "$run/retrokit.json" 2>/dev/null; then
    retrokit rerank train "$verifier" "${ENCODER:-minilm}" --data "$out/texts.jsonl" --data "$out/scenes.jsonl" \
        --in-batch 2 --steps "${STEPS:-1500}" "${how[@]}" -o "$run" --resume
fi
retrokit rerank calibrate "$run" "$out/heldout.jsonl" --false-accept-rate 0.05
printf '%s\n' '{"text": "The dog bit the man.", "candidate": "The man was bitten by the dog."}' \
    '{"text": "The dog bit the man.", "candidate": "The man bit the dog."}' | retrokit rerank verify "$run"
