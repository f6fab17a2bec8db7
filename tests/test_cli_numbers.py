"""Absurd numbers, in every option of every command, in every spec and every configuration: one line each, exit code 2,
nothing left behind. What is tried is found from the commands and registries themselves."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

from retrokit import cli
from retrokit.cli.completion import CORE_KINDS
from retrokit.core.errors import LARGEST, LARGEST_WHOLE, UsageError
from retrokit.kinds import named
from retrokit.training.config import FinetuneConfig
from retrokit.training.rerankers.config import VerifierConfig

ABSURD = ("nan", "inf", "-inf", "1e300", "-1e300", "1" + 20 * "0", "9" * 5000, "0x10", "")

# Numbers that are written as text: with what stands before the number, and what the command then needs too.
IN_TEXT = [
    *(("finetune", option, []) for option in ("--scale=", "--adam-betas=", "--matryoshka=", "--time-budget=")),
    ("finetune", "--freeze=first:", []),
    ("cache", "--limit=", []),
    ("eval", "--fail-under=ndcg@10=", ["./nowhere", "--on=knn:./nowhere"]),
    ("rerank run", "--fail-under=ndcg@10=", ["./nowhere", "--on=pairs:./nowhere", "--with=maxsim"]),
]


def commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield (*names, name), command


ROOT = typer.main.get_command(cli.app)
COMMANDS = {" ".join(names): command for names, command in commands(ROOT)}


def kind(command: Any, param: Any) -> type | None:
    """Whether a parameter takes whole numbers, or others."""
    hint = get_type_hints(command.callback)[param.name] if param.name != "help" else bool
    parts = {hint, *get_args(hint), *(inner for part in get_args(hint) for inner in get_args(part))}
    return next((number for number in (int, float) if number in parts), None)


def content(command: Any, param: Any) -> str:
    """What a parameter that takes text declares: names of which kind, or what it reads or writes."""
    option = command.callback.call.options.get(param.name)
    return "" if option is None else str((option.param.kinds, option.param.reads, option.param.writes))


def takes_text(command: Any, param: Any) -> bool:
    return param.name != "help" and not getattr(param, "is_flag", False) and kind(command, param) is None


NUMERIC = {
    (name, param.opts[0]): (number, param.nargs, getattr(param, "min", None), getattr(param, "max", None))
    for name, command in COMMANDS.items()
    for param in command.params
    if (number := kind(command, param)) is not None
}
"""Every option that takes a number, with its type: the number's, how many, and its bounds."""
ONE_OF_EACH_TYPE = {number_type: key for key, number_type in reversed(NUMERIC.items())}.values()
ONE_OF_EACH_CONTENT = {
    content(command, param): (name, param)
    for name, command in COMMANDS.items()
    if name not in ("names", "cache")
    for param in command.params
    if takes_text(command, param)
}.values()


