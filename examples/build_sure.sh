#!/usr/bin/env bash
# retrokit build-sure from end to end: count, build, judge, compare, evaluate. No network, no GPU, no language model:
# rules replace it, so the texts are useless. With --llm openai:MODEL,url=ADDRESS they are real.
#
#     bash examples/build_sure.sh BEIR_FOLDER OUTPUT_FOLDER
#
# It needs the extras minilm and llm.
set -euo pipefail
data=$1 out=$2
mkdir -p "$out"

# A port that is free, or $PORT, or nothing: what listens on a port that is taken is somebody else's.
exec {said}< <(exec python "$(dirname "${BASH_SOURCE[0]}")/pretend_llm.py" --port "${PORT:-0}")
server=$!
trap 'kill "$server" 2> /dev/null || true' EXIT
read -r -u "$said" listening || exit 1
llm=openai:rules,url=${listening##* }

# What will it take?
retrokit build-sure "$data" --limit 20 --dry-run

# Build. Answers are cached in $out/benchmark.answers.sqlite: a second or resumed call requests none again.
retrokit build-sure "$data" --limit 20 --llm "$llm" -o "$out/benchmark" --overwrite

# A page for people, and a model (here the rules again) as one more annotator of the same sample.
retrokit build-sure audit "$out/benchmark" --sample 10 -o "$out/audit.html"
retrokit build-sure judge "$out/benchmark" --sample 10 --llm "$llm" --annotator rules -o "$out/verdicts-rules.jsonl"
retrokit build-sure agreement "$out/verdicts-rules.jsonl"

# The benchmark is read like the published ones. (corpus=FOLDER would search the data set's own corpus.)
retrokit eval static:dim=64 --on "sure:$out/benchmark,reference=maxsim"
