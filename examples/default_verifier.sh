#!/usr/bin/env bash
# The verifier that comes with retrokit (`rerank verify default`), made anew from what lies in this folder: written
# triplets, rewritings of their sentences, and scenes. 400 written triplets are held out: 150 choose the weights, 250 the
# threshold. Half an hour on two cores that have nothing else to do. What is there already is not done again.
#
#   bash examples/default_verifier.sh OUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"

[ -f calibrate.jsonl ] || python - "$here/near_misses/train.jsonl" <<'PYTHON'
import json
import random
import sys
from pathlib import Path

lines = Path(sys.argv[1]).read_text().splitlines(keepends=True)
order = list(range(len(lines)))
random.seed(7)
random.shuffle(order)
held_out, rest = ([lines[row] for row in sorted(part)] for part in (order[:400], order[400:]))
sentences = dict.fromkeys(text for row in map(json.loads, rest) for text in (row["anchor"], row["positive"]))
parts = {
    "rest": rest,
    "corpus": [json.dumps({"text": text}) + "\n" for text in sentences],
    "choose": held_out[:150],
    "calibrate": held_out[150:],
}
for name, part in parts.items():
    Path(f"{name}.jsonl").write_text("".join(part))
PYTHON

make() { [ -f "$1" ] || python "$here/$2" "${@:3}" -o "$1"; } # OUTPUT WORDS...
make scenes.jsonl verifier_scenes.py --count "${SCENES:-30000}"
make written.jsonl verifier_pairs.py mirrored rest.jsonl
make texts.jsonl verifier_pairs.py texts corpus.jsonl --per-family "${PER_FAMILY:-4000}"

grep -q '"finished"' run/retrokit.json 2>/dev/null ||
    retrokit rerank train cnn "${ENCODER:-minilm}" --data written.jsonl --data texts.jsonl,weight=0.25 \
        --data scenes.jsonl,weight=0.1 --dev choose.jsonl --in-batch 2 --batch-size 16 --steps "${STEPS:-1000}" \
        --eval-every "${EVAL_EVERY:-200}" --end-to-end --lora "${LORA:-rank=32,last=4}" --encoder-dropout 0 --lr 1e-3 \
        --encoder-lr 5e-4 -o run --resume
[ -d small ] || retrokit rerank shrink run -o small --language en
retrokit rerank calibrate ./small calibrate.jsonl --false-accept-rate 0.1
