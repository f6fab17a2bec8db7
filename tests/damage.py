"""Files that retrokit writes and reads back, damaged at random: what each command makes of them.

python -m tests.damage [COUNT] [KIND]…    counts of outcomes by kind; default: 500 of each
"""

import contextlib
import copy
import gc
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from matplotlib.figure import Figure

from retrokit import cli
from tests.evaluation.fakes import write_folder, write_lines
from tests.models import sentences
from tests.samples import all_samples

SEED = 17
ENCODER = "static:dim=16,tokenizer=bert"


@dataclass(frozen=True)
class Kind:
    """A file by its path in the workshop, and the command line that reads it back.

    ``writes_checksum``: what a command checks before anything else, so that damage needs a new one to be read.
    """

    file: str
    command: str
    writes_checksum: bool = False


KINDS: dict[str, Kind] = {
    "export, search": Kind("ex/export.json", "search --index-folder ex --queries beir/queries.jsonl -o out"),
    "shard": Kind("shards/SHARD/export.json", "search --index-folder shards --queries beir/queries.jsonl -o out"),
    "chunked export": Kind("chunked/export.json", "search --index-folder chunked --queries beir/queries.jsonl -o out"),
    "unfinished export": Kind(
        ".unfinished.retrokit-tmp/unfinished.json", f"export {ENCODER} --on beir:beir -o unfinished"
    ),
    "ids": Kind("ex/ids.jsonl", "search --index-folder ex --queries beir/queries.jsonl -o out"),
    "embeddings": Kind("ex/embeddings.npy", "search --index-folder ex --queries beir/queries.jsonl -o out"),
    "table": Kind("ex/embeddings.parquet", "search --index-folder ex --queries beir/queries.jsonl -o out"),
    "ranges": Kind("int8/ranges.npy", "search --index-folder int8 --queries beir/queries.jsonl -o out"),
    "baseline": Kind("base.json", f"eval {ENCODER} --on beir:beir --baseline base.json"),
    "baseline of seeds": Kind("seeds.json", "eval trained trained2 --on beir:beir --baseline seeds.json"),
    "result": Kind("results/RESULT", "eval --results results", writes_checksum=True),
    "result, again": Kind("results/RESULT", f"eval {ENCODER} --on beir:beir --results results", writes_checksum=True),
    "run, eval": Kind("trained/retrokit.json", "eval trained --on beir:beir"),
    "run, probe": Kind("trained/retrokit.json", "probe magnitude trained --on beir:beir --checkpoints"),
    "checkpoint, probe": Kind(
        "trained/checkpoints/checkpoint-2/retrokit.json", "probe magnitude trained --on beir:beir --checkpoints"
    ),
    "metrics, probe": Kind("learned/metrics.jsonl", "probe magnitude learned --on beir:beir --checkpoints"),
    "prepare": Kind("learned/1_Prepare/config.json", "eval learned --on beir:beir"),
    "run, resume": Kind("stopped/retrokit.json", "RESUME"),
    "metrics, resume": Kind("stopped/metrics.jsonl", "RESUME"),
    "trainer state": Kind("stopped/checkpoints/checkpoint-2/trainer_state.json", "RESUME"),
    "checkpoint, resume": Kind("stopped/checkpoints/checkpoint-2/retrokit.json", "RESUME"),
    "state": Kind("stopped/checkpoints/checkpoint-2/state.pt", "RESUME"),
    "config": Kind("trained/config.toml", "finetune --config trained/config.toml --steps 1 --batch-size 8 -o out"),
    "verifier": Kind("verifier/retrokit.json", f"rerank {ENCODER} --on beir:beir --with verifier:verifier"),
    "verifier, weights": Kind("verifier/WEIGHTS", "rerank verify verifier triplets.jsonl -o out"),
    "index recall": Kind("ex/RECALL", "search --index-folder ex --queries beir/queries.jsonl --index HNSW32 -o out"),
    "SURE passages": Kind("sure/passages.jsonl", f"eval {ENCODER} --on sure:sure,reference=bm25"),
    "SURE record": Kind("sure/build-sure.json", f"eval {ENCODER} --on sure:sure,reference=bm25"),
    "answers": Kind("answers.jsonl", "build-sure law --llm replay:answers.jsonl -o out --limit 3"),
    "answer cache": Kind(
        "store.sqlite", "build-sure law --llm replay:answers.jsonl -o out --store store.sqlite --limit 3"
    ),
    "near-misses": Kind("edits.jsonl", f"probe near-miss {ENCODER} --on pairs:edits.jsonl"),
    "mined": Kind(
        "mined.jsonl", f"finetune {ENCODER} --data mined.jsonl --loss margin-mse --steps 1 --batch-size 8 -o out"
    ),
    "TREC run": Kind("run.trec", f"rerank --run run.trec --on beir:beir --with {ENCODER}"),
    **{name: Kind(file, words) for name, (file, words) in all_samples().damaged.items()},
}

