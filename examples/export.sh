#!/usr/bin/env bash
# Does a database that has only an inner product rank as the similarity does? Exports a BEIR folder, searches it in
# DuckDB, and compares with retrokit's exact search. No network for local encoders and data.
#
#     python -m pip install duckdb
#     bash examples/export.sh OUTPUT_FOLDER ENCODER BEIR_FOLDER [SIMILARITY ...]
#     bash examples/export.sh exported minilm data/scifact sfs:16 learn qnorm
#
# Ends with an error if any query's ten best documents differ.
set -euo pipefail
out=$1 encoder=$2 data=$3
shift 3
mkdir -p "$out"
for sim in "${@:-sfs:16}"; do
    here=$out/${sim//[^A-Za-z0-9.=_-]/-}
    mkdir -p "$here"
    retrokit export "$encoder" --on "beir:$data" --sim "$sim" -o "$here/documents" --overwrite
    retrokit export "$encoder" --on "beir:$data" --sim "$sim" --role query -o "$here/queries" --overwrite
    retrokit eval "$encoder" --on "beir:$data" --sim "$sim" --metrics ndcg@10,recall@30 --save-run "$here/exact.trec" >/dev/null
    echo "$sim:"
    python "$(dirname "$0")/search_in_stores.py" duckdb "$here/documents" "$here/queries" \
        --run "$here/duckdb.trec" --compare "$here/exact.trec"
done
