"""Schemas are sound and listed, and every command with ``--json`` is held against one in all tests."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from jsonschema import Draft202012Validator

from retrokit import cli

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