RAW = {
    "infinite": "1e400",
    "minus infinity": "-Infinity",
    "NaN": "NaN",
    "huge": "9" * 400,
    "beyond Python": "9" * 5000,
    "deep": "[" * 900 + "]" * 900,
    "too deep": "[" * 100_000 + "]" * 100_000,
    "surrogate": '"\\ud800"',
    "NUL": '"a\\u0000b"',
}
VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 0.5, -0.5, 1e308, -1e308, 1 << 31, 1 << 63, -(1 << 63), 1e-320),
    *("", "x", "cosine", "../../x", "x" * 100_000, "\u202e", "1", "finished", "2"),
    *([], {}, [None], [1], ["x"], [[]], {"a": None}, {"": 1}, {"x": {}}, [{}], [0.5, "x"], {"spec": "x"}),
    *(f"raw:{name}" for name in RAW),
]
LATER = [2, 99, 0, -1, "1", None, 1.5, True, 10**30]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within ``value``; of long lists and tables of numbers, the first and the last."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
        if len(keys) > 4 and all(isinstance(item, (int, float)) for item in value.values()):
            keys = [*keys[:2], keys[-1]]
    elif isinstance(value, list):
        keys = [*range(min(3, len(value))), *range(max(3, len(value) - 1), len(value))]
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def damaged_value(value: Any, draw: random.Random, number: int) -> tuple[str, Any]:
    """What was done, and a copy of ``value`` in which one thing is other: by the ``number``, each place in turn."""
    value = copy.deepcopy(value)
    paths = list(places(value))
    if not paths:
        return "replaced", draw.choice(VALUES)
    random.Random(SEED).shuffle(paths)
    path = paths[number % len(paths)]
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    key, before = path[-1], holder[path[-1]]
    name = ".".join(map(str, path))
    match draw.randrange(8):
        case 0:
            del holder[key]
            return f"removed {name}", value
        case 1 if isinstance(holder, dict):
            holder[key + "x"] = holder.pop(key)
            return f"renamed {name}", value
        case 2 if isinstance(holder, list):
            holder.append(copy.deepcopy(before))
            return f"repeated {name}", value
        case 3 if isinstance(before, (int, float)) and not isinstance(before, bool):
            holder[key] = draw.choice([-before, before + 1, before * 1000, before / 3, str(before), int(before) - 1])
            return f"{name} = {holder[key]!r}", value
        case 4:
            holder[key] = [before]
            return f"{name} in a list", value
        case 5 if isinstance(value, dict) and "version" in value:
            value["version"] = draw.choice(LATER)
            return f"version = {value['version']!r}", value
        case _:
            holder[key] = draw.choice(VALUES)
            return f"{name} = {str(holder[key])[:30]!r}", value


