#!/usr/bin/env bash
# What examples/default_verifier.sh and examples/cross_encoder.sh learn near-misses from, made from what lies in this folder:
# written triplets, 400 of them held out (150 to choose the weights, 250 for the threshold), rewritings of the others'
# sentences, and scenes. What is there already is not done again.
#
#   bash examples/near_miss_data.sh OUT
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
