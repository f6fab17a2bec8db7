#!/usr/bin/env bash
# What default_verifier.sh learns near-misses from, written from examples/near_misses:
# written triplets, 600 of them held out (225 to choose the weights, 375 for the threshold), rewritings of the others'
# sentences, and scenes. Existing results are not recomputed.
#
#   bash docs/reproduction/scripts/near_miss_data.sh OUT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && cd "$1"

[ -f calibrate.jsonl ] || python - "$here/../../../examples/near_misses" <<'PYTHON'
import json
import random
import sys
from pathlib import Path

parts = {"rest": [], "corpus": [], "choose": [], "calibrate": []}
for name, choose, calibrate in (("train", 150, 250), ("styles", 75, 125)):
    lines = Path(sys.argv[1], f"{name}.jsonl").read_text().splitlines(keepends=True)
    order = list(range(len(lines)))
    random.seed(7)
    random.shuffle(order)
    held_out, rest = order[: choose + calibrate], order[choose + calibrate :]
    for part, rows in (("choose", sorted(held_out)[:choose]), ("calibrate", sorted(held_out)[choose:]), ("rest", sorted(rest))):
        parts[part] += [lines[row] for row in rows]
sentences = dict.fromkeys(text for row in map(json.loads, parts["rest"]) for text in (row["anchor"], row["positive"]))
parts["corpus"] = [json.dumps({"text": text}) + "\n" for text in sentences]
for name, part in parts.items():
    Path(f"{name}.jsonl").write_text("".join(part))
PYTHON

make() { [ -f "$1" ] || python "$here/$2" "${@:3}" -o "$1"; } # OUTPUT WORDS...
make scenes.jsonl verifier_scenes.py --count "${SCENES:-30000}"
make written.jsonl verifier_pairs.py mirrored rest.jsonl
make texts.jsonl verifier_pairs.py texts corpus.jsonl --per-family "${PER_FAMILY:-4000}"