def written(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON, the raw values in it as they are."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return re.sub(r'"raw:([^"]*)"', lambda match: RAW[match[1]], text)


def damaged_bytes(content: bytes, draw: random.Random) -> tuple[str, bytes]:
    """What was done, and the bytes near ``content``."""
    start = draw.randrange(len(content) + 1)
    match draw.randrange(7):
        case 0:
            return f"cut at {start}", content[:start]
        case 1:
            insertion = draw.choice([b"\xff", b"\0", b"\n", b'"', b"\xc3", b"\t", b"{", b"\xef\xbb\xbf"])
            return f"{insertion!r} at {start}", content[:start] + insertion + content[start:]
        case 2:
            return "empty", draw.choice([b"", b" \n", b"\n\n"])
        case 3:
            return f"random at {start}", content[:start] + draw.randbytes(4) + content[start + 4 :]
        case 4:
            first = re.search(rb'"[a-z_@0-9]+": ?', content[start:])
            if first:
                at = start + first.start()
                return f"key repeated at {at}", content[:at] + first[0] + b"null, " + content[at:]
            return "twice", content * 2
        case 5:
            return f"swapped at {start}", content[start:] + content[:start]
        case _:
            gap = draw.randrange(1, 60)
            return f"{gap} bytes lost at {start}", content[:start] + content[start + gap :]


def damaged(kind: Kind, content: bytes, draw: random.Random, number: int) -> tuple[str, bytes]:
    """What was done to a file of that kind, and its bytes."""
    ending = Path(kind.file).suffix
    if ending not in (".json", ".jsonl", ".trec") or draw.random() < 0.15:
        return damaged_bytes(content, draw)
    if ending == ".json":
        what, value = damaged_value(json.loads(content), draw, number)
        if kind.writes_checksum and isinstance(value, dict):
            value = with_checksum(value)
        return what, written(value).encode("utf-8", "surrogatepass")
    lines = content.decode().splitlines()
    line = draw.randrange(len(lines))
    if ending == ".trec":
        cells = lines[line].split(" ")
        column = draw.randrange(len(cells))
        cell = draw.choice(["", "nan", "inf", "1e999", "-1", "9" * 30, "x", "\0", "٣", "a b", "0x1", "1_0"])
        cells[column] = cell
        what, lines[line] = f"{line + 1}:{column} = {cell!r}", " ".join(cells)
    elif draw.random() < 0.1:
        what, lines[line] = f"line {line + 1}", written(draw.choice(VALUES))
    else:
        what, value = damaged_value(json.loads(lines[line]), draw, number)
        what, lines[line] = f"{line + 1}: {what}", written(value)
    return what, ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def with_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """As a results folder writes it, so that what is damaged is not only the sum."""
    from retrokit.evaluation.comparison.results_folder import _checksum

    rest = {name: value for name, value in content.items() if name != "checksum"}
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        rest = {"checksum": _checksum(json.loads(written(rest))), **rest}
    return rest


@dataclass(frozen=True)
class Outcome:
    """Of one damaged file: ``sound``, ``refused`` in one line that names the file, or what is wrong."""

    kind: str
    what: str
    verdict: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.verdict not in ("sound", "refused")


def make_sound(folder: Path) -> None:
    """Sound files of all kinds in ``folder``, made by the commands themselves; and the names that these chose."""
    folder.mkdir(parents=True)
    with contextlib.chdir(folder):
        names = _make()
        Path("names.json").write_text(json.dumps(names))


class Workshop:
    """A copy of the ``sound`` files, in which one at a time is damaged."""

    def __init__(self, sound: Path, folder: Path) -> None:
        self.folder, self.sound = folder, sound
        self._names = json.loads((sound / "names.json").read_text())
        shutil.copytree(sound, folder, symlinks=True)

    def kind(self, name: str) -> Kind:
        """The kind, with the names that were only known when its file was there."""
        kind = KINDS[name]
        file, command = kind.file, kind.command
        for short, long in self._names.items():
            file = file.replace(short, long)
            command = long if command == short else command
        return Kind(file, command, kind.writes_checksum)

    def outcomes(self, name: str, count: int) -> Iterator[Outcome]:
        """What becomes of ``count`` damaged files of that kind."""
        kind = self.kind(name)
        content = (self.sound / kind.file).read_bytes()
        draw = random.Random(f"{SEED} {name}")
        self._restore(kind)
        sound = self._run(kind)
        gc.freeze()  # what this imported: the collections of later runs need not look at it
        yield Outcome(name, "nothing", sound.verdict if sound.verdict != "refused" else "wrongly refused", sound.detail)
        for number in range(count):
            what, bytes_ = damaged(kind, content, draw, number)
            self._restore(kind)
            (self.folder / kind.file).write_bytes(bytes_)
            outcome = self._run(kind)
            yield Outcome(name, what, outcome.verdict, outcome.detail)
        self._restore(kind)

    def _restore(self, kind: Kind) -> None:
        top = kind.file.partition("/")[0]
        for name in ("out", "unfinished", top):
            path = self.folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if (self.sound / top).is_dir():
            shutil.copytree(self.sound / top, self.folder / top, symlinks=True)
        else:
            shutil.copy(self.sound / top, self.folder / top)

    def _run(self, kind: Kind) -> Outcome:
        with (
            contextlib.chdir(self.folder),
            patch.object(Figure, "savefig", _touch) if "finetune" in kind.command else contextlib.nullcontext(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            try:
                code = cli.run(kind.command.split())
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)
                own = [frame for frame in last if "/retrokit/" in frame.filename] or list(last)
                where = " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(own[-3:]))
                return Outcome("", "", "traceback", f"{type(error).__name__}: {str(error)[:100]} ({where})")
        errors = [line for line in said.getvalue().splitlines() if line.startswith("retrokit: ")]
        if code in (0, 1):  # 1: it is read, and what it says does not agree or fails a gate
            return Outcome("", "", "sound")
        if code not in (2, 4):  # 4: another name of a model may be the hub's
            return Outcome("", "", f"exit {code}", " | ".join(errors)[:200])
        if len(errors) != 1:
            return Outcome("", "", "not one line", said.getvalue()[-200:])
        named = any(part in errors[0] for part in Path(kind.file).parts)
        return Outcome("", "", "refused" if named else "unnamed", errors[0][:300])


def _touch(figure: Figure, path: Path, **options: Any) -> None:
    """In place of a drawing, which takes most of the time of a small training."""
    path.touch()


def _typed(line: str, into: str | None = None) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()) as said:
        code = cli.run(line.split())
    assert code == 0, f"{line}: {said.getvalue()[-500:]}"
    if into is not None:
        Path(into).write_text(shown.getvalue())


def _make() -> dict[str, str]:
    """All files; returns names that are known only now."""
    from tests.models import make_bert
    from tests.runs import killed_after
    from tests.sure.pretending import by_rules, write_beir_folder

    make_bert(Path("bert").absolute())
    texts = sentences(60, seed=5)
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    queries = {f"q{number}": " ".join(text.split()[:4]) for number, text in enumerate(texts[:24])}
    write_folder(Path("beir"), documents, queries, {f"q{number}": {f"d{number}": 1} for number in range(12)})
    dev = "".join(f"q{number}\td{number}\t1\n" for number in range(12, 24))
    Path("beir/qrels/dev.tsv").write_text("query-id\tcorpus-id\tscore\n" + dev)
    write_lines(Path("pairs.jsonl"), [{"anchor": " ".join(text.split()[:4]), "positive": text} for text in texts[:40]])
    rows = [
        {"anchor": text, "positive": f"{text} now", "negatives": [other], "family": "x"}
        for text, other in zip(texts[:30], texts[30:], strict=True)
    ]
    write_lines(Path("triplets.jsonl"), rows)
    scores = {"positive_score": 0.9, "negative_scores": [0.5]}
    mined = [{"anchor": text[:20], "positive": text, "negatives": [texts[0]], **scores} for text in texts[1:40]]
    write_lines(Path("mined.jsonl"), mined)
    write_lines(Path("near.jsonl"), rows[:4])
    long = "The temperature rose in May and it fell before June"
    write_lines(
        Path("texts.jsonl"), [{"id": f"t{number}", "text": f"{long}. {text}."} for number, text in enumerate(texts)]
    )
    write_lines(Path("labels.jsonl"), [{"text": text, "label": f"l{n % 2}"} for n, text in enumerate(texts)])

    trained = f"finetune {ENCODER} --data pairs.jsonl --steps 4 --batch-size 8 --log-every 1 --eval beir:beir"
    saving = "--save-every 2 --keep-checkpoints 9"
    _typed(f"{trained} {saving} -o trained")
    _typed(f"{trained} {saving} --seed 2 -o trained2")
    _typed(f"{trained} {saving} --sim learn -o learned")
    resume = f"{trained} {saving} -o stopped"
    with killed_after(3), contextlib.redirect_stderr(io.StringIO()):
        cli.run(resume.split())
    for name, words in {"ex": "", "shards": "--shard 1/2", "int8": "--dtype int8"}.items():
        _typed(f"export {ENCODER} --on beir:beir {words} -o {name}")
    _typed("export bert,chunks=8 --on beir:beir -o chunked")
    _typed(f"export {ENCODER} --on beir:beir --shard 2/2 -o shards")
    _make_unfinished()
    _typed("search --index-folder ex --queries beir/queries.jsonl --index HNSW32 -o hits.jsonl")
    _typed(f"eval {ENCODER} --on beir:beir --save-baseline base.json --save-run run.trec --json", "eval.json")
    _typed("eval trained trained2 --on beir:beir --save-baseline seeds.json")
    _typed(
        f"eval {ENCODER} bm25 trained trained2 --on beir:beir --explain 2 --trained-on pairs.jsonl --json",
        "several.json",
    )
    _typed(f"eval {ENCODER} --on beir:beir --results results")
    _typed(f"rerank {ENCODER} --on beir:beir --with maxsim --json", "rerank.json")
    _typed("check beir --json", "check.json")
    for name, words in {
        "magnitude": f"magnitude {ENCODER} --on beir:beir",
        "checkpoints": "magnitude learned --on beir:beir --checkpoints",
        "fragments": f"fragments {ENCODER} --on classify:labels.jsonl --size 8",
        "near-miss": f"near-miss {ENCODER} --on pairs:triplets.jsonl",
        "fisher": f"fisher {ENCODER} --on beir:beir",
    }.items():
        _typed(f"probe {words} --json", f"probe-{name}.json")
    for name, words in all_samples().printed.items():
        _typed(words, f"probe-{name}.json")
    _typed(f"rerank train cnn {ENCODER} --data triplets.jsonl --dev near.jsonl --epochs 1 --batch-size 8 -o verifier")
    _typed("rerank calibrate verifier triplets.jsonl --false-accept-rate 0.5")
    _typed("augment near-misses texts.jsonl -o edits.jsonl --per-family 3")
    names: dict[str, str] = {}
    for make in all_samples().makers.values():
        names |= make()
    write_beir_folder(Path("law"))
    _make_sure(by_rules)
    return {
        "SHARD": min(path.name for path in Path("shards").iterdir() if path.is_dir()),
        "RESULT": next(Path("results").iterdir()).name,
        "WEIGHTS": next(Path("verifier").glob("*.safetensors")).name,
        "RECALL": next(Path("ex").glob("index-*.json")).name,
        "RESUME": f"{resume} --resume",
        **names,
    }


def _make_unfinished() -> None:
    """As an interrupted export leaves it."""
    import pytest

    from retrokit.data import exports
    from retrokit.data.exports import ExportWriter

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(io.StringIO()):
        patch.setattr(exports, "CHUNK", 4)  # of which an interrupted export has whole ones
        patch.setattr(ExportWriter, "finish", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("killed")))
        with contextlib.suppress(RuntimeError):
            cli.run(f"export {ENCODER} --on beir:beir -o unfinished".split())


def _make_sure(by_rules: Callable[[str], str]) -> None:
    """A benchmark, and the recorded answers of its model."""
    from tests.llm.server import ChatServer, Plan, prompt_of

    with ChatServer(Plan(lambda body: by_rules(prompt_of(body)))) as server:
        llm = f"openai:m,url={server.url}"
        _typed(f"build-sure law --llm {llm} -o sure --store sure.sqlite --json", "built.json")
        rows = []
        for body in server.log.bodies:
            system, prompt = (message["content"] for message in body["messages"])
            rows.append({"system": system, "prompt": prompt, "answer": by_rules(prompt)})
        write_lines(Path("answers.jsonl"), rows)
    _typed("build-sure law --llm replay:answers.jsonl -o built --store store.sqlite")
    shutil.rmtree("built")


def main() -> None:
    """Print counts by kind, and an example of each fault."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    os.environ.update({"RETROKIT_CACHE": "off", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false"})
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(os.environ.get("SOUND") or Path(folder, "sound"))
        if not sound.exists():
            make_sound(sound)
        workshop = Workshop(sound, Path(folder, "work"))
        total = Counter[str]()
        for name in sys.argv[2:] or KINDS:
            start = time.perf_counter()
            outcomes = list(workshop.outcomes(name, count))
            counts = Counter(outcome.verdict for outcome in outcomes)
            total += counts
            numbers = ", ".join(f"{verdict} {number}" for verdict, number in counts.most_common())
            print(f"{name} ({time.perf_counter() - start:.0f} s): {numbers}", flush=True)
            shown = set()
            for outcome in outcomes:
                where = (outcome.verdict, outcome.detail.rpartition("(")[2])
                if outcome.is_fault and where not in shown:
                    shown.add(where)
                    print(f"    {outcome.verdict}: {outcome.what}: {outcome.detail}", flush=True)
    print(f"total: {dict(total)}")


if __name__ == "__main__":
    main()