def words(name: str, without: str) -> list[str]:
    """The command with all that it needs or takes by default besides an option: of folders and files that are not
    there."""
    taken = {default.name for default in COMMANDS[name].entry.left_out}
    needed = []
    for param in COMMANDS[name].params:
        if (param.required or param.name in taken) and param.opts[0] != without:
            needed.append(param)
    given = [
        [f"{param.opts[0]}={5 if kind(COMMANDS[name], param) else './nowhere'}"]
        if param.param_type_name == "option"
        else ["cnn" if param.name == "verifier" else "./nowhere"]
        for param in needed
    ]
    return [*name.split(), *itertools.chain.from_iterable(given)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Run a command in an empty folder; what it said, after a look at the exit code and at what is left."""
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RETROKIT_CACHE", str(tmp_path / ".." / "cache"))
    monkeypatch.chdir(tmp_path)

    def one(*given: str) -> str:
        capsys.readouterr()
        assert cli.run(given) in (2, 4)  # 4: the model hub cannot be asked
        shown = capsys.readouterr()
        assert shown.out == ""
        assert all(line.startswith("retrokit: ") for line in shown.err.splitlines())
        assert list(Path(os.curdir).iterdir()) == []
        return shown.err

    return one


@pytest.mark.parametrize(("name", "option"), ONE_OF_EACH_TYPE)
def test_no_absurd_number_is_an_option(name: str, option: str, run: Any) -> None:
    of_its_kind = ["1.5", "-1"] if NUMERIC[name, option][0] is int else []  # whole numbers count something
    for value in (*ABSURD, *of_its_kind):
        assert option in run(*words(name, option), f"{option}={value}")


def test_every_option_of_a_number_has_bounds(run: Any) -> None:
    assert len(NUMERIC) > 80
    for name, option in NUMERIC:
        assert option in run(*words(name, option), f"{option}={20 * '9'}"), (name, option)


def test_all_numbers_out_of_range_are_named(run: Any) -> None:
    said = run(*words("finetune", ""), "--batch-size=99999999999", "--lr=inf", "--epochs=nan")
    assert [line.split()[1] for line in said.splitlines()] == ["--epochs", "--batch-size", "--lr"]


@pytest.mark.parametrize(("name", "option", "others"), IN_TEXT)
def test_no_absurd_number_in_text_is_an_option(name: str, option: str, others: list[str], run: Any) -> None:
    for value in ABSURD:
        said = run(*words(name, option), *others, f"{option}{value}")
        assert option.partition("=")[0] in said or repr(value)[:150].rstrip("'") in said, said


TEXTS = {
    "a name longer than the file system takes": 300 * "a",
    "a path longer than it takes": 3000 * "a/" + "x.jsonl",
    "the root": "model:/",
    "a file as a folder": "/dev/null/x",
    "nothing": "",
    "an escape sequence": "\x1b[31mred",
}
# Kinds of tasks and data whose path is overlong.
PATHS = ("beir:", "bright:", "sure:", "rag:", "knn:", "sts:", "pairs:", "classify:", "cluster:", "jsonl:", "model:")


@pytest.mark.parametrize(("name", "param"), ONE_OF_EACH_CONTENT, ids=lambda value: getattr(value, "name", value))
def test_no_odd_name_is_a_traceback(name: str, param: Any, run: Any) -> None:
    """With all others that are needed."""
    is_option = param.param_type_name == "option"
    before = words(name, param.opts[0])
    others = before if is_option or name != "eval" else [*before, "--on=beir:./nowhere"]
    for text in TEXTS.values():
        run(*others, *([f"{param.opts[0]}={text}"] if is_option else ["--", text]))


@pytest.mark.parametrize("kind_of_path", PATHS)
def test_no_overlong_path_is_a_traceback(kind_of_path: str, run: Any) -> None:
    for text in (TEXTS["a name longer than the file system takes"], TEXTS["a path longer than it takes"]):
        for said in (run("eval", "bm25", f"--on={kind_of_path}{text}"), run("eval", kind_of_path + text, "--on=knn:x")):
            assert all(len(line) < 1500 for line in said.splitlines())


@pytest.mark.parametrize("kind", [kind.name for kind in CORE_KINDS])
def test_no_absurd_number_is_in_a_spec(kind: str) -> None:
    registry = named(kind)
    for entry in registry.entries():
        for param in entry.params:
            if param.type in (int, float):
                for value in (*ABSURD, "-1"):
                    with pytest.raises(UsageError, match=f"{param.name}={value}"):
                        registry.parse(f"{entry.name}:{param.name}={value}")


def test_a_token_of_an_absurd_number_is_no_pooling() -> None:
    from retrokit.encoders import registry

    with pytest.raises(UsageError, match="is not mean, cls, last, sep or token"):
        registry.parse("minilm:pooling=token99999999999999999999")


CONFIGURATIONS: list[Any] = [
    (FinetuneConfig, {"encoder": "minilm", "data": ("x.jsonl",)}),
    (VerifierConfig, {"verifier": "cnn", "encoder": "minilm", "data": ("x.jsonl",)}),
]


@pytest.mark.parametrize(("made", "needed"), CONFIGURATIONS)
def test_no_absurd_number_is_in_a_configuration(made: type, needed: dict[str, Any]) -> None:
    numeric = {
        field.name: "tuple" in str(field.type) or "Sequence" in str(field.type)
        for field in fields(made)
        if "int" in str(field.type) or "float" in str(field.type)
    }
    assert len(numeric) > 10
    for name, is_several in numeric.items():
        for value in (float("nan"), float("inf"), float("-inf"), 1e300, 10**20, -1, LARGEST * 2, LARGEST_WHOLE + 1):
            given = (value, value) if is_several else value
            with pytest.raises(UsageError, match=f"`{name}=` .*(must be above 0|must be below 1|out of range)|rank="):
                made(**needed, **{name: given})
