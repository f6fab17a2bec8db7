"""Golden outputs: what some 80 commands print and write on tiny data, frozen before the code is moved, compared after.

    python -m tests.golden freeze BEFORE.json           # at the older commit
    python -m tests.golden freeze AFTER.json            # at the newer one, on the same machine
    python -m tests.golden compare BEFORE.json AFTER.json

Figures may differ in the last place between processors, so two files are compared only if one machine wrote them.
A file has, of each command, the exit code, both outputs, and each written file: JSON as a value, else a digest. What
differs between two runs of one commit (times, temporary folders, versions of the code) is left out.
"""

import argparse
import difflib
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import Any

PREPARED = """
augment crops in/texts.jsonl --sentences 1 -o crops.jsonl
augment dropout in/texts.jsonl --sentences 1 -o dropout.jsonl
augment mask in/texts.jsonl --encoder in/bert -o masked.jsonl
augment near-misses in/sentences.jsonl -o near.jsonl
augment mine in/pairs.jsonl --encoder static:8 --margin none --last-rank 7 -o mined.jsonl
augment mix in/pairs.jsonl,weight=2 crops.jsonl -o mixed.jsonl
augment split in/unrelated.jsonl -o split
augment score in/pairs.jsonl --with maxsim:encoder=in/bert -o scored.jsonl
finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 -o runs/cosine
finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 --sim qnorm -o runs/qnorm
finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 --sim learn -o runs/learn
finetune static:16 --data in/pairs.jsonl --steps 4 --batch-size 4 --sim sfs:4 --scale auto -o runs/sfs
finetune model:in/bert --data in/pairs.jsonl --steps 3 --batch-size 4 --eval beir:in/task -o runs/bert
finetune model:in/bert --data in/texts.jsonl --augment crops:sentences=1 --steps 2 --batch-size 4 -o runs/crops
finetune model:in/bert --data in/sts.jsonl --loss mse --steps 2 --batch-size 4 -o runs/sts
finetune model:in/bert --data in/pairs.jsonl --mini-batch 2 --steps 2 --batch-size 4 -o runs/cached
finetune model:in/bert --data in/pairs.jsonl --steps 2 --batch-size 4 --dry-run
rerank train cnn in/bert --data in/triplets.jsonl --steps 3 --batch-size 4 -o runs/cnn
rerank train cross-encoder in/bert --data in/pairs.jsonl --steps 2 --batch-size 4 -o runs/cross
export static:16 --on beir:in/task -o exported
export runs/qnorm --on beir:in/task --dtype int8 -o exported-int8
eval static:16 runs/cosine --on beir:in/task --save-baseline baseline.json
eval static:16 --on beir:in/task --save-run run.trec
"""
SHOWN = """
eval static:16 runs/cosine runs/qnorm --on beir:in/task
eval static:16 runs/cosine --on beir:in/task --json
eval static:16 runs/cosine --on beir:in/task --format csv
eval static:16 runs/cosine --on beir:in/task --format markdown
eval runs/qnorm --sim dot --on beir:in/task --json --per-query
eval bm25 static:16 hybrid:a=bm25,b=static:16 --on beir:in/task --json
eval runs/cosine --on beir:in/task --baseline baseline.json --max-drop 0.02
eval runs/cosine --on beir:in/task --fail-under ndcg@10=0.99
eval run:run.trec --on beir:in/task --json
eval static:16 --on sts:in/sts.jsonl --json
eval static:16 --on knn:in/labelled.jsonl,k=3 --json
eval static:16 --on classify:in/labelled.jsonl --json
eval static:16 --on cluster:in/labelled.jsonl --json
eval static:16 --on pairs:in/triplets.jsonl --json
eval static:16 --dims 8 --on beir:in/task --json
eval static:16 --quantize int8 --on beir:in/task --json
eval static:16 --on sure:in/sure,reference=bm25 --json
eval static:16 --on sure:in/sure,reference=maxsim:encoder=in/bert
eval two-stage:first=static:16,reranker=maxsim:encoder=in/bert --on beir:in/task --json
eval static:16 --on beir:in/task --results results --json
eval --results results
rerank static:16 --on beir:in/task --with maxsim:encoder=in/bert --json
rerank static:16 --on beir:in/task --with cnn:runs/cnn --with cross-encoder:runs/cross --json
rerank static:16 --on pairs:in/triplets.jsonl --with cnn:runs/cnn --json
rerank verify default in/verify.jsonl
rerank calibrate runs/cnn in/triplets.jsonl --false-accept-rate 0.5
search static:16 --corpus in/texts.jsonl --query "the cat sleeps"
search bm25 --corpus in/texts.jsonl --query "the cat sleeps" -k 3
search --index-folder exported --query "the cat sleeps"
probe magnitude runs/qnorm --on beir:in/task --json
probe magnitude static:16 --on beir:in/task
probe fisher static:16 --on beir:in/task --json
probe fragments static:16 --on beir:in/task --size 4 --json
probe contrast static:16 --on pairs:in/pairs.jsonl,a=anchor,b=positive --size 4 --json
probe near-miss static:16 --on pairs:in/triplets.jsonl --json
probe layers model:in/bert --on knn:in/labelled.jsonl --json
probe geometry static:16 --on beir:in/task --json
probe stress static:16 --texts in/sentences.jsonl --json
check in/task --json
check in/pairs.jsonl
names
names similarities
names encoders
cache
build-sure in/task --dry-run
eval static:16 --on beir:in/nowhere
eval statik:16 --on beir:in/task
finetune static:16 --data in/broken.jsonl -o runs/broken
finetune static:15 --data in/pairs.jsonl --batch-size 4 --sim sfs:4 -o runs/unmade
rerank static:16 --on beir:in/task --with nothing
--version
--help
augment --help
augment crops --help
finetune --help
finetune --help-all
eval --help
probe --help
rerank --help
build-sure --help
search --help
export --help
"""
UNSTABLE = re.compile(
    r".*seconds.*|.*_per_second|minutes|created|finished|started|added|made|checksum|versions?|commit|git|time|memory|"
    r"processor|hostname|python|platform|machine|software|environment|elapsed"
)
"""Keys of JSON whose values differ between two runs of one commit, or between commits by their nature."""
CHANGING = re.compile(r"\d+(\.\d+)? ?(ms|s|min|h|MB|GB|kB|texts/s|pairs/s)\b|\d+:\d\d(:\d\d)?|\d+(\.\d+)?/s\b")


