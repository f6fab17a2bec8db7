"""Gates and baselines from Python: the same answers and the same files as from the command line."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

import retrokit
from retrokit import cli
from retrokit.core.errors import UsageError
from retrokit.core.notices import listening
from retrokit.data.jsonl import to_json
from retrokit.evaluation.comparison.comparison import Evaluation
from tests.evaluation.fakes import Notices, write_lines
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


def test_reranking_has_the_same_gates(data, tmp_path, capsys):  # noqa: F811
    run_at(tmp_path / "run", 3)
    task, run, reranker = f"beir:{data}", str(tmp_path / "run"), "maxsim:static"
    retrokit.rerank(None, [task], [reranker], run=run, save_baseline=str(tmp_path / "before.json"))
    settings = {
        "run": run,
        "fail_under": ["mrr@10=0.5"],
        "baseline": str(tmp_path / "before.json"),
        "max_drop": 0.1,
        "fail_if_idle": True,
        "fail_if_worse": True,
        "save_baseline": str(tmp_path / "after.json"),
    }
    said = Notices()
    with listening(said):
        reranking = retrokit.rerank(None, [task], [reranker], retrokit.TwoStageOptions(**settings))
    assert said.messages[-1] == f"{tmp_path / 'after.json'}: not changed, because a gate failed"
    capsys.readouterr()
    words = ["rerank", "--on", task, "--with", reranker, "--json", *option_words(settings)]
    assert cli.run(words) == 1
    out, err = capsys.readouterr()
    gates = json.loads(to_json([vars(gate) for gate in reranking.whole.gates]))
    assert json.loads(out)["gates"] == gates
    assert {gate["setting"] for gate in gates} == {"fail_under", "max_drop", "fail_if_idle", "fail_if_worse"}
    exit_code, failures = raised(reranking.whole)
    assert exit_code == 1
    assert failures == [line.removeprefix("retrokit: ") for line in err.splitlines()[-len(failures) :]]
    assert not (tmp_path / "after.json").exists()


def test_no_baseline_is_saved_if_nothing_is_compared(data, tmp_path):  # noqa: F811
    run, kept = run_at(tmp_path / "run", 1), tmp_path / "kept.json"
    evaluation = retrokit.evaluate([run], [f"beir:{data}"], fail_if_worse=True, save_baseline=str(kept))
    with pytest.raises(UsageError, match=r"^`fail_if_worse=` compares nothing here: one system alone"):
        retrokit.check_gates(evaluation.gates)
    assert not kept.exists()


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


def test_a_stress_test_writes_its_gates(tmp_path):
    texts = [{"text": f"In {1950 + number} the red truck number {number} was in Kenya."} for number in range(40)]
    corpus = str(write_lines(tmp_path / "corpus.jsonl", texts))
    findings = retrokit.probe.stress(
        ["static:8"],
        corpus,
        with_="none",
        capabilities=["typos"],
        fail_under=["typos=1"],
        junit=str(tmp_path / "gates.xml"),
    )
    suite = ElementTree.parse(tmp_path / "gates.xml").getroot()
    assert suite.get("failures") == str(sum(gate.verdict == "failed" for gate in findings.verdicts)) == "1"
    with pytest.raises(retrokit.GateFailed, match=r"^static:8 on .*: typos = \d"):
        retrokit.check_gates(findings.verdicts)
