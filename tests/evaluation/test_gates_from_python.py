"""Gates and baselines from Python: the same answers and the same files as from the command line."""

import json
from pathlib import Path

import pytest

import retrokit
from retrokit import cli
from retrokit.core.errors import UsageError
from retrokit.data.jsonl import to_json
from retrokit.evaluation.comparison.comparison import Evaluation
from tests.evaluation.test_gates import data, run_at  # noqa: F401  # a fixture


def option_words(settings: dict[str, object]) -> list[str]:
    """The settings as options of a command."""
    words = []
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        else:
            values = value if isinstance(value, list) else [value]
            words += [f"{option}={item}" for item in values]
    return words


def shown(evaluation: Evaluation) -> dict[str, object]:
    """The evaluation as the command prints it."""
    return json.loads(to_json(evaluation.to_json(), kind="evaluation"))


def raised(evaluation: Evaluation) -> tuple[int, list[str]]:
    """The exit code of the error that the gates raise, and its lines."""
    try:
        retrokit.check_gates(evaluation.gates)
    except retrokit.RetrokitError as error:
        return error.exit_code, str(error).splitlines()
    return 0, []


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"fail_under": ["mrr@10=0.4", "recall@7=0"], "fail_if_worse": True}, 1),
        ({"fail_under": ["mrr@10=0.3"]}, 0),
        ({"baseline": "before.json", "max_drop": 0.1, "save_baseline": "before.json"}, 1),
        ({"baseline": "before.json", "max_drop": 0.9, "save_baseline": "after.json"}, 0),
        ({"baseline": "before.json", "max_drop": 0.1, "gate_metric": "recall@5", "metrics": ["map@7"]}, 0),
        ({"fail_if_worse": True, "baseline_system": "run:third"}, 0),
        ({"save_run": "runs/", "save_baseline": "after.json"}, 0),
    ],
)
def test_the_answers_and_files_are_those_of_the_command(settings, code, data, tmp_path, monkeypatch, capsys):  # noqa: F811
    answers = []
    for caller in ("python", "command"):
        folder = tmp_path / caller
        folder.mkdir()
        monkeypatch.chdir(folder)
        first, third = (run_at(Path(name), rank) for name, rank in (("first", 1), ("third", 3)))
        task = f"beir:{data}"
        retrokit.evaluate([first, third], [task], metrics=["recall@5"], save_baseline="before.json")
        if "max_drop" in settings:
            first = run_at(Path("first"), 2)
        gates = {"junit": "junit.xml"} if {"fail_under", "max_drop", "fail_if_worse"} & settings.keys() else {}
        capsys.readouterr()
        if caller == "python":
            evaluation = retrokit.evaluate([first, third], [task], **settings, **gates)
            answer, (exit_code, failures) = shown(evaluation), raised(evaluation)
        else:
            words = ["eval", first, third, "--on", task, "--json", *option_words({**settings, **gates})]
            exit_code = cli.run(words)
            out, err = capsys.readouterr()
            answer = json.loads(out)
            failures = [line.removeprefix("retrokit: ") for line in err.splitlines() if "own on beir:" in line]
            failures = [line for line in failures if line in {gate["message"] for gate in answer["gates"]}]
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        answers.append((answer, exit_code, failures, files))
    python, command = answers
    assert python == command
    assert command[1] == code
    assert bool(command[2]) == bool(code)
    if "save_baseline" in settings:
        before, after = command[3]["before.json"], command[3].get("after.json")
        assert (after is None) == bool(code)
        assert after != before


@pytest.mark.parametrize("name", ["save_run", "save_baseline", "junit"])
def test_an_output_that_is_an_input_is_refused(name, data, tmp_path):  # noqa: F811
    run, corpus = run_at(tmp_path / "run", 1), data / "corpus.jsonl"
    settings = {name: str(corpus), "fail_under": ["mrr@10=0"]}
    before = corpus.read_bytes()
    with pytest.raises(UsageError, match=r"corpus\.jsonl: is an input too"):
        retrokit.evaluate([run], [f"beir:{data}"], **settings)
    with pytest.raises(UsageError, match=r"corpus\.jsonl: is an input too"):
        retrokit.rerank(run, [f"beir:{data}"], ["maxsim:static"], **settings)
    assert corpus.read_bytes() == before
