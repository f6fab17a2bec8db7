"""The description of a run: what is written is read, and whatever else lies there is one clear line."""

import json
from pathlib import Path

import pytest

from retrokit.core.errors import DataError, UsageError
from retrokit.data.runs import Run, add_to_run, read_run, write_run

RUN = Run(
    "finished",
    "learn",
    "minilm",
    {"seed": 0},
    steps=9,
    outcome={"steps": 9, "best_step": None},
    files=["model.safetensors"],
    notes={"retrokit": "1.0", "configuration": {"lr": 1e-3}},
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_run(RUN, tmp_path)
    assert read_run(tmp_path) == RUN
    add_to_run(tmp_path, calibration={"threshold": 0.5})
    assert read_run(tmp_path).calibration == {"threshold": 0.5}
    assert read_run(tmp_path).notes == RUN.notes
    assert json.loads((tmp_path / "retrokit.json").read_text())["configuration"] == {"lr": 1e-3}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", ":1: malformed JSON: Expecting property name"),
        ("[" * 100_000, "malformed JSON: nested too deeply; expected the description of a run"),
        ("\xff", "is not UTF-8 text (byte 0xff at position 1)"),
        ("[]", "is not the description of a run: expected an object, found a list"),
        ("null", "expected an object, found null"),
        ({"name": "package.json"}, "no field 'status'"),
        ({"status": "finished", "encoder": "minilm"}, "no field 'similarity'"),
        ({"status": "finished", "similarity": "cosine"}, "no field 'identity'"),
        (
            {"status": "done", "similarity": "cosine", "identity": {}},
            "field 'status' is 'done'; expected training or finished",
        ),
        ({"status": "finished", "similarity": 5, "identity": {}}, "'similarity' should be a string"),
        ({"status": "finished", "similarity": "dot", "identity": []}, "'identity' should be an object"),
        ({"status": "finished", "similarity": "dot", "identity": {}, "files": "all"}, "'files' should be a list"),
        ({"status": "finished", "similarity": "dot", "identity": {}, "files": [1]}, "'files.0' should be a string"),
        *(
            (
                {"status": "finished", "similarity": "dot", "identity": {}, "files": ["README.md", name]},
                f"'files.1' is {name!r}; expected the name of a file in the folder",
            )
            for name in ("../secret.txt", "/etc/passwd", "..", "sub/model.bin", "")
        ),
        ({"status": "finished", "similarity": "dot", "identity": {}, "outcome": {}}, "no field 'outcome.steps'"),
        ({"status": "finished", "similarity": "dot", "identity": {}, "steps": "9"}, "'steps' should be a whole number"),
        (
            {"status": "finished", "similarity": "dot", "identity": {}, "made_for": {"encoder": "minilm"}},
            "no field 'made_for.fingerprint'",
        ),
    ],
    ids=str,
)
def test_a_damaged_a_foreign_and_an_older_description(tmp_path: Path, content: object, said: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "retrokit.json").write_text(text, encoding="latin-1")
    with pytest.raises(DataError) as caught:
        read_run(tmp_path, "identity")
    assert str(caught.value).startswith(f"{tmp_path}/retrokit.json:")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_where_none_lies(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a verifier: it has no retrokit\.json"):
        read_run(tmp_path, what="verifier")
    with pytest.raises(UsageError, match=r"is not a retrokit run: it does not exist"):
        read_run(tmp_path / "gone")
    with pytest.raises(UsageError, match="its training is not finished"):
        Run("training", "cosine").finished(tmp_path)
