"""What the page is made from: damaged files are named, and no library of models is loaded."""

import pytest

from retrokit import cli
from tests.test_damaged_outputs import line_about


@pytest.mark.parametrize(
    ("kind", "keys", "value", "problem"),
    [
        ("eval --json", ("results", 0, "configuration", "dims"), [1], "'configuration.dims' should be a whole number"),
        *(
            (kind, ("version",), 2, "has version 2 of its format; expected version 1; update retrokit")
            for kind in ("eval --json", "check --json", "build-sure --json", "rerank --json", "probe fragments --json")
        ),
        ("run, report", ("version",), 2, "has version 2 of its format; expected version 1; update retrokit"),
    ],
)
def test_what_is_wrong_is_named(workshop, kind, keys, value, problem, monkeypatch, capsys):
    monkeypatch.chdir(workshop.folder)
    assert problem in line_about(workshop, kind, keys, value, capsys)


def test_a_folder_of_results_is_a_source(workshop, monkeypatch):
    monkeypatch.chdir(workshop.folder)
    assert cli.run(["report", "results", "-o", "page.html"]) == 0
    page = (workshop.folder / "page.html").read_text(encoding="utf-8")
    assert "<h3>results</h3>" in page
    assert "torch" in page  # the versions
