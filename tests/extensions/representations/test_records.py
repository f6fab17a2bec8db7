"""The findings of the probes of embeddings, read again from the JSON that they print."""

import json
from pathlib import Path

import pytest

from retrokit.core.errors import DataError
from retrokit.data.jsonl import to_json
from retrokit.report.records import read_record
from tests.extensions.representations import gallery

PROBES = {
    "contrast": lambda: gallery.contrast(["a", "b"]),
    "layers": lambda: gallery.layers(["a", "b"]),
    "geometry": lambda: gallery.geometry(["a", "b"], 2),
    "map": lambda: gallery.labelled_map(["a", "b"]),
}
WRONG = {
    "labels": ([0], "a label of the classes and two coordinates"),
    "classes": (["a"], "a label of the classes"),
    "maps": ([{"encoder": 3}], "'maps.0.encoder' should be a string"),
}


def printed(name, found, tmp_path):
    """The file that a probe prints with ``--json``."""
    file = tmp_path / f"{name}.json"
    kind = {"kind": f"probe-{name}", "version": 1}
    file.write_text(json.dumps({**kind, **json.loads(to_json(found.to_json()))}), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("name", PROBES)
def test_findings_are_the_same_from_their_json(name, tmp_path):
    found = PROBES[name]()
    source = read_record(printed(name, found, tmp_path), "findings")
    assert source.record.conclusion == found.conclusion
    assert [(sheet.title, sheet.rows) for sheet in source.sheets] == [
        (sheet.title, sheet.rows) for sheet in found.sheets()
    ]


@pytest.mark.parametrize("field", WRONG)
def test_a_map_that_is_not_whole_is_one_line(field, tmp_path):
    value, problem = WRONG[field]
    file = printed("map", gallery.labelled_map(["a", "b"]), tmp_path)
    path = Path(file)
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, field: value}), encoding="utf-8")
    with pytest.raises(DataError, match=problem):
        read_record(file, "findings")
