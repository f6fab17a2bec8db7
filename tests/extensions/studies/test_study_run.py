"""A study's steps as Snakemake works through them: each once, again where something changed, and after a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("snakemake", reason="needs the extra study")

from retrokit.cli import run
from retrokit.core.errors import UsageError
from retrokit.core.outputs import locked
from retrokit.extensions.studies import command_lines, engine
from retrokit.extensions.studies.state import StudyPlan
from retrokit.extensions.studies.steps import read_study, steps_of
from tests import schemas
from tests.forked_python import KILL

STUDY = """
[augment.crops]
input = "texts.jsonl"
min-chars = 5

[augment.crops.matrix]
seed = [0, 1]

[augment.mix]
parts = ["{augment-crops}"]
"""
TEXTS = '{"text": "A cat sat on the mat. The dog ran to the park. Birds sing in the trees. Fish swim in rivers."}\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", python)  # the engine, its steps and their commands
    (tmp_path / "texts.jsonl").write_text(TEXTS)
    yield tmp_path
    for path in Path("out", "steps").glob("*.json"):  # of processes of their own
        schemas.check_file(path)


def plan(text: str = STUDY) -> StudyPlan:
    Path("study.toml").write_text(text)
    study = read_study("study.toml", command_lines)
    return StudyPlan(Path("out"), study.title, study.text, os.getcwd(), (), steps_of(study, "out", command_lines))


def begun() -> dict[str, int]:
    """When each step was last begun."""
    paths = Path("out", "steps").glob("*.begun.json")
    return {path.name.removesuffix(".begun.json"): path.stat().st_mtime_ns for path in paths}


def lines(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_a_change_is_done_again_with_what_depends_on_it_and_nothing_else():
    first = plan()
    engine.run(first)
    assert {state.state for state in first.states()} == {"done"}
    one, other, mixed = first.steps
    assert len(lines(mixed.output)) == len(lines(one.output)) + len(lines(other.output)) > 0
    before = begun()
    os.utime("texts.jsonl", (0, 0))  # as after a copy or a checkout
    engine.run(first)
    assert begun() == before, "nothing is done twice"

    changed = plan(STUDY.replace("[0, 1]", "[0, 2]"))
    engine.run(changed)
    assert {state.state for state in changed.states()} == {"done"}
    again = {name for name, at in begun().items() if before.get(name) != at}
    assert again == {changed.steps[1].name, changed.steps[2].name}

    time.sleep(0.01)
    Path("texts.jsonl").write_text(TEXTS * 2)
    now = begun()
    engine.run(changed)
    again = {name for name, at in begun().items() if now.get(name) != at}
    assert again == {step.name for step in changed.steps}, "its data are others"
    assert len(lines(changed.steps[0].output)) == 2


BROKEN = """
[[augment.crops]]
name = "broken"
input = "absent.jsonl"
min-chars = 5

[[augment.crops]]
name = "fine"
input = "texts.jsonl"
min-chars = 5

[augment.mix]
parts = ["{broken}", "{fine}"]
"""


LONG = """
[finetune]
encoder = "static:dim=128"
data = "pairs.jsonl"
batch-size = 32
steps = 300
"""


def test_a_step_that_fails_leaves_the_others_and_is_tried_again():
    failing = plan(BROKEN)
    broken, fine, mixed = engine.run(failing, jobs=2)
    assert (broken.state, fine.state, mixed.state) == ("failed", "done", "missing")
    assert broken.code == 2
    assert "absent.jsonl" in broken.last_word
    Path("absent.jsonl").write_text(TEXTS)
    whole = plan(BROKEN)
    before = begun()
    assert [state.state for state in engine.run(whole)] == ["done"] * 3
    assert begun()[fine.step.name] == before[fine.step.name]


def test_after_a_kill_the_same_command_goes_on():
    words = [sys.executable, "-m", "retrokit", "study", "run", "study.toml", "-o", "out"]
    planned = plan()
    study = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    next_begun = planned.marker(planned.steps[1], "begun.json")  # by then the engine knows that the first is done
    while not next_begun.exists():
        assert study.poll() is None
        time.sleep(0.01)
    study.send_signal(KILL)
    study.wait()
    before = begun()
    assert [state.state for state in engine.run(planned)] == ["done"] * 3
    assert begun()[planned.steps[0].name] == before[planned.steps[0].name], "what was done is not done again"


def test_a_signal_stops_a_training_which_then_goes_on():
    rows = [{"anchor": f"word{number} one", "positive": f"word{number} two"} for number in range(64)]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    planned = plan(LONG)
    study = subprocess.Popen([sys.executable, "-m", "retrokit", "study", "run", "study.toml", "-o", "out"])
    (step,) = planned.steps
    while not Path(step.output, "metrics.jsonl").exists():
        assert study.poll() is None
        time.sleep(0.05)
    study.send_signal(signal.SIGTERM)
    assert study.wait() == 128 + signal.SIGTERM
    (stopped,) = planned.states()
    assert stopped.state == "missing", "it has not failed"
    before = lines(f"{step.output}/metrics.jsonl")
    assert 0 < len(before) < 30
    (done,) = engine.run(planned)
    assert done.state == "done"
    after = lines(f"{step.output}/metrics.jsonl")
    assert after[: len(before) - 1] == before[:-1], "it went on from its checkpoint"
    assert len(after) >= 30


def test_two_studies_do_not_work_in_one_folder():
    planned = plan()
    with locked(planned.folder), pytest.raises(UsageError, match="is being written by another command"):
        engine.run(planned)


def test_a_page_tells_what_was_done_and_what_failed(capsys: pytest.CaptureFixture[str]):
    Path("absent.jsonl").write_text("no JSON\n")
    Path("study.toml").write_text(f'title = "<b>Crops</b>"\n{BROKEN}')
    assert run(["study", "run", "study.toml", "-o", "out"]) == 2
    said = capsys.readouterr().err
    assert "broken" in said
    assert "1 of 3 steps failed; 1 that depend on them were not started" in said
    page = Path("out", "report.html").read_text()
    assert "&lt;b&gt;Crops&lt;/b&gt;" in page
    assert "<b>Crops" not in page
    assert "Of 3 steps: 1 done, 1 failed, 1 missing" in page
    assert run(["study", "status", "out"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"fine\S+ +.? *done", table)
