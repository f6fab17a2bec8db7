#!/usr/bin/env bash
# A single vector that separates near-misses: an encoder trained on relevance (titles and abstracts of papers) and on
# written near-misses, each family of edits with a share of its own (COMP, 3.1). OUT contains the output of
# relevance_and_identity.sh. A
# run is NAME:RELEVANCE,BINDING,NEGATION,SPATIAL:SIMILARITY, with shares of all batches. Existing results
# are not recomputed; near_miss_front.sh measures the runs.
#
#   bash examples/relevance_and_identity.sh papers/titles OUT "scifact data/cisi" "0" --steps 80
#   bash examples/first_stage.sh OUT minilm "relevance:1,0,0,0:cosine byedit:100,51,16,33:cosine" --lr 1e-4 --steps 80
#   bash examples/first_stage.sh OUT share-0 "structure:0,51,16,33:cosine both:100,51,16,33:cosine sfs:100,51,16,33:sfs:192" --steps 80 \
#       --lora rank=32,last=4,merge=true --dropout 0 --lr 5e-4
set -euo pipefail
cd "$1"
encoder=$2 runs=$3
shift 3

python - written.jsonl <<'PYTHON'
import json
import sys
from pathlib import Path

lines = Path(sys.argv[1]).read_text().splitlines(keepends=True)
for family in ("binding", "negation", "spatial"):
    Path(f"written-{family}.jsonl").write_text("".join(line for line in lines if json.loads(line)["family"] == family))
PYTHON

for run in $runs; do
    IFS=: read -r name shares sim <<<"$run"
    data=()
    for source in relevance written-binding written-negation written-spatial; do
        share=${shares%%,*} shares=${shares#*,}
        [ "$share" = 0 ] || # an epoch holds every record `weight` times
            data+=(--data "$source.jsonl,weight=$(python -c "print(round(1000 * $share / $(wc -l <$source.jsonl), 4))")")
    done
    grep -q '"finished"' "first-$name/retrokit.json" 2>/dev/null ||
        retrokit finetune "$encoder" "${data[@]}" --sim "$sim" --scale auto --batch-size 32 --max-length 64 "$@" \
            -o "first-$name" --resume
done
