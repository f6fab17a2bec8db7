"""The files of a study: damaged ones are named, and its states are rows, a table, and a record for reports."""

import json

import pytest

from retrokit.data.jsonl import to_json
from retrokit.extensions.studies.records import STEPS
from retrokit.extensions.studies.state import State, StudyPlan, StudyStates
from retrokit.extensions.studies.steps import Step
from tests.test_damaged_outputs import line_about

STEP = Step("eval-1", "eval", ("eval",), "eval.json", True, False, False, (), (), {"sim": "dot", "dims": 8})
LOST = Step("b", "finetune", ("finetune", "two words"), "b", False, True, True, (), (), {})
STATES = StudyStates(
    "Which?",
    "[eval]\n",
    [
        State(STEP, "done", 61.5, 0, None, "A; 2 cores"),
        State(LOST, "failed", 8.5, 2, "more\nretrokit: x.jsonl: does not exist"),
    ],
)


def test_the_states_of_a_study(tmp_path):
    made = StudyPlan(tmp_path, "", "", "", (), [STEP]).to_frame()
    assert made.iloc[0].drop("seconds").to_dict() == {
        **{"name": "eval-1", "table": "eval", "state": "missing"},
        **{"cell.sim": "dot", "cell.dims": 8},
    }


def test_states_are_the_same_from_their_json():
    plain = json.loads(to_json(STATES.to_json()))
    again = STEPS.read(plain)
    assert again == STATES
    assert again.conclusion == "Of 2 steps: 1 done, 1 failed, 0 missing (b)."
    assert again.seconds == 70
    file, steps = again.sheets()
    assert [row[0] for row in file.rows] == [("[eval]",)]
    assert [row[3] for row in steps.rows] == [("retrokit eval",), ("retrokit finetune 'two words'",)]
    (missing,) = again.missing()
    assert missing.rows[0][3] == ("more", "retrokit: x.jsonl: does not exist")
    assert StudyStates("t", "", STATES.states[:1]).missing() == []


@pytest.mark.parametrize(
    ("kind", "keys", "value", "problem"),
    [
        ("plan", ("steps", 0, "name"), "../x", "field 'steps.0.name' is '../x'"),
        ("plan", ("steps", 0, "command"), [], "is not the plan of a study: a step without a command"),
        *(
            (kind, ("version",), 2, "has version 2 of its format; expected version 1; update retrokit")
            for kind in ("plan", "step")
        ),
    ],
)
def test_what_is_wrong_is_named(workshop, kind, keys, value, problem, monkeypatch, capsys):
    monkeypatch.chdir(workshop.folder)
    assert problem in line_about(workshop, kind, keys, value, capsys)
