"""What commands print with ``--json`` and write into files, in any test, held against their schemas."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from filelock import FileLock
from jsonschema import Draft202012Validator

from retrokit.cli import entry
from retrokit.cli.common import GroupWithDefault
from tests.samples import all_samples

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "make_schemas.py"
SAMPLES = all_samples()
FILES = {
    r"retrokit\.json": "file-run",
    r"\d+_Prepare/config\.json": "file-prepare",
    r"\d+_TokenPooling/config\.json": "file-token-pooling",
    r"build-sure\.json": "file-build-sure",
    r"export\.json": "file-export",
    r"unfinished\.json": "file-unfinished-export",
    r"canaries\.json": "file-canaries",
    r"ids\.jsonl": "file-ids",
    r"index-[^/]*\.json": "file-index-recall",
    r"[0-9a-f]{32}/kept\.json": "file-kept",
    r"retrokit/results/.*\.json": "file-mteb-queries",
    r"manifest\.jsonl": "file-sure-manifest",
    r"metrics\.jsonl": "file-metrics",
    r"[^/]*-[0-9a-f]{16}\.json": "file-result",
    **SAMPLES.file_schemas,
}
"""By the end of the file's path: the first that fits."""
KINDS = {"baseline": "file-baseline", **SAMPLES.file_kinds}
"""By the kind that a JSON file of any name begins with."""
LINES = {
    "augment-(crops|dropout|mask|mix|negatives)": "file-pairs",
    "search": "file-hits",
    "rerank-verify": "file-verdict",
    **SAMPLES.line_schemas,
}
"""By the command that writes the file, its words with dashes between."""


_rename = os.rename  # as it is before what is moved is checked
_python = os.environ.get("RETROKIT_TEST_PYTHON", sys.executable)  # that of a forked process is a script


@cache
def validator(name: str) -> Draft202012Validator:
    """Of the schema ``name``; the first process of a test run that needs one builds all."""
    folder = Path(os.environ["RETROKIT_TEST_SCHEMAS"])
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            new = folder.with_suffix(".new")
            subprocess.run([_python, SCRIPT, new], check=True)
            _rename(new, folder)
    return Draft202012Validator(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))


def check(name: str, *texts: str) -> None:
    """Raise ``ValidationError`` for JSON that is not as the schema says."""
    for text in texts:
        validator(name).validate(json.loads(text))


def check_file(path: Path, command: str = "") -> None:
    """Check a file of a kind that has a schema: it is known by its name, or what ``augment`` has written."""
    place = path.absolute().as_posix()
    found = next((schema for pattern, schema in FILES.items() if re.search(f"/{pattern}$", place)), None)
    if found is None and path.suffix == ".json":
        kind = re.match(rb'\{"kind": "([a-z-]+)"', path.read_bytes())
        found = KINDS.get(kind[1].decode()) if kind else None
    if found is None and path.suffix == ".jsonl":
        found = next((schema for pattern, schema in LINES.items() if re.fullmatch(pattern, command)), None)
    if found is not None:
        text = path.read_text(encoding="utf-8")
        check(found, *(text.splitlines() if path.suffix == ".jsonl" else [text]))


def watch() -> None:
    """From now on, in this process, check what commands print with ``--json``, and files that take their place."""
    invoke, echo = entry._invoke, typer.echo
    printed: list[str] = []
    running = [""]

    def echoed(message: Any = None, *args: Any, err: bool = False, **more: Any) -> None:
        if not err:
            printed.append(str(message))
        echo(message, *args, err=err, **more)

    def checked(move: Callable[..., None]) -> Callable[..., None]:
        def moved(source: Any, target: Any, **more: Any) -> None:
            move(source, target, **more)
            if isinstance(target, (str, Path)):
                path = Path(target)
                beside = [path.with_name("metrics.jsonl")] if path.name == "retrokit.json" else []
                for one in (path, *path.glob("*.json*"), *path.glob("*_*/config.json"), *beside):
                    if one.is_file():
                        check_file(one, running[0])

        return moved

    def invoked(command: Any, argv: Sequence[str]) -> int:
        printed.clear()
        running[0] = command_of(command, argv)
        try:
            return invoke(command, argv)
        finally:
            command_run, running[0] = running[0], ""
            if "--json" in argv or ("--format", "json") in pairwise(argv):
                check(command_run, *printed)
            if ("--format", "jsonl") in pairwise(argv):
                check(LINES[command_run], *printed)

    entry._invoke, typer.echo = invoked, echoed
    os.replace, os.rename = checked(os.replace), checked(os.rename)


def command_of(command: Any, argv: Sequence[str]) -> str:
    """The command that the words name, its own words with dashes between."""
    words = []
    for word in argv:
        if isinstance(command, GroupWithDefault) and word not in command.commands:
            word = command.default
        if word in getattr(command, "commands", {}):
            command = command.commands[word]
            words.append(word)
    return "-".join(words)
