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
