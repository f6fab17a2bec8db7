"""A study's file as steps: every combination, what waits for what, and what is refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from retrokit.cli import app, run
from retrokit.cli.commands import registry as commands
from retrokit.core.errors import DataError, RetrokitError
from retrokit.extensions.studies import command_lines, questions
from retrokit.extensions.studies import steps as steps_module
from retrokit.extensions.studies.questions import estimates
from retrokit.extensions.studies.state import StudyPlan
from retrokit.extensions.studies.steps import Form, Step, Study, StudyTable, read_study, steps_of
from tests import plugins
from tests.sure.pretending import write_beir_folder

WHOLE = """
title = "Which?"

[finetune]
encoder = "static:dim=8"
data = ["pairs.jsonl", "more.jsonl,weight=2"]

[finetune.matrix]
sim = ["cosine", { sim = "sfs:4", scale = 10 }]
seed = [0, 1]

[[finetune.exclude]]
sim = "sfs:4"
seed = 1

[[finetune.include]]
sim = "learn"
sim_lr = 0.1

[eval]
encoders = ["bm25", "{finetune}"]
on = "beir:data"

[probe.magnitude]
encoders = "{finetune}"
on = "beir:data"

[[rerank]]
name = "both"
encoders = ["{finetune}", "bm25"]
with = "maxsim"
on = "beir:data"
"""


def planned(text: str, folder: Path) -> list[Step]:
    path = folder / "study.toml"
    path.write_text(text)
    return steps_of(read_study(str(path), command_lines), str(folder / "out"), command_lines)


def test_every_combination_is_a_step_that_waits_for_what_it_reads(tmp_path: Path):
    steps = planned(WHOLE, tmp_path)
    trained = [step for step in steps if step.table == "finetune"]
    assert [step.cell for step in trained] == [
        {"sim": "cosine", "seed": 0},
        {"sim": "cosine", "seed": 1},
        {"sim": "sfs:4", "scale": 10, "seed": 0},
        {"sim": "learn", "sim-lr": 0.1},
    ]
    assert trained[2].command == (
        *("finetune", "static:dim=8", "--data=pairs.jsonl", "--data=more.jsonl,weight=2"),
        *("--sim=sfs:4", "--scale=10", "--seed=0", "--output", trained[2].output),
    )
    assert all(step.resumes and step.replaces and not step.prints and not step.after for step in trained)
    evaluated = [step for step in steps if step.table == "eval"]
    assert [step.command[1] for step in evaluated] == ["bm25", *(step.output for step in trained)]
    assert {step.output for step in evaluated} == {str(tmp_path / "out" / "eval")}, "one folder of results"
    assert [step.after for step in evaluated] == [(), *((step.name,) for step in trained)]
    probes = [step for step in steps if step.table == "probe-magnitude"]
    assert [step.after for step in probes] == [(step.name,) for step in trained]
    assert all(step.prints and step.output.endswith(".json") for step in probes)
    (both,) = (step for step in steps if step.table == "both")
    assert both.after == tuple(step.name for step in trained), "a list takes in all"
    assert len({step.name for step in steps}) == len({step.output for step in steps if step.table != "eval"}) + 5


def test_the_plan_is_one_whatever_the_order_of_sets(tmp_path: Path):
    (tmp_path / "study.toml").write_text(
        '[augment.mix]\nparts = ["{one}", "{two}"]\n[augment.crops]\nname = "one"\ninput = "a.jsonl"\n'
        '[augment.dropout]\nname = "two"\ninput = "a.jsonl"\n'
    )
    (tmp_path / "a.jsonl").touch()
    words = [sys.executable, "-m", "retrokit", "study", "plan", "study.toml", "--json"]
    plans = [
        subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE).stdout
        for seed in "0123"
    ]
    assert len(plans[0]) > 100
    assert len(set(plans)) == 1


def test_what_changes_gets_another_name_with_what_depends_on_it(tmp_path: Path):
    before = {step.name for step in planned(WHOLE, tmp_path)}
    after = {step.name for step in planned(WHOLE.replace("scale = 10", "scale = 5"), tmp_path)}
    kinds = sorted(name.partition(".")[0] for name in before - after)
    assert kinds == ["both", "eval", "finetune", "probe-magnitude"]
    assert len(before) == len(after)


def test_files_that_options_name_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("pairs.jsonl", "more.jsonl", "data/queries.jsonl", "data/qrels/test.tsv", "data/.hidden", "tokens/1"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    steps = planned(WHOLE.replace('"maxsim"', "'maxsim:static,cache=tokens'"), tmp_path)
    assert [Path(path).name for path in steps[0].reads] == ["more.jsonl", "pairs.jsonl"]
    assert [Path(path).name for path in steps[-1].reads] == ["test.tsv", "queries.jsonl"]  # no cache
    trained = '[rerank.train]\nverifier = "cnn"\nencoder = "minilm"\ndata = "pairs.jsonl"\ncache = "tokens"'
    (step,) = planned(trained, tmp_path)
    assert [Path(path).name for path in step.reads] == ["pairs.jsonl"]


MATRIX = "[finetune]\nencoder='static'\nsteps=5\n[finetune.matrix]\nsim=['cosine','dot']\n[[finetune.exclude]]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[finetun]\nencoder = 'a'", r"\[finetun\] is no command \(did you mean finetune\?\)"),
        ("[probe]\non = 'a'", "probe.on is no command; .probe. has magnitude"),
        ("[probe.magnitud]\non = 'a'", "did you mean magnitude"),
        ("[finetune]\nencoder = 'static'\ndata = 'a'\nepoch = 1", r"takes no epoch \(did you mean epochs\?\)"),
        ("[finetune]\nencoder = 'static'\ndata = 'a'\noutput = 'x'", r"takes no output.* \(the study gives it\)"),
        ("[eval]\nencoders = ['{tuned}']", r"\{tuned\} is no table of the study"),
        ("[eval]\nencoders = ['{eval}']", "wait for each other"),
        ("[finetune]\nencoder='a'\n[finetune.matrix]\nsim = 'cosine'", "matrix.sim should be a list of values"),
        ("[finetune]\nencoder='a'\n[finetune.matrix]\nseed = []", "matrix.seed is empty; expected a list of values"),
        ("[finetune]\nencoder='a'\n[finetune.matrix]", "matrix should be a table of one list or more"),
        ("[finetune]\nmatrix = 3", "matrix should be a table of one list or more"),
        (f"{MATRIX}simm = 'dot'", r"exclude: `retrokit finetune` takes no simm \(did you mean sim\?\)"),
        (MATRIX, "exclude is empty; expected options of a combination"),
        (f"{MATRIX}sim = 'qnorm'", 'exclude sim = "qnorm" matches no combination of the matrix'),
        (f"{MATRIX}steps = 5", "exclude leaves no combination of the matrix: steps = 5"),
        ("titel = 'T'", r"\[titel\] is no command \(did you mean title\?\)"),
        ("[finetune]\nsim='a'\n[finetune.matrix]\nsim = ['cosine']", "sim is in the table and in its matrix"),
        ("[finetune]\ninclude = 3", "include should be a list of tables"),
        ("[[eval]]\non='a'\n[[eval]]\non='b'", "several tables are called eval; give each a `name`"),
        ("[[eval]]\nname='a/b'\non='a'", "letters, digits"),
        ("[eval]\nencoders = ['bm25', 'bm25']\non = 'beir:a'", "two cells are the same: eval.bm25"),
        (
            "[augment.crops]\ninput = 'a\\u0000b'".replace("'", '"'),
            "contains a NUL character, which no command line takes",
        ),
        (f"[augment.crops]\ninput = '{'a' * 200_000}'", "is longer than 128 KiB, which no command line takes"),
        (f"[augment.crops]\nname = '{'a' * 101}'\ninput = 'a'", "at most 100 bytes"),
        ("[eval]\non = { a = 1 }", "on should be a text or a number"),
        ("[eval]\ncross = 3", "cross is a switch"),
        ("finetune = 3", "finetune should be a table"),
        ("title = 3", "title should be a text"),
        ("title = 'a'", "asks for nothing"),
        ("title = ", "is not TOML"),
    ],
)
def test_bad_studies_are_refused(tmp_path: Path, text: str, expected: str):
    with pytest.raises(RetrokitError, match=expected) as caught:
        planned(text, tmp_path)
    assert caught.value.exit_code == 2
    assert str(tmp_path / "study.toml") in str(caught.value)


def test_a_prompt_of_any_length_is_an_option_and_its_label_a_file_name(tmp_path: Path):
    prompts = ["Pick. " * 5_000, *(f"{letter}" * 300 for letter in "文æ")]
    axes = {f"{axis}-prompt": prompts for axis in ("query", "document", "q", "d")}
    text = f"[augment.crops]\ninput = {json.dumps(prompts[0])}\n"
    (step,) = planned(text, tmp_path)
    assert step.command[2] == prompts[0]
    assert step.reads == ()
    table = StudyTable("x", ("augment", "crops"), {}, axes)
    study = Study("study.toml", "", "", [table], {})
    commands = SimpleNamespace(
        line_of=lambda words, options, where: [str(options)], form_of=lambda words, where: Form("o", "", True, True)
    )
    steps = steps_of(study, "out", commands)
    assert len({step.name for step in steps}) == 3**4
    assert max(len(f"{step.name}.failed.json".encode()) for step in steps) <= 255


def test_a_study_has_a_largest_number_of_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    count = len(planned(WHOLE, tmp_path))
    monkeypatch.setattr(steps_module, "MOST", count)
    assert len(planned(WHOLE, tmp_path)) == count
    monkeypatch.setattr(steps_module, "MOST", count - 1)
    with pytest.raises(DataError, match=f"more than {count - 1} steps, .*; give its matrix fewer values"):
        planned(WHOLE, tmp_path)


def test_the_plan_is_commands_that_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("a b.jsonl").touch()
    (tmp_path / "study.toml").write_text("[augment.crops]\ninput = 'a b.jsonl'\nmin-chars = 5\n")
    assert run(["study", "plan", str(tmp_path / "study.toml"), "-o", "out"]) == 0
    comment, line, count = capsys.readouterr().out.splitlines()
    assert comment.startswith("# augment-crops.")
    assert line.startswith("retrokit augment crops 'a b.jsonl' --min-chars=5 --output out/augment-crops/")
    assert line.endswith(".jsonl")
    assert count == "# 1 step"


def test_a_folder_without_a_study_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["study", "status", str(tmp_path)]) == 2
    assert "contains no study" in capsys.readouterr().err
    (tmp_path / "plan.json").write_text("[]")
    assert run(["study", "status", str(tmp_path)]) == 2
    assert "is not the plan of a study" in capsys.readouterr().err


def test_without_snakemake_the_extra_is_named(tmp_path: Path):
    (tmp_path / "study.toml").write_text("[augment.crops]\ninput = 'a.jsonl'\n")
    (tmp_path / "a.jsonl").touch()
    hidden = "import sys; sys.modules['snakemake'] = None; from retrokit.cli import run; sys.exit(run(sys.argv[1:]))"
    words = [sys.executable, "-c", hidden, "study", "run", "study.toml", "-o", "out"]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 3
    assert "retrokit-ir[study]" in found.stderr


def test_a_mistyped_gate_is_found_before_anything_runs(tmp_path: Path):
    path = tmp_path / "study.toml"
    path.write_text("[eval]\nencoders = ['bm25']\non = 'a'\n[gates]\nfail_if_wors = true\n")
    study = read_study(str(path), command_lines)
    with pytest.raises(DataError, match="did you mean fail-if-worse"):
        command_lines.line_of(("eval",), study.gates, f"{path}: gates")


@pytest.mark.parametrize(
    ("words", "options", "said"),
    [
        (("finetune",), {"encoder": "minilm", "sim": "cosin"}, "sim: .*did you mean cosine"),
        (("eval",), {"encoders": ["minilm"], "on": ["beir:a", "bier:b"]}, "on: .*did you mean beir"),
    ],
)
def test_a_mistyped_name_is_found_before_anything_runs(words: tuple[str, ...], options: dict[str, Any], said: str):
    with pytest.raises(DataError, match=said):
        command_lines.line_of(words, options, "study.toml")
    assert command_lines.line_of(("finetune",), {"encoder": "minilm", "sim": "auto"}, "study.toml")


def test_a_switch_that_is_off_gives_no_word():
    options = {"mix": False, "encoder": "minilm", "no-duplicates": True, "eval": ["beir:a", "beir:b"]}
    words = ["finetune", "minilm", "--no-duplicates", "--eval=beir:a", "--eval=beir:b"]
    assert command_lines.line_of(("finetune",), options, "study.toml") == words


def test_a_word_is_as_long_as_its_bytes():
    """Of 128 KiB and more, Linux starts no command; a letter may be of two bytes."""
    limit = 128 << 10
    for text in ("a" * limit, "ä" * (limit // 2)):
        with pytest.raises(DataError, match="is longer than 128 KiB"):
            command_lines.line_of(("augment", "crops"), {"input": text}, "study.toml")
        assert command_lines.line_of(("augment", "crops"), {"input": text[1:]}, "study.toml")[2] == text[1:]


CHECKED = """
[finetune]
encoder = "static:dim=8"
data = "pairs.jsonl"
[eval]
encoders = ["bm25", "{finetune}"]
on = "beir:data"
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("static:dim", "statik:dim", "study.toml: finetune: encoder: unknown encoder 'statik' (did you mean static?)"),
        (
            '"static:dim=8"',
            '"static:dim=8"\nsteps = "five"',
            "study.toml: finetune: --steps five: expected a whole number",
        ),
        ('"static:dim=8"', '"static:dim=8"\nsteps = -5', "study.toml: finetune: --steps -5 is out of range"),
        ('"static:dim=8"', '"static:dim=8"\nscale = "autto"', "--scale autto: expected a number or auto"),
        ('"static:dim=8"', '"static:dim=8"\naugment = "crop"', "unknown augmentation 'crop' (did you mean crops"),
        ('data = "pairs.jsonl"', "", "study.toml: finetune: Missing option '--data'"),
        ("pairs.jsonl", "pears.jsonl", "study.toml: finetune: pears.jsonl: does not exist"),
        ("beir:data", "beir:cisii", "study.toml: eval: cisii: does not exist; expected a BEIR folder"),
        ("beir:data", "beir:data,split=tset", "study.toml: eval: data: has no split 'tset'; its splits are 'test'"),
        ('"beir:data"', '"beir:data"\nmetrics = "ndgc@10"', "eval: unknown metric 'ndgc@10' (did you mean ndcg@10?)"),
        ('"beir:data"', '"beir:data"\n[gates]\nfail-under="ndcg@10"', "gates: --fail-under ndcg@10: expected METRIC="),
        ('"beir:data"', '"beir:data"\n[gates]\nfail-under="ndgc@10=1"', "gates: unknown metric 'ndgc@10'"),
        ('"beir:data"', '"beir:data"\n[gates]\nmax-drop=0.1', "gates: --max-drop needs --baseline FILE"),
        (
            '"beir:data"',
            '"beir:data"\n[gates]\nbaseline-system="bm26"',
            "gates: --baseline-system bm26 is none of bm25",
        ),
    ],
)
def test_what_a_command_would_refuse_is_refused_before_anything_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    expected: str,
):
    monkeypatch.chdir(tmp_path)
    write_beir_folder(tmp_path / "data")
    Path("pairs.jsonl").touch()
    Path("study.toml").write_text(CHECKED)
    assert run(["study", "plan", "study.toml", "-o", "out"]) == 0
    assert CHECKED.count(before) == 1
    Path("study.toml").write_text(CHECKED.replace(before, after))
    for command in ("plan", "run"):
        assert run(["study", command, "study.toml", "-o", "out"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert expected in line
    assert not Path("out").exists()


def test_crops_of_a_corpus_need_no_split_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_beir_folder(tmp_path / "data")
    Path("study.toml").write_text(CHECKED.replace('"pairs.jsonl"', '"beir:data"\naugment = "crops"'))
    assert run(["study", "plan", "study.toml"]) == 0


def test_the_texts_of_any_probe_are_names_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").touch()
    Path("study.toml").write_text("[probe.geometry]\nencoders = 'static'\non = 'texts.jsonl'\n")
    assert run(["study", "plan", "study.toml"]) == 0
    Path("study.toml").write_text("[probe.geometry]\nencoders = 'static'\non = 'absent.jsonl'\n")
    assert run(["study", "plan", "study.toml"]) == 2
    assert "absent.jsonl: does not exist" in capsys.readouterr().err


ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "retrokit" / "extensions" / "studies" / "page.md"
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
SHIPPED = [path.read_text() for path in sorted((ROOT / "examples" / "studies").glob("*.toml"))]


@pytest.mark.parametrize("text", [*BLOCKS, *SHIPPED])
def test_the_studies_that_are_shown_can_be_run(tmp_path: Path, text: str):
    steps = planned(text, tmp_path)
    commands = {" ".join(step.command[: 1 + (step.command[0] == "rerank")]) for step in steps}
    assert {"finetune", "eval"} <= commands or {"rerank train", "rerank run"} <= commands
    whole = typer.main.get_command(app)
    for step in steps:
        command, words = whole, list(step.command)
        while hasattr(command, "commands"):
            command = (
                command.commands[words.pop(0)] if words[0] in command.commands else command.commands[command.default]
            )
        command.make_context("retrokit", words)


def test_times_are_told_before_anything_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", python)
    rows = [{"anchor": f"word{number} one", "positive": f"word{number} two"} for number in range(40)]
    Path("pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = """
    [finetune]
    encoder = "static:dim=8"
    data = "pairs.jsonl"
    batch-size = 10
    [finetune.matrix]
    epochs = [1, 3]
    [[finetune.include]]
    steps = 2
    [eval]
    encoders = "{finetune}"
    on = "beir:data"
    """
    steps = planned(text, tmp_path)
    monkeypatch.setattr(questions, "_start", lambda: 100.0)
    found = estimates(StudyPlan(tmp_path / "out", "", "", str(tmp_path), (), steps))
    once, thrice, two, *evaluated = found.values()
    assert once > 100, "a command starts first"
    assert thrice - 100 == pytest.approx(3 * (once - 100))
    assert two - 100 == pytest.approx((once - 100) / 2), "four batches are an epoch"
    assert evaluated == [None] * 3, "nothing was evaluated yet"
    assert not (tmp_path / "out").exists()


def test_an_estimate_names_the_steps_that_it_is_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    write_beir_folder(tmp_path / "data")
    Path("pairs.jsonl").touch()
    Path("study.toml").write_text(CHECKED)
    seconds = {"finetune": 60.0, "eval": None}
    monkeypatch.setattr(questions, "estimates", lambda plan: {step.name: seconds[step.table] for step in plan.steps})
    assert run(["study", "plan", "study.toml", "--estimate"]) == 0
    assert "about 0:01:00, without steps that have no estimate yet (2 of eval)" in capsys.readouterr().err


PLUGIN = """
from dataclasses import dataclass

from retrokit.cli.api import FILE, Settings, common, setting, show_result
from retrokit.cli.commands import CommandEntry

ENTRY = CommandEntry("count-words", "Count words.", "words_counted:count_words", prints="json")


@dataclass(frozen=True)
class CountSettings(Settings):
    place: str = setting(help="Texts.", argument=True, reads=FILE)
    measure: str = setting("cosine", "Similarity.", names="similarities")


def count_words(settings: CountSettings, as_json: bool = common("as_json")) -> None:
    show_result(as_json, "words", {}, "")
"""


def test_a_third_partys_command_is_a_step_whose_names_and_files_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    plugins.install(
        tmp_path / "site", "words_counted", {"words_counted": PLUGIN}, "[retrokit.commands]\nx = words_counted:ENTRY\n"
    )
    plugins.look_in(tmp_path / "site", commands, monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").touch()
    study = "[count-words]\nplace = 'texts.jsonl'\nmeasure = 'qnorm'\n"
    Path("study.toml").write_text(study)
    assert run(["study", "plan", "study.toml"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith("retrokit count-words texts.jsonl --measure=qnorm --json > study/count-words/")
    assert line.endswith(".json")
    wrong = {"texts.jsonl": "text.jsonl: does not exist", "qnorm": "unknown similarity 'qnor' (did you mean qnorm"}
    for value, expected in wrong.items():
        Path("study.toml").write_text(study.replace(value, value.replace("texts", "text").replace("qnorm", "qnor")))
        assert run(["study", "plan", "study.toml"]) == 2
        assert expected in capsys.readouterr().err


def test_a_command_without_a_result_is_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text("[names]\nkinds = 'encoders'\n")
    assert run(["study", "plan", "study.toml"]) == 2
    assert "study.toml: names: `retrokit names` has no result that a study can keep" in capsys.readouterr().err
