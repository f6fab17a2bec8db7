"""``--config FILE.toml`` of every command, and the file that a run leaves."""

import json
from pathlib import Path

import pytest
import torch
import typer

import retrokit
from retrokit import cli
from retrokit.data.jsonl import write_jsonl
from tests.models import sentences


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    write_jsonl(path, ({"id": f"d{place}", "text": text} for place, text in enumerate(sentences(12))))
    return path


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.toml"
    path.write_text(text, encoding="utf-8")
    return path


def commands(group, name=()):
    for key, command in group.commands.items():
        yield from commands(command, (*name, key)) if hasattr(command, "commands") else [(*name, key)]


def test_every_command_takes_one(tmp_path, typed):
    nothing = written(tmp_path, 'no-such-option = "x"\n')
    names = list(commands(typer.main.get_command(cli.app)))
    assert len(names) > 20
    for words in names:
        code, out, err = typed(*words, "--config", nothing)
        assert (code, out) == (2, ""), words
        assert err == f"retrokit: {nothing}: retrokit {' '.join(words)} has no option no-such-option\n"


def test_it_stands_for_what_is_typed_and_the_command_line_wins(corpus, tmp_path, typed):
    words = ["search", "static:8", "--corpus", corpus, "--query", "cat", "--query", "a dog", "-k", 3]
    _, expected, _ = typed(*words, "--format", "jsonl")
    given = {"system": "static:8", "corpus": str(corpus), "query": ["cat", "a dog"], "k": 3, "format": "jsonl"}
    config = written(tmp_path, "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()))
    assert typed("search", "--config", config) == (0, expected, "")
    _, expected, _ = typed(*words[:4], "--query", "bird", "-k", 1, "--format", "jsonl")
    assert typed("search", "--config", config, "--query", "bird", "-k", "1") == (0, expected, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batchsize = 8", "retrokit finetune has no option batchsize (did you mean batch-size?)"),
        ("fraction = 3", "retrokit finetune has no option fraction (that is of augment mask)"),
        ("config = 'x'", "retrokit finetune has no option config"),
        ("steps = ", "is not TOML: "),
        ("resume = 1", "resume is a switch; expected true or false"),
        ("steps = true", "steps should be a text or a number, or a list of them"),
        ("[data]\nfile = 'x'", "data should be a text or a number, or a list of them"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(tmp_path, typed, text, message):
    config = written(tmp_path, text)
    code, _, err = typed("finetune", "static:8", "--data", "p.jsonl", "--config", config)
    assert code == 2
    (line,) = err.splitlines()
    assert line.startswith(f"retrokit: {config}: ")
    assert message in line


def test_a_run_leaves_what_repeats_it(tiny_bert, tmp_path, typed):
    texts, pairs = sentences(64), tmp_path / 'pairs "of" two.jsonl'
    write_jsonl(pairs, ({"anchor": texts[i], "positive": texts[32 + i]} for i in range(32)))
    words = ["--data", pairs, "--sim", "learn", "--steps", 4, "--batch-size", 8, "--lr", 0.001, "--matryoshka", "4,8"]
    more = ["--adam-betas", "0.8,0.99", "--scale", "auto", "--device", "cpu", "--precision", "fp32", "--seed", 3]
    code, _, err = typed("finetune", tiny_bert, *words, *more, "-o", tmp_path / "one")
    assert code == 0, err
    config = tmp_path / "one" / "config.toml"
    code, _, err = typed("finetune", "--config", config, "-o", tmp_path / "two")
    assert code == 0, err
    assert (tmp_path / "two" / "config.toml").read_text() == config.read_text()
    ours, theirs = (retrokit.load(str(tmp_path / name)).model.state_dict() for name in ("one", "two"))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("lr = 0.0", "--lr 0.0 must be above 0"),
        ('eval = "x:y"', "unknown task 'x'"),
        ('loss = "x"', "unknown loss 'x'; known: infonce, kl, margin-mse, mse"),
    ],
)
def test_wrong_options_of_a_file_name_it(tmp_path, typed, line, problem):
    config, pairs = written(tmp_path, line), tmp_path / "pairs.jsonl"
    write_jsonl(pairs, ({"anchor": text, "positive": f"{text} now"} for text in sentences(8)))
    code, _, said = typed("finetune", "static", "--data", pairs, "-o", tmp_path / "out", "--config", config)
    assert code == 2
    assert f"retrokit: {problem}" in said
    assert said.endswith(f" (some options are from {config})\n")


def test_a_model_of_a_file_that_the_hub_lacks_names_the_file(tmp_path, typed):
    config, pairs = written(tmp_path, 'encoder = "org/gone"'), tmp_path / "pairs.jsonl"
    write_jsonl(pairs, ({"anchor": text, "positive": f"{text} now"} for text in sentences(8)))
    code, _, said = typed("finetune", "--data", pairs, "-o", tmp_path / "out", "--batch-size", 8, "--config", config)
    assert code == 4
    assert said.endswith(f" (some options are from {config})\n")
