"""A study's file as steps: every combination, what waits for what, and what is refused."""

import re
from pathlib import Path

import pytest
import typer

from retrokit.cli import app, run
from retrokit.cli.commands import registry as commands
from retrokit.core.errors import RetrokitError
from retrokit.extensions.studies import command_lines
from retrokit.extensions.studies.steps import Step, read_study, steps_of
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
        ('encoder = "static:dim=8"', "", "study.toml: finetune: Missing argument 'ENCODER'"),
        ('"beir:data"', '"beir:data"\n[augment.crops]\nsentences = 1', "augment-crops: Missing argument 'INPUT'"),
        ('"beir:data"', '"beir:data"\n[probe.magnitude]\nencoders = "bm25"', "probe-magnitude: Missing option '--on'"),
        ("pairs.jsonl", "pears.jsonl", "study.toml: finetune: pears.jsonl: does not exist"),
        ("beir:data", "beir:cisii", "study.toml: eval: cisii: does not exist; expected a BEIR folder"),
        ("beir:data", "beir:data,split=tset", "study.toml: eval: data: has no split 'tset'; its splits are 'test'"),
        ('"beir:data"', '"beir:data"\nmetrics = "ndgc@10"', "eval: unknown metric 'ndgc@10' (did you mean ndcg@10?)"),
        ('"beir:data"', '"beir:data"\n[gates]\nfail-under="ndcg@10"', "gates: --fail-under ndcg@10: expected METRIC="),
        ('"beir:data"', '"beir:data"\n[gates]\nfail-under="ndgc@10=1"', "gates: unknown metric 'ndgc@10'"),
        ('"beir:data"', '"beir:data"\n[gates]\nmax-drop=0.1', "gates: --max-drop needs --baseline"),
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


ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "retrokit" / "extensions" / "studies" / "page.md"
BLOCKS = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
SHIPPED = [path.read_text() for path in sorted((ROOT / "docs" / "reproduction" / "studies").glob("*.toml"))]


@pytest.mark.parametrize("text", [*BLOCKS, *SHIPPED])
def test_the_studies_that_are_shown_can_be_run(tmp_path: Path, text: str):
    steps = planned(text, tmp_path)
    commands = {" ".join(step.command[: 1 + (step.command[0] == "rerank")]) for step in steps}
    needs_no_eval = "[eval]" not in text  # a script reads what was trained
    assert "finetune" in commands or {"rerank train", "rerank run"} <= commands
    assert needs_no_eval or "eval" in commands
    whole = typer.main.get_command(app)
    for step in steps:
        command, words = whole, list(step.command)
        while hasattr(command, "commands"):
            command = (
                command.commands[words.pop(0)] if words[0] in command.commands else command.commands[command.default]
            )
        command.make_context("retrokit", words)


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


def test_the_built_in_texts_are_no_missing_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETROKIT_DATA", str(tmp_path / "data"))
    study = "[probe.stress]\nencoders = 'bm25'\ntexts = 'docstrings,documents=100'\n"
    Path("study.toml").write_text(study)
    assert run(["study", "plan", "study.toml"]) == 0
    assert "docstrings,documents=100" in capsys.readouterr().out
