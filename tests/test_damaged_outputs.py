"""Files that retrokit writes, damaged and read back by the command line: each is read, or refused in one line.

``python -m tests.damage`` counts the outcomes of 500 damaged files of each kind.
"""

import json
from pathlib import Path

import pytest
from filelock import FileLock

from retrokit import cli
from tests import damage, forked_python
from tests.damage import KINDS, Outcome, Workshop

SAMPLE = 3


@pytest.fixture(scope="session")
def sound(base: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files of all kinds, made by the first worker that needs them; do not write into it."""
    folder = forked_python.BASE / "sound"
    with FileLock(f"{folder}.lock"), pytest.MonkeyPatch.context() as patch:
        if not folder.exists():
            patch.setenv("TRANSFORMERS_VERBOSITY", "error")
            patch.setenv("TOKENIZERS_PARALLELISM", "false")
            damage.make_sound(folder)
    return folder


@pytest.fixture
def workshop(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")  # what a command sets ends with the test
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    return Workshop(sound, tmp_path / "work")


def faults(workshop: Workshop, kind: str, count: int) -> list[Outcome]:
    return [outcome for outcome in workshop.outcomes(kind, count) if outcome.is_fault]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_named(workshop: Workshop, kind: str) -> None:
    assert faults(workshop, kind, SAMPLE) == []


def edit(path: Path, *keys: object, value: object = None) -> None:
    """Set a value within a JSON file; ``None`` removes it."""
    content = json.loads(path.read_text())
    holder = content
    for key in keys[:-1]:
        holder = holder[key]
    if value is None:
        del holder[keys[-1]]
    else:
        holder[keys[-1]] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("kind", "keys", "value", "problem"),
    [
        ("export, search", ("source", "spec"), None, "is not the note of an export: no field 'source.spec'"),
        ("export, search", ("encoder", "dims"), 17, "'encoder.dims' is 17; expected at most 16; export again"),
        ("export, search", ("count",), -1, "field 'count' is -1; expected at least 0"),
        ("export, search", ("role",), "x", "field 'role' is 'x'; expected document or query"),
        ("export, search", ("similarity", "spec"), "x", "'similarity.spec': unknown similarity 'x'; known: cosine"),
        ("export, search", ("similarity", "spec"), "sfs:0", "'similarity.spec': sfs:0: size"),
        ("prepare", ("similarity_spec",), "x", "unknown similarity 'x'; known: cosine"),
        ("export, search", ("one_length",), True, "has 16 dimensions, and queries 17; export again"),
        (
            "baseline",
            ("systems", 0, "results", 0, "configuration", "prompts"),
            True,
            "field 'results.0.configuration.prompts' should be an object, found true or false",
        ),
        ("metrics, probe", (), None, "metrics.jsonl:2: a loss of step 0 comes after that of step 4; remove the line"),
        ("run, probe", ("outcome",), None, "is not the description of a finished run: no field 'outcome'"),
        (
            "trainer state",
            ("stateful_callbacks", "TrainerControl"),
            None,
            "no field 'stateful_callbacks.TrainerControl'",
        ),
        ("trainer state", ("train_batch_size",), "2", "field 'train_batch_size' should be a whole number"),
        ("trainer state", ("best_model_checkpoint",), {"": 1}, "field 'best_model_checkpoint' should be a string"),
        *(
            (kind, ("version",), 2, "has version 2 of its format; expected version 1; update retrokit")
            for kind in ("export, search", "baseline", "run, eval")
        ),
    ],
)
def test_what_is_wrong_is_named(
    workshop: Workshop,
    kind: str,
    keys: tuple[object, ...],
    value: object,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(workshop.folder)
    line = line_about(workshop, kind, keys, value, capsys)
    assert problem in line


def line_about(
    workshop: Workshop, kind: str, keys: tuple[object, ...], value: object, capsys: pytest.CaptureFixture[str]
) -> str:
    """The line that refuses a file in the working folder after a change of it, which names the file."""
    read_back = workshop.kind(kind)
    path = Path(read_back.file)
    if keys:
        edit(path, *keys, value=value)
    else:
        path.write_text('{"step": 4, "loss": 1}\n{"step": 0, "loss": 1}\n')
    assert cli.run(read_back.command.split()) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("retrokit: ")]
    assert read_back.file in line
    return line


def test_a_result_of_a_later_version_is_named(workshop, monkeypatch, capsys):
    read_back = workshop.kind("result, again")
    monkeypatch.chdir(workshop.folder)
    path = Path(read_back.file)
    edit(path, "version", value=2)
    assert cli.run(read_back.command.split()) == 0
    said = capsys.readouterr().err
    assert f"{path}: has version 2 of its format; expected version 1" in said
    assert "computed again" in said
