"""Schemas are sound and listed, and every command with ``--json`` is held against one in all tests."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from jsonschema import Draft202012Validator, ValidationError

from retrokit import cli
from retrokit.cli import entry
from tests import schemas

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The script that writes the schemas."""
    spec = importlib.util.spec_from_file_location("make_schemas", DOCS / "make_schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their types
    spec.loader.exec_module(module)
    return module


def test_the_schemas_are_sound_and_listed(made):
    pages = [DOCS / "reference" / "schemas.md", *DOCS.parent.glob("retrokit/extensions/*/page.md")]
    listed = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name, text in made.documents().items():
        Draft202012Validator.check_schema(json.loads(text))
        assert f"`{name.removesuffix('.json')}`" in listed


def test_every_command_that_prints_json_has_a_schema(made):
    groups, found = [((), typer.main.get_command(cli.app))], set()
    while groups:
        words, command = groups.pop()
        groups += [((*words, name), one) for name, one in getattr(command, "commands", {}).items()]
        if any("--json" in param.opts for param in command.params):
            found.add("-".join(words))
    assert found == {name.removesuffix(".json") for name in made.documents() if not name.startswith("file-")}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("rerank minilm --on x --with maxsim --json", "rerank-run"),
        ("rerank train transformer minilm --json", "rerank-train"),
        ("--no-cache probe magnitude runs/a --json", "probe-magnitude"),
        ("build-sure agreement a.jsonl --json", "build-sure-agreement"),
    ],
)
def test_outputs_are_known_by_their_command(words, name):
    assert schemas.command_of(typer.main.get_command(cli.app), words.split()) == name


def test_output_that_is_not_as_its_schema_says_is_found(tmp_path, monkeypatch):
    cache = {"kind": "cache", "version": 1, "folder": "f", "limit": 1, "size": 0, "encoders": [], "folders": []}
    schemas.check("cache", json.dumps(cache))
    for wrong in ({**cache, "more": 1}, {**cache, "size": "0"}, {**cache, "kind": "x"}, {"folder": "f"}):
        with pytest.raises(ValidationError):
            schemas.check("cache", json.dumps(wrong))
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path))
    monkeypatch.setattr("retrokit.report.tables.cache_json", lambda found: ["{}"])
    with pytest.raises(ValidationError):
        entry.run(["cache", "--json"])


VERDICT = {**dict.fromkeys(("query", "kind", "annotator", "sample"), "a"), "qualified": False}


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("augment-crops", {"anchor": "a", "positive": "b"}),
        ("build-sure-judge", VERDICT),
        ("search", {"id": "q", "query": "a", "documents": [{"id": "d", "score": 0.5}]}),
        ("rerank-verify", {"text": "a", "candidate": "b", "score": 0.5, "accepted": True}),
    ],
)
def test_lines_are_known_by_the_command_that_writes_them(tmp_path, command, line):
    path = tmp_path / "out.jsonl"
    path.write_text(json.dumps(line) + "\n")
    schemas.check_file(path, command)
    path.write_text(json.dumps({key: value for key, value in line.items() if key != [*line][-1]}) + "\n")
    with pytest.raises(ValidationError):
        schemas.check_file(path, command)


def test_what_is_moved_into_place_is_checked(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "export.json").write_text('{"count": 1}')
    with pytest.raises(ValidationError):
        os.rename(tmp_path / "made", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        (
            "retrokit.json",
            {"kind": "run", "version": 1, "status": "finished", "similarity": "dot"},
            {"status": "begun", "similarity": "dot"},
        ),
        ("2_Prepare/config.json", {"similarity_spec": "dot", "prefixes": None}, {"similarity_spec": "dot"}),
        (
            "1_TokenPooling/config.json",
            {"embedding_dimension": 8, "position": 0, "token_id": None},
            {"embedding_dimension": 8, "position": "first", "token_id": None},
        ),
        (
            "unfinished.json",
            {"kind": "unfinished-export", "version": 1, "about": None, "rows": 1, "texts": 1, "ids": 12},
            {"about": None, "rows": 1},
        ),
        ("ids.jsonl", {"id": "d#0", "document": "d"}, {"id": 3}),
        (
            "index-hnsw.json",
            {"kind": "index-recall", "version": 1, "recall": {"10": 0.9}, "queries": 5},
            {"recall": {"10": None}, "queries": 5},
        ),
        (
            "0123456789abcdef0123456789abcdef/kept.json",
            {"kind": "kept", "version": 1, "name": "a", "said": "b"},
            {"name": "a"},
        ),
        (
            "retrokit/results/a/b/Task.json",
            {"kind": "mteb-queries", "version": 1, "metrics": {"ndcg@10": {"q": 0.5}}},
            {"ndcg@10": {"q": 0.5}},
        ),
    ],
)
def test_files_are_known_by_their_names(tmp_path, name, right, wrong):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(right))
    schemas.check_file(path)
    path.write_text(json.dumps(wrong))
    with pytest.raises(ValidationError):
        os.rename(path, path)