def write_inputs(folder: Path) -> None:
    """A tiny encoder, and a file of each kind that the commands read."""
    from tests.models import make_bert, sentences
    from tests.sure_folders import small_folder

    folder.mkdir()
    make_bert(folder / "bert")
    animals, places = ("cat", "dog", "bird", "fish"), ("house", "tree", "river", "mountain")
    couples = [(animal, place) for animal in animals for place in places]
    texts = [
        f"The {animal} sleeps under the {place}, {'and it eats, ' * 11}as it did before. It likes the {place}, "
        f"{'and the others, ' * 8}and nobody else."
        for animal, place in couples
    ]
    rows(folder / "texts.jsonl", [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)])
    drawn = sentences(60)
    rows(folder / "pairs.jsonl", [{"anchor": first, "positive": second} for first, second in pairwise(drawn)])
    numbers = [{"anchor": f"w{number} v{number} u{number}", "positive": f"t{number}"} for number in range(40)]
    rows(folder / "unrelated.jsonl", numbers)
    plain = [f"The {animal} is not under the {place} in the night." for animal, place in couples]
    rows(folder / "sentences.jsonl", [{"text": text} for text in plain])
    triplets = [
        {
            "anchor": f"The {animal} is under the {place}.",
            "positive": f"Under the {place} is the {animal}.",
            "negatives": [f"The {animal} is not under the {place}."],
            "family": "negation",
        }
        for animal, place in couples + [(f"small {animal}", f"blue {place}") for animal, place in couples]
    ]
    rows(folder / "triplets.jsonl", triplets)
    rows(folder / "verify.jsonl", [{"text": row["anchor"], "candidate": row["positive"]} for row in triplets])
    rows(folder / "labelled.jsonl", [{"text": text, "label": "ab"[number % 2]} for number, text in enumerate(texts)])
    scored = [
        {"sentence1": first, "sentence2": second, "score": number % 6}
        for number, (first, second) in enumerate(pairwise(drawn))
    ]
    rows(folder / "sts.jsonl", scored)
    task = folder / "task"
    (task / "qrels").mkdir(parents=True)
    rows(task / "corpus.jsonl", [{"_id": f"d{number}", "text": text} for number, text in enumerate(texts)])
    rows(task / "queries.jsonl", [{"_id": f"q{number}", "text": text[:28]} for number, text in enumerate(texts)])
    judged = "".join(f"q{number}\td{number}\t1\n" for number in range(len(texts)))
    (task / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    small_folder(folder / "sure", 6)
    (folder / "study.toml").write_text('[augment.crops]\ninput = "in/texts.jsonl"\n')
    (folder / "broken.jsonl").write_text('{"anchor": "a", "positive": "b"}\n{"anchor": "c"\n')


def rows(path: Path, values: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def stable(value: Any) -> Any:
    """JSON without what differs between two runs."""
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items() if not UNSTABLE.fullmatch(key)}
    if isinstance(value, list):
        return [stable(inner) for inner in value]
    return value


def stable_text(text: str, folder: str) -> Any:
    """What was printed: as JSON if it is that, else its lines without paths and times."""
    text = text.replace(folder, "FOLDER")
    try:
        return stable(json.loads(text))
    except ValueError:
        return [CHANGING.sub("TIME", line).rstrip() for line in text.splitlines()]


def content(path: Path, folder: str) -> Any:
    """A written file: JSON and its lines as values, else a digest."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.name.removesuffix(".gz").endswith((".json", ".jsonl", ".md", ".toml", ".trec", ".tsv", ".txt", ".csv")):
        lines = data.decode("utf-8").replace(folder, "FOLDER").splitlines()
        if len(data) < 100_000:
            if path.suffix == ".json":
                return stable(json.loads("\n".join(lines)))
            if path.suffix == ".jsonl":
                return [stable(json.loads(line)) for line in lines]
            return lines
    return hashlib.sha256(data).hexdigest()


def freeze(target: Path) -> None:
    """Run all commands in a temporary folder, and write what they gave."""
    os.environ |= {"RETROKIT_CACHE": "off", "HF_HUB_OFFLINE": "1", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    target = target.absolute()
    from retrokit import cli

    outcomes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        os.chdir(folder)
        write_inputs(folder / "in")
        seen = files_in(folder)
        for line in filter(None, (PREPARED + SHOWN).splitlines()):
            out, err = io.StringIO(), io.StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                code = cli.run(shlex.split(line))
            new = {path: digest for path, digest in files_in(folder).items() if seen.get(path) != digest}
            seen |= new
            outcomes[line] = {
                "code": code,
                "stdout": stable_text(out.getvalue(), str(folder)),
                "stderr": stable_text(err.getvalue(), str(folder)),
                "files": {path: content(folder / path, str(folder)) for path in sorted(new) if not is_picture(path)},
            }
            print(f"{code} {line}", file=sys.stderr, flush=True)
        os.chdir("/")
    target.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False, sort_keys=True))


def is_picture(path: str) -> bool:
    return path.endswith((".png", ".svg", ".sqlite", ".pt", ".bin", ".html"))


def files_in(folder: Path) -> dict[str, str]:
    """The files below a folder, with a digest of each."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def compare(before: Path, after: Path) -> int:
    """Print what differs, command by command; the number of commands that differ."""
    first, second = json.loads(before.read_text()), json.loads(after.read_text())
    different = 0
    for line in [*first, *(line for line in second if line not in first)]:
        sides = [
            json.dumps(side.get(line), indent=1, ensure_ascii=False, sort_keys=True).splitlines()
            for side in (first, second)
        ]
        if sides[0] != sides[1]:
            different += 1
            print(f"=== {line}")
            print("\n".join(difflib.unified_diff(*sides, n=1, lineterm="")))
    print(f"{different} of {len(first | second)} commands differ")
    return different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("freeze", help="run the commands and write what they give").add_argument("target", type=Path)
    both = verbs.add_parser("compare", help="print what differs between two files")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    arguments = parser.parse_args()
    if arguments.verb == "freeze":
        freeze(arguments.target)
    else:
        sys.exit(compare(arguments.before, arguments.after) > 0)


if __name__ == "__main__":
    main()
